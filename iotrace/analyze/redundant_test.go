package analyze

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ckpt/iotrace"
)

const blockBytes = 4096

// at makes an event of 4 KiB blocks.
func at(op iotrace.Op, rank int32, block, blocks int64) iotrace.Event {
	return iotrace.Event{Op: op, Rank: rank, Offset: block * blockBytes, Bytes: blocks * blockBytes}
}

// timed gives events times, one after the other with pauses in ms. A block takes a ms.
func timed(pause int64, events ...iotrace.Event) []iotrace.Event {
	now := int64(0)
	for i := range events {
		e := &events[i]
		e.Start = now
		now += e.Bytes / blockBytes * 1e6
		e.End = now
		now += pause * 1e6
	}
	return events
}

func TestRedundant(t *testing.T) {
	const r, w = iotrace.Read, iotrace.Write
	for name, c := range map[string]struct {
		events []iotrace.Event
		want   Redundant
	}{
		"nothing":              {[]iotrace.Event{at(w, 0, 0, 4), at(r, 0, 0, 4), at(w, 0, 0, 4)}, Redundant{}},
		"read twice":           {[]iotrace.Event{at(r, 0, 0, 4), at(r, 0, 2, 4)}, Redundant{Rereads: 1, BytesReread: 2 * blockBytes, RereadTime: .002}},
		"read by two":          {[]iotrace.Event{at(r, 0, 0, 4), at(r, 1, 0, 4)}, Redundant{SharedReads: 1, SharedBytes: 4 * blockBytes, SharedTime: .004}},
		"both":                 {[]iotrace.Event{at(r, 0, 0, 4), at(r, 1, 2, 4), at(r, 0, 0, 6)}, Redundant{Rereads: 1, BytesReread: 4 * blockBytes, RereadTime: .004, SharedReads: 1, SharedBytes: 4 * blockBytes, SharedTime: .004}},
		"new bytes":            {[]iotrace.Event{at(r, 0, 0, 4), at(w, 1, 0, 4), at(r, 0, 0, 4)}, Redundant{}},
		"written twice":        {[]iotrace.Event{at(w, 0, 0, 4), at(w, 1, 0, 1)}, Redundant{Overwrites: 1, Overwritten: blockBytes, OverwriteTime: .001}},
		"written by turns":     {[]iotrace.Event{at(w, 0, 0, 4), at(r, 1, 1, 1), at(w, 0, 0, 4)}, Redundant{Overwrites: 1, Overwritten: 3 * blockBytes, OverwriteTime: .003}},
		"an empty one behind":  {[]iotrace.Event{at(r, 0, 4, 4), at(r, 0, 0, 0), at(r, 1, 4, 4)}, Redundant{SharedReads: 1, SharedBytes: 4 * blockBytes, SharedTime: .004}},
		"unknown offsets":      {[]iotrace.Event{{Op: w, Offset: -1, Bytes: 9}, {Op: w, Offset: -1, Bytes: 9}}, Redundant{Sampled: -1}},
		"read in turn by many": {manyReaders(100), Redundant{SharedReads: 99, SharedBytes: 99 * blockBytes, SharedTime: .099, Rereads: 100, BytesReread: 100 * blockBytes, RereadTime: .1}},
	} {
		want := c.want
		want.Sampled++
		got := Analyze(script(100, timed(1, c.events...)...), Options{})
		for _, x := range []Redundant{got.Redundant, got.Files[0].Redundant} {
			for _, v := range []*float64{&x.RereadTime, &x.SharedTime, &x.OverwriteTime} {
				*v = math.Round(*v*1e6) / 1e6
			}
			if diff := cmpDiffOf(want, x); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// manyReaders are a write elsewhere and so many processes that read a block twice.
func manyReaders(n int32) []iotrace.Event {
	out := []iotrace.Event{at(iotrace.Write, 0, 10, 1)}
	for range 2 {
		for r := range n {
			out = append(out, at(iotrace.Read, r, 0, 1))
		}
	}
	return out
}

func TestReadModifyWrite(t *testing.T) {
	const r, w = iotrace.Read, iotrace.Write
	var by4, apart []iotrace.Event
	for i := range int64(16) {
		by4 = append(by4, at(r, 0, i, 1))
		apart = append(apart, at(r, 0, 100*i, 1))
	}
	by4 = append(by4, at(w, 0, 0, 10), at(w, 0, 10, 6))
	for i := range int64(16) {
		apart = append(apart, at(w, 0, 100*i, 1))
	}
	for name, c := range map[string]struct {
		pause  int64
		events []iotrace.Event
		want   ReadModifyWrite // in blocks
	}{
		"the same":          {1, []iotrace.Event{at(r, 0, 0, 4), at(w, 0, 0, 4)}, ReadModifyWrite{Writes: 1, Reads: 1, BytesWritten: 4, BytesRead: 4}},
		"a part":            {1, []iotrace.Event{at(r, 0, 0, 4), at(w, 0, 1, 1)}, ReadModifyWrite{Writes: 1, Reads: 1, BytesWritten: 1, BytesRead: 1}},
		"in pieces":         {1, []iotrace.Event{at(r, 0, 0, 4), at(w, 0, 1, 1), at(w, 0, 3, 2)}, ReadModifyWrite{Writes: 2, Reads: 1, BytesWritten: 2, BytesRead: 2}},
		"written twice":     {1, []iotrace.Event{at(r, 0, 0, 4), at(w, 0, 0, 4), at(w, 0, 0, 4)}, ReadModifyWrite{Writes: 1, Reads: 1, BytesWritten: 4, BytesRead: 4}},
		"read twice":        {1, []iotrace.Event{at(r, 0, 0, 4), at(r, 0, 0, 4), at(w, 0, 0, 4)}, ReadModifyWrite{Writes: 1, Reads: 1, BytesWritten: 4, BytesRead: 4}},
		"many small reads":  {1, by4, ReadModifyWrite{Writes: 2, Reads: 16, BytesWritten: 16, BytesRead: 16}},
		"another process":   {1, []iotrace.Event{at(r, 0, 0, 4), at(w, 1, 0, 4)}, ReadModifyWrite{}},
		"another place":     {1, []iotrace.Event{at(r, 0, 0, 4), at(w, 0, 4, 4)}, ReadModifyWrite{}},
		"much later":        {200, []iotrace.Event{at(r, 0, 0, 4), at(w, 0, 0, 4)}, ReadModifyWrite{}},
		"many reads before": {1, apart, ReadModifyWrite{Writes: 8, Reads: 8, BytesWritten: 8, BytesRead: 8}},
	} {
		want := c.want
		want.BytesRead, want.BytesWritten = want.BytesRead*blockBytes, want.BytesWritten*blockBytes
		want.ReadTime, want.WriteTime = float64(c.want.BytesRead)/1e3, float64(c.want.BytesWritten)/1e3
		got := Analyze(script(2, timed(c.pause, c.events...)...), Options{})
		for _, x := range []ReadModifyWrite{got.ReadModifyWrite, got.Files[0].ReadModifyWrite} {
			x.ReadTime, x.WriteTime = math.Round(x.ReadTime*1e6)/1e6, math.Round(x.WriteTime*1e6)/1e6
			if diff := cmpDiffOf(want, x); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// TestRedundantBytes compares with a count byte by byte.
func TestRedundantBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SampledFrom([]int{1, 3, 70}).Draw(t, "ranks")
		length := rapid.SampledFrom([]int64{20, 600}).Draw(t, "length")
		ops := rapid.SampledFrom([][]iotrace.Op{{iotrace.Read}, {iotrace.Write}, {iotrace.Read, iotrace.Write}}).Draw(t, "ops")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var events []iotrace.Event
		for range rapid.IntRange(0, 600).Draw(t, "n") {
			events = append(events, iotrace.Event{Op: ops[rng.IntN(len(ops))], Rank: int32(rng.IntN(ranks)), Offset: rng.Int64N(length+1) - 1, Bytes: rng.Int64N(1 + rng.Int64N(length))})
		}
		type state struct {
			written bool // and not read since
			readers map[int32]bool
		}
		bytes := map[int64]*state{}
		var want Redundant
		counted := slices.Clone(events)
		places := func(op iotrace.Op) bool {
			return slices.ContainsFunc(events, func(e iotrace.Event) bool { return e.Op == op && e.Offset >= 0 && e.Bytes > 0 })
		}
		if !places(iotrace.Read) || !places(iotrace.Write) { // process by process
			slices.SortStableFunc(counted, func(a, b iotrace.Event) int { return int(a.Rank - b.Rank) })
		}
		for _, e := range counted {
			var n [redundantKinds]int64
			for o := e.Offset; e.Offset >= 0 && o < e.Offset+e.Bytes; o++ {
				b := bytes[o]
				if b == nil {
					b = &state{}
					bytes[o] = b
				}
				switch {
				case e.Op == iotrace.Write:
					if b.written {
						n[overwriting]++
					}
					*b = state{written: true}
					continue
				case b.readers[e.Rank]:
					n[rereading]++
				case len(b.readers) > 0:
					n[sharing]++
				}
				b.written = false
				if b.readers == nil {
					b.readers = map[int32]bool{}
				}
				b.readers[e.Rank] = true
			}
			for k, to := range [redundantKinds][2]*int64{{&want.Rereads, &want.BytesReread}, {&want.SharedReads, &want.SharedBytes}, {&want.Overwrites, &want.Overwritten}} {
				if n[k] > 0 {
					*to[0]++
					*to[1] += n[k]
				}
			}
		}
		got := Analyze(script(ranks, events...), Options{})
		if got.placed > 0 {
			want.Sampled = 1
		}
		if diff := cmpDiffOf(want, got.Redundant); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestRedundantSampled: few spans suffice for an estimate.
func TestRedundantSampled(t *testing.T) {
	var events []iotrace.Event
	for _, op := range []iotrace.Op{iotrace.Write, iotrace.Write, iotrace.Read, iotrace.Read} {
		for rank := range int32(3) {
			for i := range int64(20_000) {
				events = append(events, iotrace.Event{Op: op, Rank: rank, Offset: (i*7919%20_000*3 + int64(rank)) * 2000, Bytes: 1000})
			}
		}
	}
	tr := script(3, events...)
	r := Analyze(tr, Options{})
	if s := r.Redundant.Sampled; s >= 1 || s < 1./16 {
		t.Errorf("sampled %v", s)
	}
	for name, n := range map[string]int64{"overwrites": r.Redundant.Overwrites, "rereads": r.Redundant.Rereads,
		"overwritten": r.Redundant.Overwritten / 1000, "reread": r.Redundant.BytesReread / 1000} {
		if math.Abs(float64(n)-60_000) > 6000 {
			t.Errorf("%s: %d, want 60000 ± 6000", name, n)
		}
	}
	if r.Redundant.SharedReads != 0 {
		t.Errorf("%d shared reads", r.Redundant.SharedReads)
	}
}
