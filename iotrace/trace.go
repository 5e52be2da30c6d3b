package iotrace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxTime bounds the times of events in either direction: 146 years in ns, so that
// differences do not overflow.
const MaxTime = 1<<62 - 1

// Check returns an error if the event is impossible in a trace with so many ranks and
// files.
func (e *Event) Check(ranks, files int) error {
	switch {
	case !e.Op.Valid():
		return fmt.Errorf("%v is unknown", e.Op)
	case !e.Module.valid():
		return fmt.Errorf("%v is unknown", e.Module)
	case e.Rank < None || int(e.Rank) >= ranks:
		return fmt.Errorf("rank %d of %d", e.Rank, ranks)
	case e.File < None || int(e.File) >= files:
		return fmt.Errorf("file %d of %d", e.File, files)
	case e.Peer < None || int(e.Peer) >= ranks:
		return fmt.Errorf("peer %d of %d", e.Peer, ranks)
	case e.Checkpoint < 0:
		return fmt.Errorf("checkpoint %d is negative", e.Checkpoint)
	case e.Round < 0:
		return fmt.Errorf("round %d is negative", e.Round)
	case e.Offset < None:
		return fmt.Errorf("offset %d is negative", e.Offset)
	case e.Bytes < 0:
		return fmt.Errorf("length %d is negative", e.Bytes)
	case e.Offset > math.MaxInt64-e.Bytes:
		return fmt.Errorf("%d bytes at offset %d end beyond what a file can hold", e.Bytes, e.Offset)
	case e.Start < -MaxTime || e.Start > MaxTime || e.End > MaxTime:
		return fmt.Errorf("time %d..%d ns is out of range", e.Start, e.End)
	case e.End < e.Start:
		return fmt.Errorf("ends %d ns before it starts", e.Start-e.End)
	}
	return nil
}

// validTables returns an error if anything but the events is invalid.
func (t *Trace) validTables() error {
	if err := validOrigin(t.Origin); err != nil {
		return err
	}
	if len(t.Ranks) > math.MaxInt32 || len(t.Files) > math.MaxInt32 {
		return errors.New("too many ranks or files")
	}
	ranks := make(map[Rank]bool, len(t.Ranks))
	for i, r := range t.Ranks {
		if ranks[r] {
			return fmt.Errorf("rank %d: %d of node %q is listed twice", i, r.Rank, r.Node)
		}
		ranks[r] = true
	}
	files := make(map[string]bool, len(t.Files))
	for i, name := range t.Files {
		if name == "" {
			return fmt.Errorf("file %d has no name", i)
		}
		if files[name] {
			return fmt.Errorf("file %d: %q is listed twice", i, name)
		}
		files[name] = true
	}
	return nil
}

// Sort sorts the events by Start and keeps the order of those that start together.
func (t *Trace) Sort() { sortEvents(t.Events) }

func sortEvents(events []Event) {
	byStart := func(a, b Event) int { return cmp.Compare(a.Start, b.Start) }
	if slices.IsSortedFunc(events, byStart) {
		return
	}
	if uint64(len(events)) > math.MaxUint32 {
		slices.SortStableFunc(events, byStart)
		return
	}
	// Moving keys of 16 bytes is several times faster than moving events. The position
	// in the key makes the sort stable.
	type key struct {
		start int64
		at    uint32
	}
	keys := make([]key, len(events))
	for i := range events {
		keys[i] = key{events[i].Start, uint32(i)}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Compare(a.at, b.at)
	})
	// Carry out the permutation cycle by cycle, without a second copy.
	const done = math.MaxUint32
	for i := range keys {
		if keys[i].at == done {
			continue
		}
		first := events[i]
		at := uint32(i)
		for {
			from := keys[at].at
			keys[at].at = done
			if from == uint32(i) {
				events[at] = first
				break
			}
			events[at] = events[from]
			at = from
		}
	}
}
