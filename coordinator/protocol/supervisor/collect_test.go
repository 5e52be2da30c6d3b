package supervisor

import (
	"testing"

	"ckpt/coordinator/protocol/channel"
)

// crossed returns the vector of a rank's k-th checkpoint, of two ranks whose
// checkpoints always have messages on their way between them: no line gets on.
func crossed(rank, k int) channel.Vector {
	n := uint64(2*k + rank)
	v := channel.Vector{Sent: make([]uint64, 2), Received: make([]uint64, 2), Depends: make([]uint64, 2)}
	v.Sent[1-rank], v.Received[1-rank] = n, n
	return v
}

// TestCollectOfMany takes checkpoints in a job of which nothing can be given away,
// and counts what is allocated for each: it does not grow with what is kept.
func TestCollectOfMany(t *testing.T) {
	cost := func(kept int) float64 {
		cfg := Config{Groups: [][]int{{0}, {1}}, Log: channel.None, Keep: 2, Iterations: 1 << 20}
		for i := range kept {
			g := i % 2
			cfg.Known = append(cfg.Known, Stored{Group: g, Number: i + 1, Iter: i/2 + 1, Vectors: []channel.Vector{crossed(g, i/2+1)}})
		}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		number := kept
		// Over a few looks: each takes allocations for all that is kept.
		return testing.AllocsPerRun(5*kept/keptPerLook, func() {
			g := s.groups[number%2]
			number++
			g.vectors = []channel.Vector{crossed(g.id, (number+1)/2)}
			s.taken(g, number, (number+1)/2)
			s.collect()
		})
	}
	few, many := cost(640), cost(6400)
	t.Logf("allocations per checkpoint: %.0f with 640 kept, %.0f with 6400", few, many)
	if many > 1.5*few {
		t.Errorf("%.0f allocations per checkpoint with 640 kept, %.0f with 6400", few, many)
	}
}
