package supervisor

import (
	"os"
	"testing"
)

// mutations are protocols with one thing done wrong each. The simulation has to
// find every one of them out.
var mutations = []struct {
	name string
	seed uint64 // the first schedule that tells
	m    mutant
}{
	{"a frame of the log is not written", 0, mutant{dropFrame: true}},
	{"a message is delivered before its frame is durable", 0, mutant{deliverEarly: true}},
	{"a message is acknowledged before its frame is durable", 0, mutant{ackEarly: true}},
	{"the rank goes on before a determinant is durable", 197, mutant{goOnEarly: true}},
	{"receives from any source are replayed in any order", 0, mutant{ignoreOrder: true}},
	{"duplicates are not suppressed", 0, mutant{noDuplicates: true}},
	{"a new connection begins one message late", 0, mutant{resendLater: 1}},
	{"messages kept for others are left out of checkpoints", 9, mutant{forgetKept: true}},
	{"a rank that went back numbers its messages from 1", 6, mutant{zeroSent: true}},
	{"incarnations are ignored", 26, mutant{anyIncarnation: true}},
	{"where a new process is, is forgotten after a fence", 4551, mutant{forgetAddress: true}},
	{"a group is not drained", 35, mutant{skipDrain: true}},
	{"a checkpoint is committed before the last rank has written", 0, mutant{commitEarly: true}},
	{"a checkpoint is stored before the log that it covers", 19618, mutant{noFlush: true}},
	{"one message too many is collected", 9, mutant{collectMore: 1}},
	{"one frame too many is cut off a log", 42, mutant{truncateMore: 1}},
	{"what was put out is forgotten with the coordinator", 0, mutant{noPrinted: true}},
}

// TestMutations sees to it that the simulation would notice. The schedule that is
// known to tell is tried first, then all from 0; with CKPT_SIM_MUTATIONS set, all
// from 0 at once.
func TestMutations(t *testing.T) {
	const limit = 50000
	scan := os.Getenv("CKPT_SIM_MUTATIONS") != ""
	for _, c := range mutations {
		text := ""
		seed := c.seed
		if !scan {
			_, text = simulate(seed, &c.m)
		}
		for next := uint64(0); text == "" && next < limit; next++ {
			seed = next
			_, text = simulate(seed, &c.m)
		}
		if text == "" {
			t.Errorf("%s: not caught within %d schedules", c.name, limit)
			continue
		}
		t.Logf("%s: caught at seed %d %s", c.name, seed, text)
	}
}
