package supervisor

import (
	"testing"

	"ckpt/coordinator/protocol/channel"
)

// TestOneGroupHasNoCounters: the checkpoints of one group need no counters of messages.
// Those of 64 ranks and 10,000 checkpoints would take 655 MB.
func TestOneGroupHasNoCounters(t *testing.T) {
	const np, checkpoints = 64, 1000
	cfg := Config{Groups: [][]int{make([]int, np)}, Log: channel.None}
	for r := range np {
		cfg.Groups[0][r] = r
	}
	for n := range checkpoints {
		cfg.Known = append(cfg.Known, Stored{Group: 0, Number: n + 1, Iter: 10 * (n + 1)})
	}
	line, err := FindLine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if at := line.Places[0].State; at.Number != checkpoints || at.Iteration != 10*checkpoints {
		t.Errorf("the line is at checkpoint %d, iteration %d", at.Number, at.Iteration)
	}
	states := line.History.Ranks[0].Checkpoints
	if len(states) < checkpoints {
		t.Fatalf("only %d states", len(states))
	}
	for _, s := range states {
		if len(s.Sent)+len(s.Received) > 0 {
			t.Fatalf("state %d has %d counters", s.Number, len(s.Sent)+len(s.Received))
		}
	}
}
