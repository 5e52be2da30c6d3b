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
// A file is the one that its rank opened last under that name, since a program may write
// to a file after it has renamed it. Files that are there at the same time and then take
// one name stay apart, with their own names.
func (t *Trace) FollowRenames() {
	if len(t.Renames) == 0 {
		return
	}
	f := &follower{from: make(map[int32][]Renaming), gone: make(map[int32][]int64), apart: make(map[Renaming]bool)}
	for _, r := range t.Renames {
		if r.From != r.To {
			f.from[r.From] = append(f.from[r.From], r)
			f.gone[r.To] = append(f.gone[r.To], r.At)
		}
	}
	for i := range t.Events {
		if e := &t.Events[i]; e.Op == Unlink && len(f.from[e.File]) > 0 {
			f.gone[e.File] = append(f.gone[e.File], e.End)
		}
	}
	for _, times := range f.gone {
		slices.Sort(times)
	}
	for _, list := range f.from {
		slices.SortStableFunc(list, func(a, b Renaming) int { return cmp.Compare(a.At, b.At) })
	}
	f.contend(t)
	type name struct{ rank, file int32 }
	opened, byAny, became := make(map[name]int64), make(map[int32]int64), make(map[int32]int32)
	for i := range t.Events {
		e := &t.Events[i]
		if len(f.from[e.File]) == 0 {
			continue
		}
		at := e.Start
		switch e.Op {
		case Open:
			opened[name{e.Rank, e.File}], byAny[e.File] = at, at
		case Stat, Rename, Unlink: // by name
		default:
			last, ok := opened[name{e.Rank, e.File}]
			if !ok {
				last, ok = byAny[e.File]
			}
			if ok { // else the trace has no opens, and names are those at each call
				at = last
			}
		}
		was := e.File
		e.File = f.final(was, at)
		became[was] = e.File
	}
	t.Warnings = slices.Clone(t.Warnings)
	for i := range t.Warnings {
		t.Warnings[i].Files = follow(t.Warnings[i].Files, became)
	}
}

// follow gives warnings about files their last names.
func follow(files []WarnedFile, became map[int32]int32) (out []WarnedFile) {
	at := make(map[int32]int)
	for _, w := range files {
		if to, ok := became[w.File]; ok {
			w.File = to
		}
		i, ok := at[w.File]
		if !ok {
			at[w.File] = len(out)
			out = append(out, w)
			continue
		}
		out[i].Count, out[i].Bytes = Sum(out[i].Count, w.Count), Sum(out[i].Bytes, w.Bytes)
	}
	slices.SortFunc(out, func(a, b WarnedFile) int { return cmp.Compare(a.File, b.File) })
	return out
}

// A follower finds the last names of files.
type follower struct {
	from  map[int32][]Renaming // by the old name, in the order of time
	gone  map[int32][]int64    // when the file of a name was removed or replaced, in order
	apart map[Renaming]bool    // those whose file does not get the new name
}

// next returns the first renaming of the file that has a name at a time.
func (f *follower) next(file int32, at int64) (r Renaming, ok bool) {
	list := f.from[file]
	i, _ := slices.BinarySearchFunc(list, at, func(r Renaming, at int64) int { return cmp.Compare(r.At, at) })
	if i == len(list) {
		return r, false
	}
	gone := f.gone[file]
	if j, _ := slices.BinarySearch(gone, at); j < len(gone) && gone[j] < list[i].At {
		return r, false // another file has the name by then
	}
	return list[i], true
}

// final returns the last name of the file that has a name at a time.
func (f *follower) final(file int32, at int64) int32 {
	for {
		r, ok := f.next(file, at)
		if !ok || f.apart[r] {
			return file
		}
		file, at = r.To, r.At+1
	}
}

// contend finds the files that stay apart: another file is there already when they take
// its later name.
func (f *follower) contend(t *Trace) {
	begun := make(map[Renaming]int64) // the first event of the file
	for i := range t.Events {
		e := &t.Events[i]
		if len(f.from[e.File]) == 0 {
			continue
		}
		if r, ok := f.next(e.File, e.Start); ok {
			if _, ok := begun[r]; !ok {
				begun[r] = e.Start
			}
		}
	}
	last := make(map[int32]Renaming) // by the new name
	for _, r := range t.Renames {
		if r.From == r.To {
			continue
		}
		before, ok := last[r.To]
		start, seen := begun[r]
		if ok && seen && before.From != r.From && start < before.At {
			f.apart[before], f.apart[r] = true, true
		}
		last[r.To] = r
	}
}

// A Target is the new name of a file that is renamed.
type Target struct {
	File     int32 // index into Trace.Files
	Exchange bool  // the file of that name takes the old one
}

// Below returns the renamings of files below a directory, by the index of the event Rename
// of the directory. The targets are from Targets.
func (t *Trace) Below(targets map[int]Target) map[int][]Renaming {
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
	for i, to := range targets {
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
// of recorders that do not tell the new name are left out.
func (t *Trace) Targets() map[int]Target {
	type name struct {
		file int32
		at   int64
	}
	if len(t.Renames) == 0 {
		return nil // without a look at all events
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
