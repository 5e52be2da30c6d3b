package recovery

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMembers compares the line of groups with that of their ranks, which are bound to
// each other by counters of messages that were never sent: state k of each has sent
// and received k.
func TestMembers(t *testing.T) {
	checks(t, 10, func(t *rapid.T) {
		groups := rapid.SampledFrom([][][]int{{{0, 1}, {2, 3}}, {{0, 3}, {1}, {2}}, {{1}, {0, 2, 3}}}).Draw(t, "groups")
		const n = 4
		of := make([]int, n)
		for g, members := range groups {
			for _, r := range members {
				of[r] = g
			}
		}
		rec := NewRecorder(n)
		for _, ev := range rapid.SliceOfN(uniform(12*n*n), 0, 150).Draw(t, "events") {
			switch k, a, b := ev/n/n, ev/n%n, ev%n; {
			case k < 5 && of[a] != of[b]:
				rec.Send(a, b)
			case k < 10:
				rec.Receive(a, b)
			default:
				for _, r := range groups[of[a]] {
					rec.Checkpoint(r)
				}
			}
		}
		ranks := rec.History()
		together := &History{Ranks: make([]Rank, len(groups)), Members: groups}
		var failed []int
		down := rapid.IntRange(0, len(groups)-1).Draw(t, "failed group")
		for g, members := range groups {
			join := func(state func(r int) State) State {
				s := state(members[0])
				s.Sent, s.Received = nil, nil
				for _, r := range members {
					s.Sent, s.Received = append(s.Sent, state(r).Sent...), append(s.Received, state(r).Received...)
				}
				return s
			}
			for k := range ranks.Ranks[members[0]].Checkpoints {
				together.Ranks[g].Checkpoints = append(together.Ranks[g].Checkpoints, join(func(r int) State { return ranks.Ranks[r].Checkpoints[k] }))
			}
			now := join(func(r int) State { return *ranks.Ranks[r].Current })
			together.Ranks[g].Current = &now
			if g == down {
				failed = members
			}
		}
		for r := range ranks.Ranks { // now they are bound
			bind := func(s *State, k int) {
				s.Sent, s.Received = slices.Clone(s.Sent), slices.Clone(s.Received)
				for _, mate := range groups[of[r]] {
					if mate != r {
						s.Sent[mate], s.Received[mate] = uint64(k), uint64(k)
					}
				}
			}
			for k := range ranks.Ranks[r].Checkpoints {
				bind(&ranks.Ranks[r].Checkpoints[k], k)
			}
			bind(ranks.Ranks[r].Current, len(ranks.Ranks[r].Checkpoints))
		}
		for _, mode := range modes() {
			opt := Options{InTransit: mode}
			want, err := Find(ranks, failed, opt)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Find(together, []int{down}, opt)
			if err != nil {
				t.Fatal(err)
			}
			for r, p := range want.Places {
				if at := got.Places[of[r]].Index; at != p.Index {
					t.Errorf("%v: rank %d is at %d, its group %d at %d", mode, r, p.Index, of[r], at)
				}
			}
		}
	})
}
