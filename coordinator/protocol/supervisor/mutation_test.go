package supervisor

import "testing"

// mutations are protocols with one thing done wrong each. The simulation has to
// find every one of them out within so many schedules.
var mutations = []struct {
	name string
	m    mutant
}{
	{"a frame of the log is not written", mutant{dropFrame: true}},
	{"a message is delivered before its frame is durable", mutant{deliverEarly: true}},
	{"a message is acknowledged before its frame is durable", mutant{ackEarly: true}},
	{"the rank goes on before a determinant is durable", mutant{goOnEarly: true}},
	{"receives from any source are replayed in any order", mutant{ignoreOrder: true}},
	{"duplicates are not suppressed", mutant{noDuplicates: true}},
	{"a new connection begins one message late", mutant{resendLater: 1}},
	{"messages kept for others are left out of checkpoints", mutant{forgetKept: true}},
	{"a rank that went back numbers its messages from 1", mutant{zeroSent: true}},
	{"incarnations are ignored", mutant{anyIncarnation: true}},
	{"a group is not drained", mutant{skipDrain: true}},
	{"a checkpoint is committed before the last rank has written", mutant{commitEarly: true}},
	{"a checkpoint is stored before the log that it covers", mutant{noFlush: true}},
	{"one message too many is collected", mutant{collectMore: 1}},
	{"one frame too many is cut off a log", mutant{truncateMore: 1}},
	{"all but the newest checkpoints are collected", mutant{supervisor: faults{collectMore: true}}},
	{"a group goes back farther than it has to", mutant{supervisor: faults{notNewest: true}}},
	{"all survivors go back", mutant{supervisor: faults{rollBackAll: true}}},
	{"what was put out is forgotten with the coordinator", mutant{noPrinted: true}},
	{"one group too few goes back", mutant{supervisor: faults{keepOrphans: true}}},
	{"survivors are not fenced", mutant{supervisor: faults{noFence: true}}},
	{"groups that go back together start one by one", mutant{supervisor: faults{startTogether: true}}},
	{"checkpoints of a history that is given up stay", mutant{supervisor: faults{keepStale: true}}},
}

// TestMutations sees to it that the simulation would notice.
func TestMutations(t *testing.T) {
	const limit = 20000
	for _, c := range mutations {
		caught := false
		for seed := uint64(0); seed < limit && !caught; seed++ {
			if _, text := simulate(seed, &c.m); text != "" {
				caught = true
				t.Logf("%s: caught at seed %d %s", c.name, seed, text)
			}
		}
		if !caught {
			t.Errorf("%s: not caught within %d schedules", c.name, limit)
		}
	}
}
