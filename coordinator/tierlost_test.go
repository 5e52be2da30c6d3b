package coordinator

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
)

// An outage of a node directory: what breaks it, in the middle of a run, and what the user
// does about it then. Without a cure the job makes the directory again.
type nodeOutage struct {
	name        string
	mounted     bool // it is a file system of its own
	lasts       bool // what breaks it goes on until the cure
	spoil, cure func(dir string) error
}

// putFile puts a file in the place of a directory.
func putFile(dir string) error {
	return errors.Join(removeBusy(dir), os.WriteFile(dir, []byte("a file\n"), 0o600))
}

// removeBusy removes a directory in which somebody makes files meanwhile.
func removeBusy(dir string) error {
	for {
		if err := os.RemoveAll(dir); !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
}

// fillDisk takes all space of the file system of a directory.
func fillDisk(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "full"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for b := make([]byte, 1<<12); err == nil; {
		_, err = f.Write(b)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

// cover shows a directory read-only from now on, also where files are open for writing.
func cover(dir string) error {
	return errors.Join(syscall.Mount(dir, dir, "", syscall.MS_BIND, ""),
		syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
}

func uncover(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

var nodeOutages = []nodeOutage{
	{name: "no jobs", spoil: func(dir string) error { return removeBusy(filepath.Join(dir, "jobs")) }},
	{name: "a file", spoil: putFile, cure: os.Remove},
	{name: "full", mounted: true, lasts: true, spoil: fillDisk, cure: func(dir string) error { return os.Remove(filepath.Join(dir, "full")) }},
	{name: "read-only", mounted: true, spoil: cover, cure: uncover},
	{name: "gone", spoil: removeBusy},
	{name: "empty", spoil: func(dir string) error { return errors.Join(removeBusy(dir), os.Mkdir(dir, 0o700)) }},
	{name: "a dead link", spoil: func(dir string) error { return errors.Join(removeBusy(dir), os.Symlink(dir+"-gone", dir)) }, cure: os.Remove},
	{name: "a loop of links", spoil: func(dir string) error { return errors.Join(removeBusy(dir), os.Symlink(dir, dir)) }, cure: os.Remove},
	{name: "unmounted", mounted: true, spoil: uncover},
	{name: "a wrong format", spoil: func(dir string) error {
		return errors.Join(removeBusy(filepath.Join(dir, "jobs")), os.WriteFile(filepath.Join(dir, "format"), nil, 0o600))
	}},
	{name: "another job", spoil: func(dir string) error {
		return errors.Join(removeBusy(filepath.Join(dir, "jobs")), os.MkdirAll(filepath.Join(dir, "jobs"), 0o700), os.WriteFile(filepath.Join(dir, "jobs", "job"), nil, 0o600))
	}, cure: func(dir string) error { return os.Remove(filepath.Join(dir, "jobs", "job")) }},
}

// usualOutages is how many of them run without CKPT_NIGHTLY, each under one scheme.
const usualOutages = 2

// TestTierNodeFails breaks the directory of a node in the middle of a run: the
// checkpoint under way may be aborted, the next go to the store, and to the nodes as soon as the
// directory works, protected. All that was taken is whole, and the job can be restarted.
func TestTierNodeFails(t *testing.T) {
	notRaced(t)
	t.Parallel()
	schemes := []string{"partner", "xor:4", "rs:2+2"}
	for i, o := range nodeOutages {
		for k, scheme := range schemes {
			if testkit.Nightly() || i < usualOutages && k == i%len(schemes) {
				t.Run(o.name+", "+scheme, func(t *testing.T) { o.check(t, scheme) })
			}
		}
	}
}

func (o *nodeOutage) check(t *testing.T, scheme string) {
	s := tiered(t, "ring.S.4", 4, scheme, "none")
	s.Schedule.Every, s.Iterations = 20, 1<<30
	dir := s.Tier.NodeDir(2)
	if o.mounted {
		testkit.All(t, "mounts")
		if err := errors.Join(os.MkdirAll(dir, 0o700), syscall.Mount("ckpt-test", dir, "tmpfs", 0, "size=8m")); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for uncover(dir) == nil { // one over the other, or none
			}
		}()
	}
	const before = 2 // checkpoints that are taken before
	stage, past, stop := 0, 0, make(chan struct{}, 2)
	step := func(do func(string) error) {
		if err := do(dir); err != nil {
			t.Error(err)
			stage = 3
			stop <- struct{}{}
		}
	}
	rec := &recorder{t: t}
	rec.on = func(ev any) {
		if o.lasts && stage == 1 {
			step(o.spoil)
		}
		cp, ok := ev.(*job.CheckpointEvent)
		if !ok {
			return
		}
		local := cp.StorageLevel == string(nodes.Protected)
		if !local {
			past++
		}
		switch {
		case stage == 0 && cp.Number == before:
			stage = 1
			if o.cure == nil {
				stage = 2
			}
			step(o.spoil)
		case stage == 1 && !local && past == 3:
			stage = 2
			step(o.cure)
		case stage == 2 && local:
			stage = 3
			stop <- struct{}{}
		case cp.Number == 20_000: // it does not come to an end
			stop <- struct{}{}
		}
	}
	_, _, opt := mustLaunch(t, s, Options{Observer: rec, Interrupts: stop})
	if stage != 3 {
		t.Fatalf("it came to stage %d", stage)
	}
	lost := eventsOf[*AbortedEvent](rec)
	if len(lost) > 2 {
		t.Errorf("aborted %d checkpoints: %+v", len(lost), lost)
	}
	if o.cure != nil && !(warned(rec, "checkpoints go to the store until") && warned(rec, "all nodes can keep")) {
		t.Errorf("warnings %q", rec.warned)
	}
	if numbers := storedNumbers(t, opt); len(numbers) > nodes.Slots {
		t.Errorf("the store has checkpoints %v", numbers)
	}
	verifyAll(t, opt)
	o.again(t, opt)
}

// again restarts the job and stops it.
func (o *nodeOutage) again(t *testing.T, opt Options) {
	t.Helper()
	stop := make(chan struct{}, 1)
	rec := &recorder{t: t}
	rec.on = func(ev any) {
		if _, ok := ev.(*job.CheckpointEvent); ok && len(stop) == 0 && len(eventsOf[*job.CheckpointEvent](rec)) == 1 {
			stop <- struct{}{}
		}
	}
	opt.Observer, opt.Interrupts = rec, stop
	if _, err := Restart(t.Context(), RestartOptions{Options: opt}); err != nil {
		t.Fatal(err)
	}
	starts := eventsOf[*StartEvent](rec)
	found := eventsOf[*levels.SourcesEvent](rec)
	if len(starts) != 1 || starts[0].From == 0 || len(found) != 1 || found[0].Local != 4 {
		t.Errorf("restarted %+v, found %+v", starts, found)
	}
	if strings.Contains(strings.Join(rec.warned, "\n"), "less protected") {
		t.Errorf("warnings %q", rec.warned)
	}
}

// TestTierNodeHangs has the disk of a node block who makes a directory there: the checkpoint
// goes to the store, and the nodes take the next ones, since they work otherwise.
func TestTierNodeHangs(t *testing.T) {
	t.Parallel()
	if !testkit.Nightly() {
		t.Skip("takes as long as a rank may be silent")
	}
	s := tiered(t, "ring.S.4", 4, "partner", "none")
	s.Schedule.Every, s.Iterations = 20, 1<<30
	disk, stop, stage := newHangingFS("/2/jobs/job/0002"), make(chan struct{}, 1), 0
	rec := &recorder{t: t}
	rec.on = func(ev any) {
		cp, ok := ev.(*job.CheckpointEvent)
		switch {
		case !ok:
		case stage == 0 && (cp.StorageLevel == "" || cp.Number == 20_000):
			stage = 1
			close(disk.release)
		case stage == 1 && cp.StorageLevel != "":
			stage = 2
			stop <- struct{}{}
		}
	}
	_, _, opt := mustLaunch(t, s, Options{Observer: rec, Interrupts: stop, FS: disk})
	if lost := eventsOf[*AbortedEvent](rec); len(lost) > 0 || !slices.Equal(storedNumbers(t, opt), []int{2}) {
		t.Errorf("aborted %+v, in the store %v", lost, storedNumbers(t, opt))
	}
	opt.FS = nil
	verifyAll(t, opt)
}

// breakRandomly breaks the directory of a node after some checkpoint, and cures it after
// another one perhaps. The cure can be had at any time, once.
func breakRandomly(t *testing.T, rng *rand.Rand, s job.Spec) (*recorder, func()) {
	list := slices.DeleteFunc(slices.Clone(nodeOutages), func(o nodeOutage) bool { return o.mounted })
	o, dir := list[rng.IntN(len(list))], s.Tier.NodeDir(rng.IntN(len(s.Mapping)))
	at, until := 1+rng.IntN(4), 2+rng.IntN(10)
	broken := false
	cure := func() {
		if broken && o.cure != nil {
			if err := o.cure(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // the job may have removed it
				t.Error(err)
			}
		}
		broken = false
	}
	rec := &recorder{t: t, on: func(ev any) {
		cp, ok := ev.(*job.CheckpointEvent)
		switch {
		case !ok:
		case cp.Number == at:
			if err := o.spoil(dir); err != nil {
				t.Error(err)
			}
			broken, at = true, -1
		case cp.Number >= until:
			cure()
		}
	}}
	return rec, cure
}

// TestTierLost: without protection and without a store, a node that lost its directory takes
// the checkpoint with it. A restart says that it is lost, and calls nothing damaged.
func TestTierLost(t *testing.T) {
	t.Parallel()
	s := tiered(t, "ring.S.4", 4, "none", "none")
	s.Schedule.Every = s.Iterations / 2
	fails := launch.Failure{Rank: -1, Node: 3, Iter: s.Iterations/2 + 1, LoseLocal: true}
	opt := Options{Store: t.TempDir(), Job: "job", Observer: &recorder{t: t}, Failures: []launch.Failure{fails}}
	if _, err := Launch(t.Context(), s, opt); !errors.As(err, new(*JobFailedError)) {
		t.Fatal(err)
	}
	opt.Failures = nil
	_, err := Restart(t.Context(), RestartOptions{Options: opt})
	if lost := (*job.MissingError)(nil); !errors.As(err, &lost) || errors.As(err, new(*durable.DamageError)) || !strings.Contains(lost.What, "the part of rank 3") {
		t.Errorf("%T %v", err, err)
	}
}

// TestTierRestartWithoutNode restarts a job of which a node cannot use its directory, and
// that fails twice more: before the next checkpoint, and after it. The ranks of that node
// find their parts all the same, each time.
func TestTierRestartWithoutNode(t *testing.T) {
	t.Parallel()
	want := undisturbed(t, newSpec(t, "ring.S.4", 4))
	newer := func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "format"), []byte("ckpt-store 999\n"), 0o600)
	}
	loop := func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Symlink(dir, dir)) }
	for i, spoil := range []func(string) error{putFile, loop, newer} {
		scheme := []string{"partner", "xor:4", "rs:2+2"}[i]
		t.Run(scheme, func(t *testing.T) {
			s := tiered(t, "ring.S.4", 4, scheme, "none")
			s.Schedule.Every = s.Iterations / 4
			half, dies := s.Iterations/2, func(at int) launch.Failure { return launch.Failure{Rank: 1, Node: -1, Iter: at} }
			opt := Options{Store: t.TempDir(), Job: "job", Observer: &recorder{t: t}, Failures: []launch.Failure{dies(half + 1)}}
			if _, err := Launch(t.Context(), s, opt); !errors.As(err, new(*JobFailedError)) {
				t.Fatal(err)
			}
			if err := spoil(s.Tier.NodeDir(2)); err != nil {
				t.Fatal(err)
			}
			rec := &recorder{t: t}
			opt.Observer, opt.Failures = rec, []launch.Failure{dies(half + half/4), dies(half + half/2 + half/4)} // all have said what they found
			r, err := Restart(t.Context(), RestartOptions{Options: opt, AutoRestart: true})
			if err != nil || r.Digest != want.Digest {
				t.Fatalf("digest %v, want %s: %v", r, want.Digest, err)
			}
			// A death that is noticed before all ranks have said what they found leaves its event out.
			found := eventsOf[*levels.SourcesEvent](rec)
			for _, f := range found {
				if f.Number == 2 && f.Local != 3 || f.Number == 3 && f.Stored != 4 {
					t.Errorf("found %+v", f)
				}
			}
			if len(found) == 0 {
				t.Error("no restart said where it found its parts")
			}
			verifyAll(t, opt)
		})
	}
}
