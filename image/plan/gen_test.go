package plan_test

import (
	"ckpt/image/plan"

	"pgregory.net/rapid"
)

// Sizes of the generated cases: small enough that a case is some hundred pages,
// with stripes of 16 to 48 pages that pieces fill partly, wholly and many times.
const page = plan.PageSize

// genSources draws a job: ranks with gaps in their numbers on nodes in any order,
// pieces of any length, ranks without any.
func genSources(t *rapid.T) []plan.Source {
	n := rapid.IntRange(1, 14).Draw(t, "ranks")
	mapping := rapid.SampledFrom([]string{"one", "each", "block", "cyclic", "any"}).Draw(t, "mapping")
	gaps := rapid.Bool().Draw(t, "gaps")
	per := rapid.IntRange(1, 5).Draw(t, "per node")
	large := rapid.IntRange(1, 40).Draw(t, "pages")
	sources := make([]plan.Source, n)
	rank := 0
	for i := range sources {
		node := map[string]int{"one": 0, "each": i, "block": i / per, "cyclic": i % per}[mapping]
		if mapping == "any" {
			node = rapid.IntRange(0, 4).Draw(t, "node")
		}
		sources[i] = plan.Source{Rank: rank, Node: 10 + node, Pieces: genPieces(t, large)}
		rank++
		if gaps {
			rank += rapid.IntRange(0, 2).Draw(t, "gap")
		}
	}
	return sources
}

func genPieces(t *rapid.T, large int) []plan.Piece {
	pieces := make([]plan.Piece, rapid.IntRange(0, 4).Draw(t, "pieces"))
	for j := range pieces {
		pieces[j] = plan.Piece{
			Key:   (j + 2) % 5, // unique, and not in order
			Bytes: page * int64(rapid.IntRange(0, large).Draw(t, "bytes")),
			Align: rapid.Bool().Draw(t, "align"),
		}
	}
	return pieces
}

// genSettings draws settings that are valid for the job. The caller gives those that
// determine places: the header, the stripe size and the alignment.
func genSettings(t *rapid.T, sources []plan.Source, place plan.Settings) plan.Settings {
	s := place
	s.Layout = rapid.SampledFrom([]plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared, plan.Shared}).Draw(t, "layout")
	s.Strategy = rapid.SampledFrom([]plan.Strategy{plan.TwoPhase, plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual}).Draw(t, "strategy")
	s.StripeCount = rapid.IntRange(1, 6).Draw(t, "stripe count")
	s.FirstOST = rapid.IntRange(0, s.StripeCount-1).Draw(t, "first ost")
	s.P1 = rapid.Bool().Draw(t, "p1")
	s.P2 = rapid.Bool().Draw(t, "p2")
	s.P3 = rapid.Bool().Draw(t, "p3")
	s.P4 = rapid.Bool().Draw(t, "p4")
	s.Aggregators = rapid.IntRange(plan.Auto, len(sources)).Draw(t, "aggregators")
	if s.Layout == plan.Shared && s.Strategy == plan.TwoPhase && s.Aggregators > s.StripeCount {
		if s.P4 {
			s.Aggregators -= s.Aggregators % s.StripeCount
		} else {
			s.Aggregators = s.StripeCount
		}
	}
	least := int64(1)
	switch {
	case s.Layout == plan.Shared && s.Strategy == plan.TwoPhase:
		least = s.StripeSize / page
	case s.Strategy == plan.Static:
		least = int64(len(sources))
	}
	s.Buffer = page * rapid.Int64Range(least, least+50).Draw(t, "buffer")
	return s
}

func genPlace(t *rapid.T) plan.Settings {
	return plan.Settings{
		StripeSize: 64 << 10 * int64(rapid.IntRange(1, 3).Draw(t, "stripe")),
		Header:     page * int64(rapid.SampledFrom([]int{0, 1, 20}).Draw(t, "header")),
		Unaligned:  rapid.Bool().Draw(t, "unaligned"),
	}
}

func order(t *rapid.T, p *plan.Plan) []int {
	all := make([]int, len(p.Writers))
	for i := range all {
		all[i] = i
	}
	return rapid.Permutation(all).Draw(t, "order")
}
