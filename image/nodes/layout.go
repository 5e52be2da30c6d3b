package nodes

// UnitBytes is the length of the units that members' files are cut into.
const UnitBytes = 256 << 10

// A layout says where the units of a set are. In row r, the positions r, r+1, … r+m-1
// modulo n hold parity 0, 1, … m-1, and those after them data 0, 1, … n-m-1.
type layout struct {
	n, m int // members, and those that hold parity in a row
	unit int64
}

func newLayout(set Set, unit int64) (layout, error) {
	return layout{len(set.Members), set.Parity, unit}, set.Check()
}

// place returns where a position stands in a row: below m it holds that parity, and
// from m on it is data.
func (l layout) place(row int64, position int) int {
	return int((int64(position) - row%int64(l.n) + int64(l.n)) % int64(l.n))
}

// holder returns the position that holds parity j of a row.
func (l layout) holder(row int64, j int) int { return int((row + int64(j)) % int64(l.n)) }

// As rows go on, the place of a position falls: from its number to 0, then from n-1 on.
// So it holds parity in m rows of n that follow each other, and from the end of the n
// to their beginning if its number is below m: early are those at the beginning, and
// late is the first of the others.
func (l layout) parityRows(position int) (early, late int) {
	if position < l.m {
		return position + 1, l.n + position - l.m + 1
	}
	return 0, position - l.m + 1
}

// rowOf returns the row in which a unit of a member's file is.
func (l layout) rowOf(member int, unit int64) int64 {
	k := int64(l.n - l.m)
	early, late := l.parityRows(member)
	step := early + int(unit%k)
	if step >= late {
		step += l.m - early
	}
	return unit/k*int64(l.n) + int64(step)
}

// rowAt returns the row of which a parity file has a unit.
func (l layout) rowAt(position int, unit int64) int64 {
	early, late := l.parityRows(position)
	step := int(unit % int64(l.m))
	if step >= early {
		step += late - early
	}
	return unit/int64(l.m)*int64(l.n) + int64(step)
}

// parityUnit returns which unit of a parity file is that of a row of which it has one:
// how many it has of the rows before.
func (l layout) parityUnit(position int, row int64) int64 {
	early, late := l.parityRows(position)
	rest := int(row % int64(l.n))
	return row/int64(l.n)*int64(l.m) + int64(min(rest, early)+min(max(rest-late, 0), l.m-early))
}

// dataUnit returns which unit of a member's file is in a row in which it is data.
func (l layout) dataUnit(member int, row int64) int64 { return row - l.parityUnit(member, row) }

// Holders returns the positions of the holders that a member contributes to: all. The
// parity file of its own node has none of its bytes, but the length of its file.
func (s Set) Holders() []int {
	list := make([]int, len(s.Nodes))
	for i := range list {
		list[i] = i
	}
	return list
}
