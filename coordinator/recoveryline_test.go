package coordinator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// TestFindLine compares the line that is shown with where a restart would begin:
// the protocol, given the same store, is asked for its first actions.
func TestFindLine(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, mode := range testkit.Some(4, modes()...) {
		t.Run(fmt.Sprintf("%s,%s,%d", mode.Mode, mode.Log, mode.GroupSize), func(t *testing.T) {
			s := newSpec(t, "ring.S.5", 2)
			s.Mode, s.Log, s.GroupSize = mode.Mode, mode.Log, mode.GroupSize
			s.Iterations, s.Schedule.Every = 20, 4
			_, _, opt := mustLaunch(t, s, Options{})
			store, err := image.OpenStore(vfs.OS{}, opt.Store)
			if err != nil {
				t.Fatal(err)
			}
			names, err := store.Jobs()
			if err != nil || len(names) != 1 {
				t.Fatalf("jobs %v, %v", names, err)
			}
			l, err := wire.FindLine(context.Background(), store, names[0])
			if err != nil {
				t.Fatal(err)
			}
			j, err := store.Job(names[0])
			if err != nil {
				t.Fatal(err)
			}
			if !l.Several() {
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
func firstSpawns(t *testing.T, s *job.Spec, j *image.Job) []int {
	t.Helper()
	d := newDriver(resolved(t, *s), j, "", libraryID{}, protocol.DefaultLimits, nil)
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

// TestFindLineAnew looks at jobs whose beginning again was cut short: checkpoints
// and parts of the logs are there, and nobody goes back to them.
func TestFindLineAnew(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, mode := range testkit.Some(4, modes()...) {
		if mode.Mode == job.Coordinated || mode.Log == channel.None.String() {
			continue
		}
		t.Run(fmt.Sprintf("%s,%s,%d", mode.Mode, mode.Log, mode.GroupSize), func(t *testing.T) {
			s := newSpec(t, "ring.S.5", 2)
			s.Mode, s.Log, s.GroupSize, s.Iterations, s.Schedule.Every = mode.Mode, mode.Log, mode.GroupSize, 16, 6
			want, _, opt := mustLaunch(t, s, Options{})
			store, err := image.OpenStore(vfs.OS{}, opt.Store)
			if err != nil {
				t.Fatal(err)
			}
			j, err := store.Job(opt.Job)
			if err != nil {
				t.Fatal(err)
			}
			line, err := job.ReadBaseline(j, len(resolved(t, s).Groups))
			if err != nil {
				t.Fatal(err)
			}
			for g := range line.Base {
				line.Base[g] = -1
			}
			if err := job.WriteBaseline(j, line); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(job.LogDir(j, 0), "00000001.seg"), []byte("torn"), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := wire.FindLine(t.Context(), store, opt.Job)
			if err != nil {
				t.Fatal(err)
			}
			for g, p := range l.Line.Places {
				if n := len(l.History.Ranks[g].Checkpoints); p.State.Number != 0 || n != 1 {
					t.Errorf("group %d resumes from checkpoint %d, one of %d states", g, p.State.Number, n)
				}
			}
			if _, damage, err := job.VerifyLogs(j); err != nil || len(damage) > 0 {
				t.Errorf("damage %v, %v", damage, err)
			}
			r, err := Restart(t.Context(), RestartOptions{Options: opt})
			if err != nil || r.Digest != want.Digest {
				t.Errorf("%+v, %v, want digest %s", r, err, want.Digest)
			}
		})
	}
}
