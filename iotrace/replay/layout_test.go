package replay

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// lines shows a trace as text.
func lines(t *iotrace.Trace) []string {
	var out []string
	for _, e := range t.Events {
		s := fmt.Sprintf("%d %s", t.Ranks[e.Rank].Rank, e.Op)
		if e.File != iotrace.None {
			s += " " + t.Files[e.File]
		}
		if e.Op.Data() {
			s += fmt.Sprintf(" %d+%d", e.Offset, e.Bytes)
		}
		out = append(out, s)
	}
	return out
}

// simple is two checkpoints of four ranks on two nodes, each of two writes, the
// second of which one reads back.
func simple() *iotrace.Trace {
	t := &iotrace.Trace{}
	now := int64(0)
	for c := range int32(2) {
		for rank := range int32(4) {
			if c == 0 {
				t.Ranks = append(t.Ranks, iotrace.Rank{Rank: int(rank), Node: fmt.Sprintf("node%d", rank/2)})
			}
			t.Files = append(t.Files, fmt.Sprintf("/s/%d/r%d", c+1, rank))
			add := func(op iotrace.Op, off, n int64) {
				t.Events = append(t.Events, iotrace.Event{Op: op, Rank: rank, File: int32(len(t.Files) - 1), Peer: iotrace.None, Checkpoint: c + 1,
					Offset: off, Bytes: n, Start: now, End: now + 10, Create: op == iotrace.Open})
				now += 10
			}
			add(iotrace.Open, iotrace.None, 0)
			add(iotrace.Write, 0, 100)
			add(iotrace.Write, 4096, 50+int64(rank))
			if c == 0 {
				add(iotrace.Sync, iotrace.None, 0)
			} else if rank == 3 {
				add(iotrace.Read, 0, 100)
			}
			add(iotrace.Close, iotrace.None, 0)
		}
	}
	return t
}

// TestLayouts shows where the writes of simple go.
func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		layout      Layout
		aggregators int
		want        []string
	}{
		{PerRank, 0, []string{
			"0 open 0001/rank-0.dat", "0 write 0001/rank-0.dat 0+100", "0 write 0001/rank-0.dat 100+50", "0 sync 0001/rank-0.dat", "0 close 0001/rank-0.dat",
			"3 open 0002/rank-3.dat", "3 write 0002/rank-3.dat 0+100", "3 write 0002/rank-3.dat 100+53", "3 read /s/2/r3 0+100", "3 close 0002/rank-3.dat",
		}},
		{Shared, 0, []string{
			"0 open 0001/job.dat", "0 write 0001/job.dat 0+100", "0 write 0001/job.dat 100+50", "0 sync 0001/job.dat", "0 close 0001/job.dat",
			"3 open 0002/job.dat", "3 write 0002/job.dat 3145728+100", "3 write 0002/job.dat 3145828+53", "3 read /s/2/r3 0+100", "3 close 0002/job.dat",
		}},
		{Aggregated, 0, []string{ // a node each
			"0 open 0001/aggregator-0.dat", "0 write 0001/aggregator-0.dat 0+100", "0 write 0001/aggregator-0.dat 100+50",
			"0 write 0001/aggregator-0.dat 150+100", "0 write 0001/aggregator-0.dat 250+51", "0 sync 0001/aggregator-0.dat", "0 close 0001/aggregator-0.dat",
			"2 write 0002/aggregator-1.dat 152+100", "2 write 0002/aggregator-1.dat 252+53", "3 read /s/2/r3 0+100", "2 close 0002/aggregator-1.dat",
		}},
		{Aggregated, 1, []string{
			"0 open 0002/aggregator-0.dat", "0 write 0002/aggregator-0.dat 0+100", "0 write 0002/aggregator-0.dat 100+50", "0 write 0002/aggregator-0.dat 150+100",
			"0 write 0002/aggregator-0.dat 250+51", "0 write 0002/aggregator-0.dat 301+100", "0 write 0002/aggregator-0.dat 401+52",
			"0 write 0002/aggregator-0.dat 453+100", "0 write 0002/aggregator-0.dat 553+53", "3 read /s/2/r3 0+100", "0 close 0002/aggregator-0.dat",
		}},
	} {
		t.Run(fmt.Sprintf("%s %d", c.layout, c.aggregators), func(t *testing.T) {
			kept, left := chosen(simple())
			got, err := relayout(kept, c.layout, c.aggregators, left)
			if err != nil {
				t.Fatal(err)
			}
			if err := iotracetest.Valid(got); err != nil {
				t.Fatal(err)
			}
			all := lines(got)
			at := 0
			for _, want := range c.want { // a part of them, in order
				i := slices.Index(all[at:], want)
				if i < 0 {
					t.Fatalf("no %q after %d in\n%s", want, at, cmp.Diff(c.want, all))
				}
				at += i
			}
			if sum(got) != sum(kept) {
				t.Errorf("%d bytes, want %d", sum(got), sum(kept))
			}
		})
	}
}

func sum(t *iotrace.Trace) (n [2]int64) {
	for _, e := range t.Events {
		switch e.Op {
		case iotrace.Write:
			n[0] += e.Bytes
		case iotrace.Read:
			n[1] += e.Bytes
		}
	}
	return n
}

// TestLayoutsMoveTheSame: each layout writes as much, in requests of the same sizes,
// for any number of ranks, and in files that have no holes but those said.
func TestLayoutsMoveTheSame(t *testing.T) {
	tr := iotracetest.PerRank(6, 7, 2)
	for _, ranks := range []int{0, 3, 13} {
		for _, layout := range []Layout{PerRank, Aggregated, Shared} {
			m := newMemFS()
			got, res, err := record(t, tr, Options{fs: m, Ranks: ranks, Layout: layout})
			if err != nil {
				t.Fatal(err)
			}
			kept, _ := chosen(tr)
			want, err := scale(context.Background(), kept, ranks)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sizes(want), sizes(got)); diff != "" {
				t.Errorf("%d ranks, %s: %s", ranks, layout, diff)
			}
			n := max(ranks, 6)
			if ranks == 3 {
				n = 3
			}
			files := map[Layout]int{PerRank: 2 * n, Aggregated: 2 * nodesOf(want), Shared: 2}[layout]
			if len(got.Files) != files || res.Replayed.Files != files {
				t.Errorf("%d ranks, %s: %d files, want %d", ranks, layout, len(got.Files), files)
			}
			if layout != Shared {
				end := make(map[int32]int64)
				for _, e := range got.Events {
					if e.Op == iotrace.Write {
						if e.Offset != end[e.File] {
							t.Fatalf("%s: write at %d, the file ends at %d", layout, e.Offset, end[e.File])
						}
						end[e.File] += e.Bytes
					}
				}
			} else if overlap(got) {
				t.Error("ranks write on each other")
			}
		}
	}
}

func nodesOf(t *iotrace.Trace) int {
	nodes := make(map[string]bool)
	for _, e := range t.Events {
		nodes[t.Ranks[e.Rank].Node] = true
	}
	return len(nodes)
}

func sizes(t *iotrace.Trace) map[int64]int {
	out := make(map[int64]int)
	for _, e := range t.Events {
		if e.Op == iotrace.Write {
			out[e.Bytes]++
		}
	}
	return out
}
