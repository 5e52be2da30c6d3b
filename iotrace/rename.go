package iotrace

import (
	"cmp"
	"slices"
	"strings"
)

// FollowRenames gives events the name that their file had at the end: a file that was
// written as x.tmp and then renamed to x is x. It changes the trace, and is for those
// who look at files; a replay needs the names as they were. The trace must be sorted.
//
// After a renaming, the events of the old name belong to the renamed file until an event
// opens the name again: a program may write to a file after it has renamed it.
func (t *Trace) FollowRenames() {
	if len(t.Renames) == 0 {
		return
	}
	from := make(map[int32][]Renaming) // by the old name, in the order of time
	for _, r := range t.Renames {
		if r.From != r.To {
			from[r.From] = append(from[r.From], r)
		}
	}
	for _, list := range from {
		slices.SortStableFunc(list, func(a, b Renaming) int { return cmp.Compare(a.At, b.At) })
	}
	opened := make(map[int32]int64) // the last open of each name, so far
	for i := range t.Events {
		e := &t.Events[i]
		list := from[e.File]
		if len(list) == 0 {
			continue
		}
		if e.Op == Open {
			opened[e.File] = e.Start
		}
		at, _ := slices.BinarySearchFunc(list, e.Start, func(r Renaming, start int64) int { return cmp.Compare(r.At, start) })
		if at > 0 {
			last, ok := opened[e.File]
			if before := list[at-1]; !ok || last < before.At {
				e.File = final(from, before)
				continue
			}
		}
		if at < len(list) {
			e.File = final(from, list[at])
		}
	}
}

// final returns the name at the end of a chain of renamings.
func final(from map[int32][]Renaming, r Renaming) int32 {
	for {
		list := from[r.To]
		at, _ := slices.BinarySearchFunc(list, r.At+1, func(r Renaming, start int64) int { return cmp.Compare(r.At, start) })
		if at == len(list) {
			return r.To
		}
		r = list[at]
	}
}

// A Target is the new name of a file that is renamed.
type Target struct {
	File     int32 // index into Trace.Files
	Exchange bool  // the file of that name takes the old one
}

// Below returns the renamings of files below a directory, by the index of the event Rename
// of the directory.
func (t *Trace) Below() map[int][]Renaming {
	type name struct {
		file int32
		at   int64
	}
	at, from := make(map[int64][]Renaming), make(map[name]bool)
	for _, r := range t.Renames {
		at[r.At] = append(at[r.At], r)
		from[name{r.From, r.At}] = true
	}
	out := make(map[int][]Renaming)
	for i, to := range t.Targets() {
		e := &t.Events[i]
		dir, other := t.Files[e.File]+"/", t.Files[to.File]+"/"
		for _, r := range at[e.End] {
			a, b := t.Files[r.From], t.Files[r.To]
			if to.Exchange && strings.HasPrefix(a, other) && !from[name{r.To, r.At}] {
				a, b = b, a // it alone changes its directory
			}
			if strings.HasPrefix(a, dir) && strings.HasPrefix(b, other) && a[len(dir):] == b[len(other):] {
				out[i] = append(out[i], r)
			}
		}
	}
	return out
}

// Targets returns the new names of renamed files, by the index of the event Rename. Events
// of recorders that do not tell the new name have none.
func (t *Trace) Targets() map[int]Target {
	type name struct {
		file int32
		at   int64
	}
	to := make(map[name]int32, len(t.Renames))
	for _, r := range t.Renames {
		to[name{r.From, r.At}] = r.To
	}
	out := make(map[int]Target)
	for i := range t.Events {
		e := &t.Events[i]
		if e.Op != Rename {
			continue
		}
		if file, ok := to[name{e.File, e.End}]; ok {
			back, exchanged := to[name{file, e.End}]
			out[i] = Target{file, exchanged && back == e.File && file != e.File}
		}
	}
	return out
}
