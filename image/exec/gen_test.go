package exec_test

import (
	"ckpt/image/plan"

	"pgregory.net/rapid"
)

// genSources draws a job: ranks with gaps in their numbers on nodes in any order,
// pieces of any length, ranks without any.
func genSources(t *rapid.T) []plan.Source {
	n := rapid.IntRange(1, 12).Draw(t, "ranks")
	nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
	mapping := rapid.SampledFrom([]string{"block", "cyclic", "any"}).Draw(t, "mapping")
	large := rapid.IntRange(1, 30).Draw(t, "pages")
	sources := make([]plan.Source, n)
	rank := 0
	for i := range sources {
		node := map[string]int{"block": i * nodes / n, "cyclic": i % nodes}[mapping]
		if mapping == "any" {
			node = rapid.IntRange(0, nodes-1).Draw(t, "node")
		}
		sources[i] = plan.Source{Rank: rank, Node: node}
		rank += rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "gap")
		for j := range rapid.IntRange(0, 4).Draw(t, "pieces") {
			sources[i].Pieces = append(sources[i].Pieces, plan.Piece{
				Key:   (j + 2) % 5, // unique, and not in order
				Bytes: page * int64(rapid.IntRange(0, large).Draw(t, "bytes")),
				Align: rapid.Bool().Draw(t, "align"),
			})
		}
	}
	return sources
}

// genPlace draws the settings that say where everything goes in the shared file.
func genPlace(t *rapid.T) plan.Settings {
	return plan.Settings{
		StripeSize: 64 << 10 * int64(rapid.IntRange(1, 3).Draw(t, "stripe")),
		Header:     page * int64(rapid.SampledFrom([]int{0, 1, 20}).Draw(t, "header")),
		Unaligned:  rapid.Bool().Draw(t, "unaligned"),
	}
}

// genSettings draws the others. With them there is a plan.
func genSettings(t *rapid.T, sources []plan.Source, s plan.Settings, layouts ...plan.Layout) plan.Settings {
	s.Layout = rapid.SampledFrom(layouts).Draw(t, "layout")
	s.Strategy = rapid.SampledFrom([]plan.Strategy{plan.TwoPhase, plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual}).Draw(t, "strategy")
	s.StripeCount = rapid.IntRange(1, 6).Draw(t, "stripe count")
	s.FirstOST = rapid.IntRange(0, s.StripeCount-1).Draw(t, "first ost")
	s.P1 = rapid.Bool().Draw(t, "p1")
	s.P2 = rapid.Bool().Draw(t, "p2")
	s.P3 = rapid.Bool().Draw(t, "p3")
	s.P4 = rapid.Bool().Draw(t, "p4")
	s.Aggregators = rapid.IntRange(plan.Auto, len(sources)).Draw(t, "aggregators")
	least := int64(1)
	switch {
	case s.Layout == plan.Shared && s.Strategy == plan.TwoPhase:
		least = s.StripeSize / page
		if s.Aggregators > s.StripeCount {
			if s.P4 {
				s.Aggregators -= s.Aggregators % s.StripeCount
			} else {
				s.Aggregators = s.StripeCount
			}
		}
	case s.Strategy == plan.Static:
		least = int64(len(sources))
	}
	s.Buffer = page * rapid.Int64Range(least, least+30).Draw(t, "buffer")
	return s
}

func genPlan(t *rapid.T, layouts ...plan.Layout) ([]plan.Source, *plan.Plan) {
	sources := genSources(t)
	p, err := plan.New(sources, genSettings(t, sources, genPlace(t), layouts...))
	if err != nil {
		t.Fatal(err)
	}
	return sources, p
}
