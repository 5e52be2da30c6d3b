package image

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/zones"
)

// TestPlanIsCarriedOut compares the plan that ckpt layout prints, which knows the sizes
// of the regions alone, with the calls of all ranks that write them: each operation of
// an individual writer is one call, each part of one that gathers, and each gather is
// one pull.
func TestPlanIsCarriedOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ranks := genRanks(t)
		memory := make([][]zones.Region, len(ranks))
		sources := slices.Clone(ranks)
		for i := range memory {
			memory[i] = genFull(t)
			for key, r := range memory[i] {
				sources[i].Pieces = append(sources[i].Pieces, plan.Piece{Key: key, Bytes: int64(len(r.Mem)), Align: true})
			}
		}
		layout := rapid.SampledFrom([]plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared}).Draw(t, "layout")
		s := genGroupSettings(t, layout, 64<<10*rapid.Int64Range(1, 3).Draw(t, "stripe"), len(ranks))
		if rapid.Bool().Draw(t, "usual buffer") {
			s.Buffer = 0
		}
		s.Header = container.BlockSize
		p, err := plan.New(sources, s)
		if err != nil {
			t.Fatal(err)
		}
		g := newGroupJob(t, ranks, s, codec.UseNone, false)
		g.depth = rapid.IntRange(1, 4).Draw(t, "depth")
		names := g.carryOut(t, memory)
		for _, w := range p.Writers {
			want, pulls := expected(p, w.Rank, names)
			got := slices.DeleteFunc(slices.Clone(g.writes.list), func(x written) bool {
				// Header, index and trailer are the container's.
				return x.rank != w.Rank || x.off == 0 || x.off >= p.Files[slices.Index(names, x.file)].Bytes
			})
			if p.Settings.Strategy == plan.Individual {
				// Several are under way at a time.
				slices.SortFunc(got, func(a, b written) int { return cmp.Compare(a.off, b.off) })
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v\nrank %d wrote %v,\nplanned are %v", p.Settings, w.Rank, got, want)
			}
			pulled := slices.DeleteFunc(slices.Clone(g.writes.pulls), func(x pulled) bool { return x.by != w.Rank })
			if p.Settings.P2 {
				slices.SortFunc(pulled, pulledOrder)
				slices.SortFunc(pulls, pulledOrder)
			}
			if !slices.Equal(pulled, pulls) {
				t.Fatalf("%+v\nrank %d pulled %v,\nplanned are %v", p.Settings, w.Rank, pulled, pulls)
			}
		}
		if n := len(slices.Compact(writersOf(g.writes.list))); n > len(p.Writers) {
			t.Fatalf("%d ranks wrote, planned are %d", n, len(p.Writers))
		}
	})
}

// genFull draws regions without extents of zeros, which no plan knows of.
func genFull(t *rapid.T) []zones.Region {
	size := rapid.OneOf(rapid.SampledFrom([]int64{1, zones.PageSize, zones.PageSize + 1}), rapid.Int64Range(1, 300_000))
	if rapid.IntRange(0, 9).Draw(t, "large") == 0 {
		size = rapid.Int64Range(3<<20, 9<<20)
	}
	var regions []zones.Region
	for i := range rapid.IntRange(1, 4).Draw(t, "regions") {
		regions = append(regions, region(fmt.Sprint("r", i), zones.Data, size.Draw(t, "size"), uint64(i+1)))
		for at := range regions[i].Mem {
			regions[i].Mem[at] |= 1
		}
	}
	return regions
}

// carryOut writes the memory of all ranks, and returns the names of the files in the
// order of the plan.
func (g *groupJob) carryOut(t *rapid.T, memory [][]zones.Region) (names []string) {
	ctx := context.Background()
	tx, err := g.job.Begin(1)
	if err != nil {
		t.Fatal(err)
	}
	g.writes = &writes{}
	if g.settings.Layout == plan.PerRank {
		for i := range g.ranks {
			h := container.Header{Job: testJob, Number: 1, Rank: i, Kind: container.KindRank}
			opt := container.WriteOptions{Depth: g.depth, Buffer: g.settings.Buffer}
			if _, err := container.Write(ctx, g.writes.of(i, g.fs), tx.RankPath(i), h, memory[i], opt); err != nil {
				t.Fatal(err)
			}
			names = append(names, filepath.Base(tx.RankPath(i)))
		}
		return names
	}
	infos, err := g.write(ctx, tx, 1, 0, memory)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		for _, f := range info.Closed {
			names = append(names, filepath.Base(f.Path))
		}
		if info.Rounds != 1 {
			t.Fatalf("%d exchanges of sizes, want one", info.Rounds)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return names
}

// expected returns the calls that the plan has a rank make.
func expected(p *plan.Plan, rank int, names []string) (calls []written, pulls []pulled) {
	for r := range p.WriterPlan(rank) {
		for _, g := range r.Gathers {
			if g.Buffer != plan.InPlace {
				pulls = append(pulls, pulled{rank, g.From, g.Key, g.Offset, g.Bytes})
			}
		}
		for _, op := range r.Writes {
			if p.Settings.Strategy == plan.Individual {
				calls = append(calls, written{rank, names[op.File], op.Offset, op.Bytes})
				continue
			}
			off := op.Offset
			for _, part := range op.Parts {
				calls = append(calls, written{rank, names[op.File], off, part.Bytes})
				off += part.Bytes
			}
		}
	}
	return calls, pulls
}

// pulled is what one rank pulled of another.
type pulled struct {
	by, from, key int
	off, n        int64
}

func pulledOrder(a, b pulled) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.key, b.key), cmp.Compare(a.off, b.off))
}

func writersOf(list []written) (ranks []int) {
	for _, x := range list {
		ranks = append(ranks, x.rank)
	}
	slices.Sort(ranks)
	return ranks
}
