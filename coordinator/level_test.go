package coordinator

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// A secondLevel keeps a copy of each version in a second directory, from which it repairs the
// store. A level overrides what it does, and leaves the rest to the next one.
type secondLevel struct {
	levels.Level
	g   *group
	fs  vfs.FS
	dir string
}

func (s *secondLevel) path(number int) string { return filepath.Join(s.dir, fmt.Sprint(number)) }

// InStore copies a version that the store has.
func (s *secondLevel) InStore(number int) {
	s.Level.InStore(number)
	if err := s.copyDir(s.path(number), s.g.job.NumberDir(number)); err != nil {
		s.g.d.Warn(fmt.Sprintf("checkpoint %d is in the store only: %v", number, err))
	}
}

func (s *secondLevel) copyDir(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, path[len(from):])
		if e.IsDir() {
			return s.fs.Mkdir(at)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := s.fs.Create(at)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt(b, 0)
		return err
	})
}

// Find repairs a version that the store has lost.
func (s *secondLevel) Find(number int) func() (levels.Finding, error) {
	next := s.Level.Find(number)
	return func() (levels.Finding, error) {
		if f, err := next(); err == nil {
			return f, nil
		}
		if err := os.CopyFS(s.g.job.NumberDir(number), os.DirFS(s.path(number))); err != nil {
			return levels.Finding{}, err
		}
		return next()
	}
}

// launchSecond is Launch with a second level.
func launchSecond(t *testing.T, spec job.Spec, opt Options, dir string) *Result {
	t.Helper()
	j, err := opt.newJob(spec, forsake)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Unlock()
	library, err := identifySelf()
	if err != nil {
		t.Fatal(err)
	}
	d, err := opt.simulated(resolved(t, spec), j, library)
	if err != nil {
		t.Fatal(err)
	}
	g := d.groups[0]
	g.level = &secondLevel{Level: g.level, g: g, fs: opt.fileSystem(), dir: dir}
	r, err := d.drive(t.Context(), nil, opt.Failures, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLevels: whatever befalls the directory of a level, a job completes, restarts from what
// the levels have between them, and what the store has is sound.
func TestLevels(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"store", "nodes", "second"} {
		for _, state := range testkit.Some(2, "sound", "lost", "full", "read-only", "10e6") { // the last is a rate
			t.Run(name+" "+state, func(t *testing.T) {
				t.Parallel()
				s := newSpec(t, "bt.S.4", 2)
				if name == "nodes" {
					s = tiered(t, "bt.S.4", 2, "partner", "behind")
				}
				s.AutoRestart, s.Iterations = true, 40
				want := undisturbed(t, s)
				opt := Options{Store: t.TempDir(), Job: "level-" + name + "-" + state,
					Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: 25}}}
				dir := map[string]string{"store": opt.Store, "second": t.TempDir()}[name]
				if name == "nodes" {
					dir = s.Tier.NodeDir(0)
				}
				gate := filepath.Join(t.TempDir(), "gate")
				forRank(t, opt.Job, envStore, dir+":"+gate)
				opt.FS = storeDisk{vfs.Through(vfs.OS{}), dir, gate}
				s.Schedule.Every = 10
				rec := &recorder{t: t}
				rec.on = func(ev any) {
					if _, failed := ev.(*FailureEvent); failed && state == "lost" {
						lose(t, name, dir, opt)
					}
					if cp, ok := ev.(*job.CheckpointEvent); ok && cp.Number == 1 && state != "sound" && state != "lost" {
						if err := os.WriteFile(gate, []byte(state), 0o600); err != nil {
							t.Error(err)
						}
					}
				}
				opt.Observer = rec
				var r *Result
				if name == "second" {
					r = launchSecond(t, s, opt, dir)
				} else {
					r, _, _ = mustLaunch(t, s, opt)
				}
				if r.Digest != want.Digest || r.Failures != 1 || r.Checkpoints == 0 {
					t.Errorf("%+v, want digest %s: %q", r, want.Digest, rec.warned)
				}
				checkLevel(t, rec, name, state)
				_ = os.Remove(gate)
				if state != "lost" || name == "second" {
					verifyAll(t, opt)
				}
			})
		}
	}
}

// checkLevel: the ranks restart from the newest checkpoint that the levels have between them,
// and one warning at most says what a level does not take.
func checkLevel(t *testing.T, rec *recorder, name, state string) {
	t.Helper()
	from, warning := 2, ""
	switch unwritable := state == "full" || state == "read-only"; {
	case name == "store" && (unwritable || state == "lost"):
		from = 1
		if state == "full" {
			warning = "were aborted because the storage is full"
		}
	case name == "nodes" && unwritable:
		warning = "checkpoints go to the store until all nodes can keep them again: node 0"
	case name == "second" && unwritable:
		warning = "is in the store only"
	}
	starts := eventsOf[*StartEvent](rec)
	if last := starts[len(starts)-1]; last.From != from {
		t.Errorf("restarted from checkpoint %d, want %d", last.From, from)
	}
	if restarts := eventsOf[*RestartEvent](rec); len(restarts) == 0 || restarts[0].From < from {
		t.Errorf("restarts %+v, want the first from checkpoint %d or newer", restarts, from)
	}
	for _, w := range rec.warned {
		if warning == "" || !strings.Contains(w, warning) {
			t.Errorf("warned of %q, want %q", w, warning)
		}
	}
	if warning != "" && len(rec.warned) == 0 {
		t.Errorf("no warning says %q", warning)
	}
}

// lose removes what a level has of the newest checkpoint when a rank dies. With a second level
// the store loses it, which the second one repairs.
func lose(t *testing.T, name, dir string, opt Options) {
	if name == "second" {
		dir = opt.Store
	}
	if err := os.RemoveAll(filepath.Join(dir, "jobs", opt.Job, "0002")); err != nil {
		t.Error(err)
	}
}
