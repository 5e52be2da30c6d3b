package tiles

import (
	"testing"

	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// TestSums: however a part is cut, the rows of the whole time have the bytes of the trace, each
// tile is of its row and time, and there are no more tiles than were asked for.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := iotracetest.Any().Draw(t, "trace")
		read, written := int64(0), int64(0)
		for _, e := range trace.Events {
			if e.Rank < 0 || e.Bytes <= 0 || e.Bytes > 1<<40 {
				continue
			}
			switch e.Op {
			case iotrace.Read:
				read += e.Bytes
			case iotrace.Write:
				written += e.Bytes
			}
		}
		for _, e := range trace.Events {
			if e.Op.Data() && e.Bytes > 1<<40 { // a float has no such sum
				t.Skip()
			}
		}
		g := New(trace)
		most := rapid.IntRange(1, 500).Draw(t, "tiles")
		begin, end, rows := g.Cut(Ranks, g.Start, g.End, most)
		if begin > g.Start || end < g.End-1e-9*(g.End-g.Start) {
			t.Fatalf("the part is %v to %v of %v to %v", begin, end, g.Start, g.End)
		}
		gotRead, gotWritten := int64(0), int64(0)
		for _, r := range rows {
			if len(r.Read) > most {
				t.Fatalf("%d tiles, want at most %d", len(r.Read), most)
			}
			for i := range r.Read {
				gotRead += r.Read[i]
				gotWritten += r.Written[i]
			}
		}
		near := func(got, want int64) bool { // each tile is rounded
			slack := int64(len(rows)*most) + want/1e9
			return got >= want-slack && got <= want+slack
		}
		if !near(gotRead, read) || !near(gotWritten, written) {
			t.Fatalf("read %d of %d, written %d of %d", gotRead, read, gotWritten, written)
		}
	})
}

// TestCut: a part shows what happened in it, and the files that move most have rows of their own.
func TestCut(t *testing.T) {
	trace := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 1}, {Rank: 0}}}
	for i := range 100 {
		trace.Files = append(trace.Files, string(rune('a'+i%26)))
		trace.Events = append(trace.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(i % 2), File: int32(i), Bytes: int64(1000 + i), Start: int64(i) * 1e9, End: int64(i)*1e9 + 1e8})
	}
	g := New(trace)
	if n := len(g.Names[Files]); n != mostRows || g.Names[Files][n-1] != "37 other files" || g.Names[Files][0] != trace.Files[99] {
		t.Errorf("%d rows of files: %v", n, g.Names[Files])
	}
	if g.Names[Ranks][0] != "0" {
		t.Errorf("ranks: %v", g.Names[Ranks])
	}
	begin, end, rows := g.Cut(Ranks, 9.9, 10.3, 10)
	sum := []int64{0, 0}
	for i, r := range rows {
		for _, n := range r.Written {
			sum[i] += n
		}
	}
	if begin > 9.9 || end < 10.3 || sum[0] != 0 || sum[1] < 1009 || sum[1] > 1011 {
		t.Errorf("%v to %v: %v, want 1010 bytes of rank 1", begin, end, sum)
	}
	if g := New(&iotrace.Trace{}); len(g.Names[Ranks]) != 0 || g.End <= g.Start {
		t.Errorf("the grid of no events: %+v", g)
	}
}

func BenchmarkNew(b *testing.B) {
	trace := iotracetest.Dense(1_000_000)
	for b.Loop() {
		New(trace)
	}
}
