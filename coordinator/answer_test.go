package coordinator

import (
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
)

// TestAnswerOfGroups asks for a checkpoint of all groups. The answer comes with the
// checkpoint whose number it says, whoever has taken another one since, or answers
// last and has none to take any more.
func TestAnswerOfGroups(t *testing.T) {
	t.Parallel()
	store, j := emptyJob(t, t.TempDir())
	s := short(t, "ring.S.3", job.Uncoordinated, "")
	d := newDriver(resolved(t, s), j, store.Dir(), libraryID{}, protocol.DefaultLimits, &recorder{t: t})
	takes := func(g *group, number int) supervisor.Action {
		g.taken = &image.Manifest{Job: "job", Number: number, Group: g.id, Groups: 3, Ranks: make([]image.Rank, 1)}
		return supervisor.Action{Group: g.id, Action: protocol.Report{Notice: protocol.Notice{Kind: protocol.CheckpointTaken, Rank: -1, Checkpoint: number}}}
	}
	told := map[int]int{} // by request
	for id := 7; id <= 8; id++ {
		d.requests.waiting[id] = func(a protocol.Answer, ev *job.CheckpointEvent, _ error) {
			if ev != nil {
				told[a.ID] = ev.Number
			}
		}
	}
	for group, number := range []int{4, 5, 3} {
		d.perform([]supervisor.Action{takes(d.groups[group], number)})
	}
	d.perform([]supervisor.Action{takes(d.groups[1], 8)}) // by its own schedule
	d.does(protocol.Answer{ID: 7, Number: 5})
	d.does(protocol.Answer{ID: 8, Err: "it could not be"})
	if told[7] != 5 || told[8] != 0 || len(d.requests.taken) != 0 {
		t.Errorf("told of checkpoints %v, want 5 for request 7; %d are kept", told, len(d.requests.taken))
	}
}
