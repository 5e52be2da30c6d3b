package plan

import (
	"fmt"
	"slices"
)

// Fit returns the settings with the largest number of aggregators, up to the one given,
// that so many ranks can have.
func (s Settings) Fit(ranks int) Settings {
	if s.Aggregators <= ranks {
		return s
	}
	s.Aggregators = ranks
	s.setDefaults()
	if s.byStripe() && s.P4 && ranks > s.StripeCount {
		s.Aggregators = ranks / s.StripeCount * s.StripeCount
	}
	return s
}

// count returns the number of aggregators, which for individual writing into
// aggregated files is the number of files.
func (s *Settings) count(m *mapping) (int, error) {
	ranks, nodes := len(m.ranks), len(m.nodes)
	n := s.Aggregators
	if n > ranks {
		return 0, badSetting("aggregators", n, fmt.Sprintf("must be at most the number of ranks that write together, %d", ranks), "give fewer, or auto")
	}
	switch {
	case s.Layout == PerRank, s.Layout == Shared && s.Strategy == Individual:
		return ranks, nil
	case s.byStripe():
		return s.countByStripe(ranks, nodes)
	case n > 0:
		return n, nil
	}
	return nodes, nil
}

func (s *Settings) countByStripe(ranks, nodes int) (int, error) {
	n, osts := s.Aggregators, s.StripeCount
	switch {
	case n == Auto && ranks < osts:
		for n = ranks; osts%n != 0; n-- {
		}
		return n, nil
	case n == Auto && s.P4:
		return osts * max(1, nodes/osts), nil
	case n == Auto:
		return osts, nil
	case n == 0 && s.P4:
		// Fewer ranks than OSTs: all are aggregators (Larrosa, section 2.3).
		return max(ranks/osts*osts, min(ranks, osts)), nil
	case n == 0:
		return min(nodes, osts), nil
	case n <= osts:
		return n, nil
	case !s.P4:
		return 0, badSetting("aggregators", n,
			fmt.Sprintf("must be at most the stripe count, %d: without P4 each OST has one aggregator", osts),
			fmt.Sprintf("give at most %d, a larger stripe count, or P4", osts))
	case n%osts != 0:
		remedy := fmt.Sprintf("give %d", n/osts*osts)
		if up := (n/osts + 1) * osts; up <= ranks {
			remedy += fmt.Sprintf(" or %d", up)
		}
		return 0, badSetting("aggregators", n,
			fmt.Sprintf("must be a multiple of the stripe count, %d: with P4 each OST has the same number of them", osts), remedy)
	}
	return n, nil
}

// pick chooses n of some ranks as aggregators: the first rank of each node, node
// by node, as ROMIO does, and as Larrosa, whose aggregator a is locale a; if there
// are fewer nodes, further ranks evenly spread within each.
func (s *Settings) pick(m *mapping, ranks []int, n int) []int {
	index := make(map[int]int)
	var members [][]int // of each node in turn
	for _, i := range ranks {
		k, ok := index[m.node[i]]
		if !ok {
			k = len(members)
			index[m.node[i]] = k
			members = append(members, nil)
		}
		members[k] = append(members[k], i)
	}
	chosen := make([]int, 0, n)
	for k, share := range deal(lengths(members), n) {
		for _, part := range split(nil, members[k], share) {
			chosen = append(chosen, part[0])
		}
	}
	slices.Sort(chosen)
	return chosen
}
