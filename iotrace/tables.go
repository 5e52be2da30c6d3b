package iotrace

// Tables build the tables of a trace. They give each rank and each file one index.
type Tables struct {
	t     *Trace
	ranks map[Rank]int32
	files map[string]int32
}

// NewTables returns the tables of a trace that has no ranks and files yet.
func NewTables(t *Trace) *Tables {
	return &Tables{t: t, ranks: make(map[Rank]int32), files: make(map[string]int32)}
}

// Rank returns the index of a rank.
func (x *Tables) Rank(r Rank) int32 {
	i, ok := x.ranks[r]
	if !ok {
		i = int32(len(x.t.Ranks))
		x.ranks[r] = i
		x.t.Ranks = append(x.t.Ranks, r)
	}
	return i
}

// Rename changes the rank with index i, unless the table has the new rank already.
func (x *Tables) Rename(i int32, r Rank) {
	if _, taken := x.ranks[r]; taken {
		return
	}
	delete(x.ranks, x.t.Ranks[i])
	x.t.Ranks[i] = r
	x.ranks[r] = i
}

// File returns the index of a path, which must not be empty.
func (x *Tables) File(path string) int32 {
	i, ok := x.files[path]
	if !ok {
		i = int32(len(x.t.Files))
		x.files[path] = i
		x.t.Files = append(x.t.Files, path)
	}
	return i
}

// FileBytes is File without making a string of a path that is known already.
func (x *Tables) FileBytes(path []byte) int32 {
	if i, ok := x.files[string(path)]; ok {
		return i
	}
	return x.File(string(path))
}
