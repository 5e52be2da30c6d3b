package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// failed launches a job that fails at an iteration, before it has any checkpoint.
func failed(t *testing.T, s job.Spec, iter int) Options {
	t.Helper()
	opt := Options{Store: t.TempDir(), Job: "job", Observer: &recorder{t: t}, Failures: []launch.Failure{{Rank: 0, Node: -1, Iter: iter}}}
	if _, err := Launch(t.Context(), s, opt); !errors.As(err, new(*JobFailedError)) {
		t.Fatalf("launch %s: %v, want it to fail", s.App, err)
	}
	opt.Failures = nil
	return opt
}

// short describes a job of a few iterations that puts a line out in every other.
func short(t *testing.T, app string, mode job.Mode, log string) job.Spec {
	s := newSpec(t, app, 2)
	s.Iterations, s.Mode, s.Log, s.Residuals = 12, mode, log, 2
	return s
}

// TestTakeOver launches a job under the name of one that has failed without a
// checkpoint: nothing of that one is seen any more, logs and output least of all.
func TestTakeOver(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, c := range []struct{ old, anew job.Spec }{
		{short(t, "ring.S.4", job.Coordinated, ""), short(t, "ring.S.4", job.Coordinated, "")},
		{short(t, "ring.S.4", job.Uncoordinated, ""), short(t, "ring.S.4", job.Uncoordinated, "")},
		{short(t, "lu.S.4", job.Uncoordinated, ""), short(t, "bt.S.4", job.Uncoordinated, "")},
		{short(t, "ring.S.5", job.Uncoordinated, "optimistic"), short(t, "ring.S.3", job.Uncoordinated, "optimistic")},
		{short(t, "ring.S.3", job.Uncoordinated, "pessimistic-sender"), short(t, "ring.S.5", job.Semi, "")},
		{short(t, "ring.S.4", job.Semi, ""), short(t, "ring.S.4", job.Coordinated, "")},
	} {
		t.Run(fmt.Sprintf("%s,%s/%s,%s", c.old.App, c.old.Mode, c.anew.App, c.anew.Mode), func(t *testing.T) {
			want := undisturbed(t, c.anew)
			opt := failed(t, c.old, 9)
			rec := &recorder{t: t}
			opt.Observer = rec
			r, err := Launch(t.Context(), c.anew, opt)
			if err != nil {
				t.Fatal(err)
			}
			if r.Digest != want.Digest {
				t.Errorf("digest %s, under another name %s", r.Digest, want.Digest)
			}
			checkOutputs(t, &c.anew, eventsOf[*job.OutputEvent](rec))
			dir := filepath.Join(opt.Store, "jobs", opt.Job)
			if b, err := os.ReadFile(filepath.Join(dir, "history.jsonl")); err != nil || bytes.Contains(b, []byte(`"failure"`)) {
				t.Errorf("history %v: %s", err, b)
			}
			if dirs, err := filepath.Glob(filepath.Join(dir, "logs", "rank-*")); err != nil || len(dirs) > c.anew.NP {
				t.Errorf("%d message logs of %d ranks, %v", len(dirs), c.anew.NP, err)
			}
		})
	}
}

// TestNoTakeOver continues a job that has no checkpoint: its logs are its own.
func TestNoTakeOver(t *testing.T) {
	notRaced(t)
	t.Parallel()
	s := short(t, "ring.S.4", job.Uncoordinated, "")
	want := undisturbed(t, s)
	rec := &recorder{t: t}
	opt := failed(t, s, 9)
	before := len(eventsOf[*job.OutputEvent](opt.Observer.(*recorder)))
	opt.Observer = rec
	r, err := Restart(t.Context(), RestartOptions{Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	if n := before + len(eventsOf[*job.OutputEvent](rec)); r.Digest != want.Digest || n != 6 {
		t.Errorf("%d outputs, digest %s, want 6, %s", n, r.Digest, want.Digest)
	}
}

// TestHintWithoutCheckpoint ends jobs before they have a checkpoint. A job of several
// groups resumes from its logs, or restarts from scratch; launched again, it would lose
// them.
func TestHintWithoutCheckpoint(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, c := range []struct {
		mode     job.Mode
		log      string
		restarts bool
	}{{job.Coordinated, "", false}, {job.Semi, "", true}, {job.Uncoordinated, "none", true}} {
		t.Run(string(c.mode), func(t *testing.T) {
			s := short(t, "ring.S.4", c.mode, c.log)
			opt := Options{Store: t.TempDir(), Job: "failed", Observer: &recorder{t: t}, Failures: []launch.Failure{{Rank: 0, Node: -1, Iter: 9}}}
			_, err := Launch(t.Context(), s, opt)
			var lost *JobFailedError
			if !errors.As(err, &lost) || strings.Contains(lost.Hint(), "{restart failed} continues") != c.restarts {
				t.Errorf("%v, hint %q", err, lost.Hint())
			}
			twice := make(chan struct{}, 2)
			twice <- struct{}{}
			twice <- struct{}{}
			opt.Job, opt.Failures, opt.Interrupts, opt.grace = "stopped", nil, twice, time.Hour
			r, err := Launch(t.Context(), s, opt)
			if err != nil || !r.Interrupted || r.Outcome != job.StateStopped || r.CanRestart() != c.restarts {
				t.Errorf("interrupted: %+v, %v, can be restarted %v", r, err, r.CanRestart())
			}
			for _, name := range []string{"failed", "stopped"} {
				opt.Job, opt.Interrupts = name, nil
				_, err := Restart(t.Context(), RestartOptions{Options: opt})
				var none interface{ Hint() string }
				if c.restarts && err != nil || !c.restarts && (!errors.Is(err, image.ErrCheckpointNotFound) ||
					!errors.As(err, &none) || !strings.Contains(none.Hint(), "{launch APP} {job} "+name)) {
					t.Errorf("restart of %s: %v, hint %v", name, err, none)
				}
			}
		})
	}
}

// dyingDisk works for so many changes, and never again.
type dyingDisk struct {
	vfs.Buffered
	left int
}

func (d *dyingDisk) change() error {
	if d.left--; d.left < 0 {
		return syscall.EIO
	}
	return nil
}

func (d *dyingDisk) Create(name string) (vfs.File, error) {
	if err := d.change(); err != nil {
		return nil, err
	}
	return d.FS.Create(name)
}

func (d *dyingDisk) Rename(from, to string) error {
	return errors.Join(d.change(), d.unlessDead(func() error { return d.FS.Rename(from, to) }))
}

func (d *dyingDisk) Remove(name string) error {
	if err := d.change(); err != nil {
		return err
	}
	return d.FS.Remove(name)
}

func (d *dyingDisk) SyncDir(name string) error {
	return errors.Join(d.change(), d.unlessDead(func() error { return d.FS.SyncDir(name) }))
}

func (d *dyingDisk) unlessDead(do func() error) error {
	if d.left < 0 {
		return nil
	}
	return do()
}

// TestTakeOverCutShort ends a take-over after more and more of its changes. The rest is
// the old job, or one that restarts from scratch.
func TestTakeOverCutShort(t *testing.T) {
	notRaced(t)
	t.Parallel()
	step := 3
	if testkit.Nightly() {
		step = 1
	}
	old, anew := short(t, "ring.S.3", job.Uncoordinated, "optimistic"), short(t, "ring.S.4", job.Uncoordinated, "")
	want := map[string]string{}
	for _, s := range []job.Spec{old, anew} {
		r, _, _ := mustLaunch(t, s, Options{})
		want[s.App] = r.Digest
	}
	text, err := anew.Encode()
	if err != nil {
		t.Fatal(err)
	}
	first := failed(t, old, 9)
	done := false
	seen := map[string]int{}
	for n := 0; !done; n += step {
		opt := first
		opt.Store = t.TempDir()
		if err := os.CopyFS(opt.Store, os.DirFS(first.Store)); err != nil {
			t.Fatal(err)
		}
		disk := &dyingDisk{vfs.Through(vfs.OS{}), n}
		store, err := image.OpenStore(disk, opt.Store)
		if err != nil {
			t.Fatal(err)
		}
		taken, err := createJob(store, opt.Job, anew.App, text, forsake)
		if done = err == nil; done {
			err = taken.Unlock()
		} else if errors.Is(err, syscall.EIO) {
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := Restart(t.Context(), RestartOptions{Options: opt})
		if err != nil {
			t.Fatalf("after %d changes: %v", n, err)
		}
		seen[r.App]++
		if r.Digest != want[r.App] {
			t.Errorf("after %d changes: %s ends with %s, want %s", n, r.App, r.Digest, want[r.App])
		}
	}
	if seen[old.App] < 3 || seen[anew.App] == 0 {
		t.Errorf("restarted %v: the case proves little", seen)
	}
}
