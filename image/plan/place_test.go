package plan_test

import (
	"strconv"
	"strings"
	"testing"

	"ckpt/image/plan"

	"pgregory.net/rapid"
)

// job makes sources of a mapping like "8,8,4"; every rank has pieces of the given
// lengths, the first of them aligned.
func job(mapping string, lengths ...int64) []plan.Source {
	var sources []plan.Source
	for node, field := range strings.Split(mapping, ",") {
		n, err := strconv.Atoi(field)
		if err != nil {
			panic(err)
		}
		for range n {
			s := plan.Source{Rank: len(sources), Node: node}
			for j, bytes := range lengths {
				s.Pieces = append(s.Pieces, plan.Piece{Key: j, Bytes: bytes, Align: j == 0})
			}
			sources = append(sources, s)
		}
	}
	return sources
}

// TestPlaces lays the pieces out again, in the simplest way, and compares.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := genSources(t)
		settings := genSettings(t, sources, genPlace(t))
		p, err := plan.New(sources, settings)
		if err != nil {
			t.Fatal(err)
		}
		up := func(n int64) int64 {
			for settings.Layout == plan.Shared && !settings.Unaligned && n%settings.StripeSize != 0 {
				n += page
			}
			return n
		}
		ends := make([]int64, len(p.Files))
		for f := range ends {
			ends[f] = settings.Header
		}
		for i, s := range sources {
			file, offsets := p.Places(s.Rank)
			switch settings.Layout {
			case plan.PerRank:
				if file != i {
					t.Fatalf("rank %d is in file %d, want %d", s.Rank, file, i)
				}
			case plan.Shared:
				if file != 0 {
					t.Fatalf("rank %d is in file %d of a shared layout", s.Rank, file)
				}
			}
			first := true
			for j, piece := range s.Pieces {
				if piece.Bytes == 0 {
					continue
				}
				if piece.Align || first {
					ends[file] = up(ends[file])
				}
				first = false
				if offsets[j] != ends[file] {
					t.Fatalf("rank %d piece %d is at %d of file %d, want %d", s.Rank, j, offsets[j], file, ends[file])
				}
				ends[file] += piece.Bytes
			}
		}
		for f := range ends {
			if p.Files[f].Bytes != ends[f] {
				t.Fatalf("file %d has %d bytes, want %d", f, p.Files[f].Bytes, ends[f])
			}
		}
	})
}

// TestRelative places every rank by itself, exchanges lengths, and compares with
// the plan that knows everything.
func TestRelative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := genSources(t)
		settings := genSettings(t, sources, genPlace(t))
		p, err := plan.New(sources, settings)
		if err != nil {
			t.Fatal(err)
		}
		bare := make([]plan.Source, len(sources)) // who is where, but not what
		lengths := make([]int64, len(sources))
		relative := make([][]int64, len(sources))
		for i, s := range sources {
			bare[i] = plan.Source{Rank: s.Rank, Node: s.Node}
			if relative[i], lengths[i], err = settings.Relative(s.Pieces); err != nil {
				t.Fatal(err)
			}
		}
		bases, err := settings.Bases(bare, lengths)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range sources {
			file, offsets := p.Places(s.Rank)
			if bases[i].File != file {
				t.Fatalf("rank %d: base in file %d, want %d", s.Rank, bases[i].File, file)
			}
			for j := range offsets {
				if got := bases[i].Offset + relative[i][j]; got != offsets[j] {
					t.Fatalf("rank %d piece %d: at %d, want %d", s.Rank, j, got, offsets[j])
				}
			}
		}
	})
}

// TestEdges are the jobs at the edge, each with all layouts and strategies.
func TestEdges(t *testing.T) {
	const stripe = 64 << 10
	odd := job("2,1", 3*page, 0, 17*page)
	odd[1].Pieces = nil
	for name, sources := range map[string][]plan.Source{
		"one rank":              job("1", 100*page),
		"no bytes":              job("2,2"),
		"a rank without bytes":  odd,
		"first without bytes":   append(job("1"), plan.Source{Rank: 1, Node: 1, Pieces: []plan.Piece{{Bytes: 40 * page}}}),
		"fewer ranks than OSTs": job("1,1", 90*page),
		"one node":              job("7", 5*page, 20*page),
		"uneven mapping":        job("8,8,4", 9*page),
		"larger than buffer":    job("2,2", 150*page),
	} {
		m := newMachine(sources)
		for _, layout := range []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared} {
			for _, strategy := range []plan.Strategy{plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual} {
				for switches := range 4 {
					settings := plan.Settings{
						Layout: layout, Strategy: strategy, StripeSize: stripe, StripeCount: 4, Header: page,
						Buffer: 37 * page, // not a multiple of the stripe
						P3:     switches&2 != 0, P4: switches&1 != 0,
					}
					for _, settings.Aggregators = range []int{0, 1, plan.Auto} {
						p, err := plan.New(sources, settings)
						if err != nil {
							t.Fatalf("%s, %+v: %v", name, settings, err)
						}
						all := make([]int, len(p.Writers))
						for i := range all {
							all[i] = i
						}
						if err := m.run(p, all); err != nil {
							t.Fatalf("%s, %+v: %v", name, settings, err)
						}
						if err := m.check(p, sources); err != nil {
							t.Fatalf("%s, %+v: %v", name, settings, err)
						}
					}
				}
			}
		}
	}
}
