// Package iotracetest makes traces for tests: such as the write path records, and
// such as nothing does.
package iotracetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"ckpt/iotrace"
)

const none = iotrace.None

// Origin is when the traces begin.
var Origin = time.Date(2026, 10, 20, 12, 0, 0, 123456789, time.UTC)

// A script records what one rank does.
type script struct {
	t    *iotrace.Trace
	rng  *rand.Rand
	now  int64
	base iotrace.Event // rank, file, checkpoint
}

// do takes about so many ns, with noise.
func (s *script) do(mean int64, e iotrace.Event) {
	e.Rank, e.File, e.Checkpoint = s.base.Rank, s.base.File, s.base.Checkpoint
	e.Start = s.now + s.rng.Int64N(500)
	s.now = e.Start + mean/2 + s.rng.Int64N(mean)
	e.End = s.now
	s.t.Events = append(s.t.Events, e)
}

// call is an operation on the whole file.
func (s *script) call(mean int64, op iotrace.Op) {
	s.do(mean, iotrace.Event{Op: op, Peer: none, Offset: none})
}

// begin opens the file of a checkpoint.
func (s *script) begin(checkpoint int, name string) {
	s.now += 1e9
	s.base.Checkpoint = int32(checkpoint)
	s.base.File = int32(len(s.t.Files))
	s.t.Files = append(s.t.Files, fmt.Sprintf("/store/bt.A.16/%06d/%s.img", checkpoint, name))
	s.do(30e3, iotrace.Event{Op: iotrace.Open, Create: true, Peer: none, Offset: none})
}

func (s *script) end() {
	s.call(9e6, iotrace.Sync)
	s.call(50e3, iotrace.Rename)
	s.call(3e3, iotrace.Close)
}

func newScript(ranks, rank int) *script {
	s := &script{t: &iotrace.Trace{Job: "bt.A.16", Source: "ckpt", Origin: Origin}, rng: rand.New(rand.NewPCG(1, uint64(rank))), now: int64(rank) * 1000}
	s.base.Rank = int32(rank)
	for i := range ranks {
		s.t.Ranks = append(s.t.Ranks, iotrace.Rank{Rank: i, Node: fmt.Sprintf("node%d", i/4)})
	}
	return s
}

// PerRank is what is recorded when each rank writes a file of its own for each
// checkpoint, of so many areas, which are encoded first.
func PerRank(ranks, areas, checkpoints int) *iotrace.Trace {
	var parts []*iotrace.Trace
	for r := range ranks {
		s := newScript(ranks, r)
		for c := range checkpoints {
			s.begin(c+1, fmt.Sprintf("rank-%04d", r))
			off := int64(0)
			for a := range areas {
				zone, n := iotrace.Zone(1+a%4), int64(1+s.rng.IntN(64))*4096
				s.do(200e3, iotrace.Event{Op: iotrace.Encode, Zone: zone, Peer: none, Offset: none, Bytes: n})
				s.do(90e3, iotrace.Event{Op: iotrace.Write, Zone: zone, Peer: none, Offset: off, Bytes: n})
				off += n
			}
			s.end()
		}
		parts = append(parts, s.t)
	}
	return merge(parts)
}

// Aggregated is what is recorded when every fourth rank gathers from four and
// writes 4 MiB of a shared file, in so many rounds.
func Aggregated(ranks, rounds, checkpoints int) *iotrace.Trace {
	var parts []*iotrace.Trace
	for r := 0; r < ranks; r += 4 {
		s := newScript(ranks, r)
		for c := range checkpoints {
			s.begin(c+1, "shared")
			for k := range rounds {
				base := int64(k*ranks/4+r/4) * (4 << 20)
				for p := range min(4, ranks-r) {
					s.do(400e3, iotrace.Event{Op: iotrace.Gather, Zone: 2, Peer: int32(r + p), Round: int32(k), Offset: base + int64(p)<<20, Bytes: 1 << 20})
				}
				s.do(2e6, iotrace.Event{Op: iotrace.Write, Zone: 2, Peer: none, Round: int32(k), Offset: base, Bytes: 4 << 20})
			}
			s.call(300e3, iotrace.Barrier)
			s.end()
		}
		parts = append(parts, s.t)
	}
	return merge(parts)
}

func merge(parts []*iotrace.Trace) *iotrace.Trace {
	t, err := iotrace.Merge(parts...)
	if err != nil {
		panic(err)
	}
	return t
}

// Golden has something of everything.
func Golden() *iotrace.Trace {
	g := Aggregated(4, 2, 1)
	for i := range g.Events {
		g.Events[i].Checkpoint = 3
		g.Events[i].Module = iotrace.MPIIO
	}
	t := merge([]*iotrace.Trace{PerRank(4, 3, 2), g})
	last := t.Events[len(t.Events)-1].End
	for i, op := range []iotrace.Op{iotrace.Open, iotrace.Seek, iotrace.Read, iotrace.Stat, iotrace.Truncate,
		iotrace.Unlink, iotrace.Mmap, iotrace.LockWait, iotrace.Barrier} {
		e := iotrace.Event{Op: op, Rank: 1, File: 1, Peer: none, Offset: int64(i) << 40, Bytes: int64(i), Start: last, End: last + int64(i)}
		if op.Step() {
			e.File, e.Offset = none, none
		}
		t.Events = append(t.Events, e)
	}
	return t
}

// Any draws traces that are valid, but like nothing that a program does.
func Any() *rapid.Generator[*iotrace.Trace] {
	return rapid.Custom(func(t *rapid.T) *iotrace.Trace {
		out := &iotrace.Trace{
			Job:    rapid.String().Draw(t, "job"),
			Source: rapid.SampledFrom([]string{"", "ckpt", "strace"}).Draw(t, "source"),
		}
		if rapid.Bool().Draw(t, "dated") {
			out.Origin = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "sec"), rapid.Int64Range(0, 999999999).Draw(t, "nsec")).UTC()
		}
		out.Ranks = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) iotrace.Rank {
			return iotrace.Rank{Rank: rapid.Int().Draw(t, "rank"), Node: rapid.SampledFrom([]string{"", "a", "b,\"\n"}).Draw(t, "node")}
		}), 0, 5, rapid.ID[iotrace.Rank]).Draw(t, "ranks")
		out.Files = rapid.SliceOfNDistinct(rapid.StringN(1, 20, -1), 0, 5, rapid.ID[string]).Draw(t, "files")
		start := int64(0)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			e := anyEvent(t, len(out.Ranks), len(out.Files))
			if rapid.IntRange(0, 9).Draw(t, "leap") == 0 {
				start = rapid.Int64Range(max(start, -iotrace.MaxTime), iotrace.MaxTime).Draw(t, "start")
				if len(out.Events) == 0 && rapid.Bool().Draw(t, "early") {
					start = -start
				}
			} else {
				start = min(start+rapid.Int64Range(0, 1e6).Draw(t, "step"), iotrace.MaxTime)
			}
			e.Start = start
			e.End = start + min(rapid.OneOf(rapid.Int64Range(0, 1e6), rapid.Int64Range(0, iotrace.MaxTime)).Draw(t, "length"), iotrace.MaxTime-max(start, 0))
			out.Events = append(out.Events, e)
		}
		return out
	})
}

// anyEvent draws all but the times of an event.
func anyEvent(t *rapid.T, ranks, files int) iotrace.Event {
	index := func(n int, what string) int32 { return int32(rapid.IntRange(none, n-1).Draw(t, what)) }
	number := func(what string) int32 {
		return rapid.OneOf(rapid.Int32Range(0, 3), rapid.Int32Range(0, math.MaxInt32)).Draw(t, what)
	}
	e := iotrace.Event{
		Op:         iotrace.Op(rapid.IntRange(int(iotrace.Open), int(iotrace.Barrier)).Draw(t, "op")),
		Module:     iotrace.Module(rapid.IntRange(0, 2).Draw(t, "module")),
		Zone:       iotrace.Zone(rapid.Uint8().Draw(t, "zone")),
		Create:     rapid.Bool().Draw(t, "create"),
		Rank:       index(ranks, "rank"),
		File:       index(files, "file"),
		Peer:       index(ranks, "peer"),
		Checkpoint: number("checkpoint"),
		Round:      number("round"),
		Offset:     rapid.OneOf(rapid.Int64Range(none, 20), rapid.Int64Range(none, math.MaxInt64)).Draw(t, "offset"),
		Bytes:      rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "bytes"),
	}
	e.Bytes = min(e.Bytes, math.MaxInt64-max(e.Offset, 0))
	return e
}

// Dense is a trace of so many events by 16 ranks, made quickly: for benchmarks.
func Dense(events int) *iotrace.Trace {
	t := &iotrace.Trace{Job: "bt.C.16", Source: "ckpt", Origin: Origin, Events: make([]iotrace.Event, events)}
	const ranks = 16
	for r := range ranks {
		t.Ranks = append(t.Ranks, iotrace.Rank{Rank: r, Node: fmt.Sprintf("node%d", r/4)})
		t.Files = append(t.Files, fmt.Sprintf("/scratch/store/bt.C.16/000001/rank-%04d.img", r))
	}
	rng := rand.New(rand.NewPCG(5, 6))
	now := int64(0)
	var offset [ranks]int64
	for i := range t.Events {
		r := int32(rng.IntN(ranks))
		now += rng.Int64N(20e3)
		n := int64(1+rng.IntN(64)) * 4096
		t.Events[i] = iotrace.Event{Op: iotrace.Write, Zone: 2, Rank: r, File: r, Peer: none, Checkpoint: 1,
			Offset: offset[r], Bytes: n, Start: now, End: now + 40e3 + rng.Int64N(90e3)}
		offset[r] += n
	}
	return t
}
