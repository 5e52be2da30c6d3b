package coordinator

import (
	"context"
	"fmt"
	"testing"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/image/vfs"
)

// TestFindLine compares the line that is shown with where a restart would begin:
// the protocol, given the same store, is asked for its first actions.
func TestFindLine(t *testing.T) {
	for _, mode := range modes() {
		t.Run(fmt.Sprintf("%s,%s,%d", mode.Mode, mode.Log, mode.GroupSize), func(t *testing.T) {
			s := job(t, "ring.S.5", 2)
			s.Mode, s.Log, s.GroupSize = mode.Mode, mode.Log, mode.GroupSize
			s.Schedule.Every = 4
			_, _, opt := launch(t, s, Options{})
			store, err := image.OpenStore(vfs.OS{}, opt.Store)
			if err != nil {
				t.Fatal(err)
			}
			names, err := store.Jobs()
			if err != nil || len(names) != 1 {
				t.Fatalf("jobs %v, %v", names, err)
			}
			l, err := FindLine(context.Background(), store, names[0])
			if err != nil {
				t.Fatal(err)
			}
			j, err := store.Job(names[0])
			if err != nil {
				t.Fatal(err)
			}
			if l.Single() {
				if n, err := j.Latest(); err != nil || l.Line.Places[0].State.Number != n {
					t.Errorf("the line is at checkpoint %d, the newest is %d, %v", l.Line.Places[0].State.Number, n, err)
				}
				return
			}
			for g, from := range firstSpawns(t, &s, j) {
				if at := l.Line.Places[g].State.Number; at != from {
					t.Errorf("group %d is shown at checkpoint %d, and would restart from %d", g, at, from)
				}
			}
			if l.Pessimistic() && l.Line.Depth > 0 {
				t.Errorf("a domino effect of %d waves in spite of the log", l.Line.Depth)
			}
			if l.Log == channel.None && len(l.Line.Steps) <= len(l.Groups) {
				t.Error("no domino effect: the case proves nothing")
			}
		})
	}
}

// firstSpawns returns the checkpoint that each group would begin with.
func firstSpawns(t *testing.T, s *Spec, j *image.Job) []int {
	t.Helper()
	d := newDriver(*s, j, "", s.Mapping, libraryID{}, protocol.DefaultLimits, nil)
	if err := d.formGroups(); err != nil {
		t.Fatal(err)
	}
	cfg, err := d.supervisorConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := supervisor.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	from := make([]int, len(d.groups))
	for _, a := range m.Begin(0) {
		if spawn, ok := a.Action.(protocol.Spawn); ok {
			from[a.Group] = spawn.From
		}
	}
	return from
}
