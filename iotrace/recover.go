package iotrace

import (
	"fmt"
	"reflect"
	"slices"
)

// A table collects the entries of a list that the file has twice.
type table[T any] struct {
	list  []T
	later map[int64]T // entries behind a gap
}

// put adds the entry with a number. It reports whether it fits with what is there.
func (x *table[T]) put(at int64, entry T) bool {
	switch n := int64(len(x.list)); {
	case at < n:
		return reflect.DeepEqual(x.list[at], entry)
	case at == n:
		x.list = append(x.list, entry)
		return true
	}
	if x.later == nil {
		x.later = make(map[int64]T)
	}
	x.later[at] = entry
	return true
}

// merge moves the entries that no gap separates any more.
func (x *table[T]) merge() {
	for {
		entry, ok := x.later[int64(len(x.list))]
		if !ok {
			return
		}
		delete(x.later, int64(len(x.list)))
		x.list = append(x.list, entry)
	}
}

// takeTable reads a block of entries that the file has twice.
func takeTable[T any](r *reader, b block, x *table[T], read func() T) error {
	if r.damage == nil && b.first > int64(len(x.list)) {
		return fmt.Errorf("it begins with entry %d where %d should be", b.first, len(x.list))
	}
	return takeEntries(r, b, read, func(i int, entry T) error {
		if !x.put(b.first+int64(i), entry) {
			return fmt.Errorf("entry %d differs from the first one", b.first+int64(i))
		}
		return nil
	})
}

func takeList[T any](r *reader, b block, list *[]T, read func() T) error {
	if err := r.inOrder(b, int64(len(*list))); err != nil {
		return err
	}
	n := len(*list)
	err := takeEntries(r, b, read, func(_ int, entry T) error {
		*list = append(*list, entry)
		return nil
	})
	if err != nil {
		*list = (*list)[:n]
	}
	return err
}

func takeEntries[T any](r *reader, b block, read func() T, take func(int, T) error) error {
	d := &r.dec
	d.rest, d.err = b.payload, nil
	for i := range b.count {
		entry := read()
		if d.err != nil {
			return fmt.Errorf("entry %d: %w", i, d.err)
		}
		if err := take(i, entry); err != nil {
			return err
		}
	}
	if len(d.rest) > 0 {
		return fmt.Errorf("%d bytes follow the last entry", len(d.rest))
	}
	return nil
}

// merge puts the tables together and counts what was read.
func (r *reader) merge() {
	r.ranks.merge()
	r.files.merge()
	r.warned.merge()
	r.told.merge()
	for i, kind := range listed {
		switch kind {
		case kindRanks:
			r.got[i] = int64(len(r.ranks.list) + len(r.ranks.later))
		case kindFiles:
			r.got[i] = int64(len(r.files.list) + len(r.files.later))
		case kindWarnings:
			r.got[i] = int64(len(r.warned.list) + len(r.warned.later))
		case kindProperties:
			r.got[i] = int64(len(r.told.list) + len(r.told.later))
		case kindCounters:
			r.got[i] = int64(len(r.t.Counters))
		case kindStriping:
			r.got[i] = int64(len(r.t.Striping))
		case kindRenames:
			r.got[i] = int64(len(r.t.Renames))
		}
	}
}

// The codes and texts of warnings about damage.
const (
	warnDamaged = "damaged"
	warnCut     = "cut"

	damagedText = "The events file is damaged, and the events of its damaged blocks are missing. Read an undamaged copy."
	lostText    = "The events file is damaged, and some of its counters, names or notes are missing. Read an undamaged copy."
	cutText     = "The end of the events file is damaged or missing, and events may be missing. Read a complete copy."
)

// finish completes the trace. It warns of what is missing, and names what has lost its
// name.
func (r *reader) finish(rep *Report) error {
	if r.blocks == 0 {
		return r.damage
	}
	t := r.t
	r.merge()
	t.Ranks, t.Files, t.Warnings, t.Properties = r.ranks.list, r.files.list, r.warned.list, r.told.list
	if r.damage == nil {
		err := t.validParts()
		if err != nil {
			err = r.passOver(bad(headerSize, "%v", err))
		}
		if r.damage == nil || err != nil {
			return err
		}
	}
	rep.Cut = r.damage
	r.nameLost()
	r.dropInvalid()
	if n := r.want[0] - r.got[0]; n > 0 {
		t.Warnings = addWarning(t.Warnings, Warning{Code: warnDamaged, Text: damagedText, Count: n})
	}
	for i := range listed[1:] {
		if r.got[1+i] < r.want[1+i] {
			t.Warnings = addWarning(t.Warnings, Warning{Code: warnDamaged, Text: lostText})
			break
		}
	}
	if !r.ended {
		t.Warnings = addWarning(t.Warnings, Warning{Code: warnCut, Text: cutText})
	}
	return nil
}

// nameLost gives a name to the ranks and files of events whose own was damaged twice.
func (r *reader) nameLost() {
	t := r.t
	rank := r.ranks.namer(func(i int32) Rank { return Rank{Rank: None, Node: fmt.Sprintf("lost rank %d", i)} })
	file := r.files.namer(func(i int32) string { return fmt.Sprintf("lost file %d", i) })
	for i := range t.Events {
		e := &t.Events[i]
		rank(&e.Rank)
		rank(&e.Peer)
		file(&e.File)
	}
	for i := range t.Counters {
		rank(&t.Counters[i].Rank)
		file(&t.Counters[i].File)
	}
	for i := range t.Striping {
		file(&t.Striping[i].File)
	}
	for i := range t.Renames {
		file(&t.Renames[i].From)
		file(&t.Renames[i].To)
	}
	for i := range t.Warnings {
		for k := range t.Warnings[i].Files {
			file(&t.Warnings[i].Files[k].File)
		}
	}
	t.Ranks, t.Files = r.ranks.list, r.files.list
}

// namer returns a function that replaces the index of an entry behind a gap.
func (x *table[T]) namer(lost func(int32) T) func(*int32) {
	given, known := make(map[int32]int32), len(x.list)
	return func(i *int32) {
		if *i < 0 || int(*i) < known {
			return
		}
		n, ok := given[*i]
		if !ok {
			entry, ok := x.later[int64(*i)]
			if !ok {
				entry = lost(*i)
			}
			n = int32(len(x.list))
			x.list = append(x.list, entry)
			given[*i] = n
		}
		*i = n
	}
}

// dropInvalid removes the parts that no writer makes.
func (r *reader) dropInvalid() {
	t := r.t
	one := &Trace{Ranks: t.Ranks, Files: t.Files}
	t.Counters = slices.DeleteFunc(t.Counters, func(c Counters) bool { return c.check(len(t.Ranks), len(t.Files)) != nil })
	t.Striping = slices.DeleteFunc(t.Striping, func(s Striping) bool {
		one.Striping = []Striping{s}
		return one.validParts() != nil
	})
	one.Striping = nil
	t.Renames = slices.DeleteFunc(t.Renames, func(r Renaming) bool {
		one.Renames = []Renaming{r}
		return one.validParts() != nil
	})
	one.Renames = nil
	t.Warnings = slices.DeleteFunc(t.Warnings, func(w Warning) bool {
		one.Warnings = []Warning{w}
		return one.validParts() != nil
	})
	t.Properties = slices.DeleteFunc(t.Properties, func(p Property) bool { return p.Name == "" })
}
