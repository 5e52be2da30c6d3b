package replay

import (
	"context"
	"maps"
	"slices"

	"ckpt/iotrace"
)

// A LeftOut is a kind of event that a replay leaves out, with its count.
type LeftOut struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
}

// leftOuts counts the events left out, by kind.
type leftOuts map[string]int64

func (l leftOuts) list() []LeftOut {
	out := []LeftOut{}
	for _, what := range slices.Sorted(maps.Keys(l)) {
		out = append(out, LeftOut{what, l[what]})
	}
	return out
}

// These events change the names of files, and are no operations of the replay.
const (
	carried   iotrace.Op = 255 - iota // File takes the name Peer, since its directory is renamed
	exchanged                         // File and Peer take each other's name
)

// renames reports whether an event gives File the name Peer.
func renames(e *iotrace.Event) bool {
	return e.Op == iotrace.Rename || e.Op == carried || e.Op == exchanged
}

// choose returns the trace with the events to replay, in the same order, and counts
// the others. The events are a copy, or if the caller allows it the same memory. Peer of
// a renaming becomes the file of the new name, or None if the trace does not tell. After
// the renaming of a directory come events carried for the files below it.
func choose(ctx context.Context, t *iotrace.Trace, inPlace bool) (*iotrace.Trace, leftOuts, error) {
	left := make(leftOuts)
	posix := make([]bool, len(t.Files)) // files with POSIX reads and writes
	for i := range t.Events {
		if e := &t.Events[i]; e.File != iotrace.None && e.Module == iotrace.POSIX && e.Op.Data() {
			posix[e.File] = true
		}
	}
	out := &iotrace.Trace{Job: t.Job, Source: t.Source, Origin: t.Origin, Ranks: t.Ranks, Files: t.Files}
	targets := t.Targets()
	below := t.Below(targets)
	if inPlace && len(below) == 0 {
		out.Events = t.Events[:0]
	} else {
		out.Events = make([]iotrace.Event, 0, len(t.Events))
	}
	nobody := int32(iotrace.None)
	for i := range t.Events {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		e := t.Events[i]
		e.Peer = iotrace.None // only gathers have one
		if e.Op == iotrace.Rename {
			if to, ok := targets[i]; ok {
				e.Peer = to.File
			}
		}
		switch {
		case e.Op == iotrace.Barrier:
			e.File = iotrace.None
		case e.Op.Step():
			left[e.Op.String()+": a step of the write path"]++
			continue
		case e.File == iotrace.None:
			left[e.Op.String()+" of no known file"]++
			continue
		case e.Op == iotrace.Mmap:
			left["mmap"]++
			continue
		case e.Module != iotrace.POSIX && posix[e.File]:
			left[e.Op.String()+" through "+e.Module.String()+", which is there as POSIX calls"]++
			continue
		}
		if e.Op == iotrace.Rename && targets[i].Exchange {
			left["rename that exchanges two files"]++ // no operation of the replay's file system does
			e.Op = exchanged
		}
		if e.Rank == iotrace.None {
			if nobody == iotrace.None {
				nobody = int32(len(out.Ranks))
				out.Ranks = append(slices.Clone(out.Ranks), iotrace.Rank{Rank: iotrace.None, Node: "(unknown)"})
			}
			e.Rank = nobody
		}
		out.Events = append(out.Events, e)
		for _, r := range below[i] {
			e.Op, e.File, e.Peer = carried, r.From, r.To
			if targets[i].Exchange {
				e.Op = exchanged
			}
			out.Events = append(out.Events, e)
		}
	}
	return out, left, nil
}
