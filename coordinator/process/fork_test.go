package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/internal/testkit"
)

// startForks starts a program with two regions, of which a child copies one.
func startForks(t *testing.T) *subject {
	t.Helper()
	s := &subject{program: startProgram(t, plainProgram(t))}
	s.p = s.connect()
	s.regions = []subjectRegion{{"u", "map", 6 << 20}, {"v", "heap", 3000}}
	s.do("map u %d 0", 6<<20)
	s.do("heap v 3000")
	s.do("fill u 1")
	s.do("fill v 2")
	return s
}

// fork takes the memory at a boundary with a child, and stops the child, as far as it is not
// ready, until the program has gone on.
func (s *subject) fork(t *testing.T) (f flown, c *copier) {
	t.Helper()
	s.p.memory.forks.always = true
	s.do("fill u %d", s.number)
	s.atBoundary(s.p, func() {
		f.truth = s.truths(s.p)
		s.number++
		var err error
		f.c, err = s.p.Capture(context.Background(), s.number, 0)
		s.must(err)
		sets := s.p.memory.sets
		i := slices.IndexFunc(sets, func(set *shadows) bool { return set.copier != nil && set.used == int(s.number) })
		if i < 0 {
			t.Fatalf("no child copies; notes are %v", s.p.Notes())
		}
		c = sets[i].copier
		_ = unix.Kill(c.handle.pid, unix.SIGSTOP)
	})
	return f, c
}

// resume lets the child go on, and compares what it has copied.
func (s *subject) resume(t *testing.T, f flown, c *copier) {
	t.Helper()
	_ = unix.Kill(c.handle.pid, unix.SIGCONT)
	s.compare(t, f.c, f.truth)
	f.c.Release()
}

// TestForks has the program change and give away its memory in every way while a child copies it.
func TestForks(t *testing.T) {
	t.Parallel()
	s := startForks(t)
	for _, does := range []string{
		"write u 0 6291456 9", "readin u 4096 100000 3", "threads u 5", "dontneed u 0 6291456", "remap u 8192 40960",
		"child u 0 100000 4", "write v 0 3000 8", "advise u 14", "advise u 18", "write u 0 6291456 1", "unmap u 0 6291456",
	} {
		f, c := s.fork(t)
		s.do("%s", does)
		s.do("children") // the program has none that it could wait for
		s.resume(t, f, c)
		if t.Failed() {
			t.Fatal(does)
		}
	}
	if got := s.p.Notes(); len(got) > 0 {
		t.Errorf("notes are %v", got)
	}
}

// TestForksInFlight takes checkpoints while children copy earlier ones, and drops some.
func TestForksInFlight(t *testing.T) {
	t.Parallel()
	s := startForks(t)
	var flying []flown
	var copiers []*copier
	for i := range 3 {
		f, c := s.fork(t)
		flying, copiers = append(flying, f), append(copiers, c)
		s.do("write u 0 %d %d", 6<<20, i)
	}
	flying[1].c.Release() // which ends the child
	if err := unix.Kill(copiers[1].handle.pid, 0); err == nil && !ended(copiers[1].handle.pid) {
		t.Error("a child goes on that fills memory of the next capture")
	}
	s.resume(t, flying[2], copiers[2])
	s.resume(t, flying[0], copiers[0])
	for range maxForks + 4 { // places of children that have ended are free again
		f, c := s.fork(t)
		s.resume(t, f, c)
	}
	s.tell("finalize")
	s.call(s.p, Finalize)
	s.must(s.p.Answer(Answer{}))
	s.expect("0")
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", copiers[0].handle.pid)); err == nil {
		t.Error("the program did not reap a child")
	}
}

// TestForkDies kills a child: the capture fails, and the next ones are copied without.
func TestForkDies(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"kill", "dontfork"} {
		s := startForks(t)
		if how == "dontfork" {
			s.do("advise u 10")
		}
		f, c := s.fork(t)
		if how == "kill" {
			c.handle.kill()
			<-c.handle.done
			c.told.Store(0) // as if it had died earlier
		}
		_ = unix.Kill(c.handle.pid, unix.SIGCONT)
		if err := f.c.Ready(context.Background()); !errors.Is(err, errCopier) {
			t.Fatalf("%s: ready: %v", how, err)
		}
		f.c.Release()
		s.do("write u 0 5000 7")
		var next flown
		s.atBoundary(s.p, func() {
			next.truth = s.truths(s.p)
			s.number++
			var err error
			next.c, err = s.p.Capture(context.Background(), s.number, 0)
			s.must(err)
		})
		s.compare(t, next.c, next.truth)
		if notes := s.p.Notes(); len(notes) != 1 || notes[0].Call != "clone" {
			t.Errorf("%s: notes are %v", how, notes)
		}
	}
}

// TestForkHoldsNothing looks at a child, and kills its program: nothing of the program stays open,
// and no signal runs a handler of the program in the child.
func TestForkHoldsNothing(t *testing.T) {
	t.Parallel()
	s := startForks(t)
	f, c := s.fork(t)
	child := c.handle.pid
	for { // until a child is stopped after it has closed its files, and before it has copied
		_ = unix.Kill(child, unix.SIGCONT)
		open := 1
		for open > 0 && !ended(child) {
			list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", child))
			if open = len(list); errors.Is(err, os.ErrPermission) {
				testkit.Skip(t, "a user who may look at the files of a process that leaves no core")
			}
		}
		if _ = unix.Kill(child, unix.SIGSTOP); !ended(child) {
			break
		}
		s.resume(t, f, c)
		f, c = s.fork(t)
		child = c.handle.pid
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", child))
	s.must(err)
	if !strings.Contains(string(status), "SigBlk:\tfffffffe7ffbfeff") && !strings.Contains(string(status), "SigBlk:\tfffffffffffbfeff") {
		t.Errorf("the child takes signals:\n%s", status)
	}
	s.p.Kill()
	if line, err := s.out.ReadString(0); err == nil {
		t.Errorf("the output goes on: %q", line)
	}
	<-s.p.Done()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.c.Ready(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("ready: %v", err)
	}
	s.p.Close()
	if !ended(child) {
		t.Error("the child lives on without program and agent")
	}
}

// TestForksThatCost: children rest for a while after one whose faults took the process longer than
// the copy would have. A host without room has no children.
func TestForksThatCost(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	f := forks{}
	if f.due(0, 0) || !f.due(0, ms) {
		t.Error("a child copies before it is known how long copying takes, or not after")
	}
	states := ""
	for i := range 20 {
		faults := int64(i * 1000)
		if f.due(faults, 5*ms) {
			states += "+"
			f.last = forked{4 * ms, time.Microsecond * time.Duration(i+1), faults} // 4 µs are the limit
			continue
		}
		states += "-"
	}
	if want := "+++++----+--------+-"; states != want {
		t.Errorf("children copied %s, want %s", states, want)
	}
	s := startForks(t)
	s.p.LimitForks(5<<20, true)
	s.atBoundary(s.p, func() {
		c, err := s.p.Capture(context.Background(), 1, 0)
		s.must(err)
		if s.p.memory.sets[0].copier != nil {
			t.Error("a child copies more than there is room for")
		}
		c.Release()
	})
}

// TestForkFault: a child says how long a fault takes, and whom it was forked by is judged by that.
func TestForkFault(t *testing.T) {
	t.Parallel()
	s := startForks(t)
	f, c := s.fork(t)
	s.do("write u 0 %d 3", 6<<20)
	s.resume(t, f, c)
	last := s.p.memory.forks.last
	now, err := statOf(s.p.hello.PID)
	s.must(err)
	if last.fault <= 1 || now.faults-last.faults < 6<<20/4096 {
		t.Errorf("a fault takes %v, and the process had %d", last.fault, now.faults-last.faults)
	}
}
