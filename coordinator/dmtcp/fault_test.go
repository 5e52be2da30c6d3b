package dmtcp_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
)

// TestNoCheckpoint: DMTCP says that it is done, and it is not. The checkpoint does not
// count, the program goes on, and the next one counts.
func TestNoCheckpoint(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]string{
		"missing-image": "6 processes",
		"temp-left":     ".temp unfinished",
		"short-image":   "ends early",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 80, time.Millisecond)
			s.show("once " + fault)
			asked := s.atStart(func(c *wire.Client) {
				if ev, err := c.Checkpoint(); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%+v, %v; want %s", ev, err, want)
				}
				if ev, err := c.Checkpoint(); err != nil || ev.Number != 2 {
					t.Errorf("%+v, %v", ev, err)
				}
			})
			r, err := launched(t.Context(), s.spec, s.opt)
			asked()
			if err != nil || r.Outcome != job.StateCompleted || r.Lost != 1 || r.Checkpoints != 1 || r.Failures != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			s.counted(80)
			s.sound(1)
			if lost := of[*coordinator.AbortedEvent](s.rec); len(lost) != 1 || !strings.Contains(lost[0].Reason, want) {
				t.Errorf("%+v", lost)
			}
		})
	}
}

// TestNoProgress: a checkpoint or a restart that makes no progress is ended, and the
// program restarted.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	patience := max(3*time.Second, timeOfStart(t)) // of which a phase is a part
	for _, fault := range []string{"hang-checkpoint", "hang-after", "hang-restart", "fail-restart"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, 500, time.Millisecond)
			s.opt.Limits.Patience = patience
			s.spec.AutoRestart = true
			failures := 1
			if fault == "hang-after" {
				s.show("once " + fault)
			}
			asked := s.atStart(func(c *wire.Client) {
				if _, err := c.Checkpoint(); err != nil {
					t.Error(err)
				}
				if fault == "hang-after" {
					return
				}
				if fault != "hang-checkpoint" {
					failures++
					s.show("once "+fault, "once exit at 450 with 1")
					return
				}
				s.show("once " + fault)
				if _, err := c.Checkpoint(); err == nil {
					t.Error("a checkpoint was taken without DMTCP")
				}
			})
			r, err := launched(t.Context(), s.spec, s.opt)
			asked()
			// On a machine that is too slow for that patience, a start fails as well.
			slow := 0
			for _, f := range of[*coordinator.FailureEvent](s.rec) {
				if strings.HasSuffix(f.Reason, "while starting") {
					slow++
				}
				t.Log(f.Reason)
			}
			if err != nil || r.Outcome != job.StateCompleted || r.Failures < failures || r.Failures-slow > failures {
				t.Errorf("%+v, %v", r, err)
			}
			s.counted(500)
			s.sound(1)
		})
	}
}

// timeOfStart measures how long this machine takes for a program that takes a checkpoint.
func timeOfStart(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	s := newScene(t, 20, time.Millisecond)
	asked := s.atStart(func(c *wire.Client) {
		if _, err := c.Checkpoint(); err != nil {
			t.Log(err)
		}
	})
	_, err := launched(t.Context(), s.spec, s.opt)
	asked()
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}

// TestOlderCheckpoint: a checkpoint that restarts nothing, or that is damaged, is passed
// over for an older one; that of a user is not.
func TestOlderCheckpoint(t *testing.T) {
	t.Parallel()
	s := newScene(t, 200, time.Millisecond)
	s.spec.AutoRestart = true
	stopped := s.atStart(func(c *wire.Client) {
		for range 2 {
			if _, err := c.Checkpoint(); err != nil {
				t.Error(err)
			}
		}
		second := "once fail-restart"
		if testkit.Nightly() { // one that hangs takes as long as its patience
			second = "once hang-restart"
		}
		s.show("once exit at 190 with 1", "once fail-restart", second, "once fail-restart")
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	stopped()
	if err != nil || r.Outcome != job.StateCompleted || r.Failures != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	restarts := of[*coordinator.RestartEvent](s.rec)
	if last := restarts[len(restarts)-1]; last.From != 1 || !strings.Contains(last.Unusable, "checkpoint 2") {
		t.Errorf("%+v", last)
	}
	s.counted(200)
	if err := os.Truncate(filepath.Join(s.job().Dir(), "0002", "rank-1.img"), 6000); err != nil { // within the index
		t.Fatal(err)
	}
	damage := new(durable.DamageError)
	if _, err = restarted(t.Context(), s.opt, 2, true); !errors.As(err, &damage) {
		t.Error(err)
	}
	if r, err = restarted(t.Context(), s.opt, 1, true); err != nil || r.Outcome != job.StateCompleted {
		t.Errorf("%+v, %v", r, err)
	}
}

// flip changes a byte in the middle of a file.
func flip(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSpare: the images that DMTCP wrote serve a restart when the store has lost them.
func TestSpare(t *testing.T) {
	t.Parallel()
	s := newScene(t, 150, time.Millisecond)
	s.spec.AutoRestart = true
	asked := s.atStart(func(c *wire.Client) {
		if _, err := c.Checkpoint(); err != nil {
			t.Error(err)
		}
		flip(t, filepath.Join(s.job().Dir(), "0001", "rank-1.img"))
		s.show("once exit at 120 with 1")
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	asked()
	if err != nil || r.Outcome != job.StateCompleted || r.Failures != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := s.counted(150); n != 1 {
		t.Errorf("%d restarts", n)
	}
	if !strings.Contains(strings.Join(s.rec.warned, "\n"), "checkpoint 1 is damaged") {
		t.Errorf("%q", s.rec.warned)
	}
}

// TestInterrupts: the first interrupt stops the job after a last checkpoint, the second at
// once.
func TestInterrupts(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 2; n++ {
		s := newScene(t, 10000, 10*time.Millisecond)
		interrupts := make(chan struct{}, 2)
		s.opt.Interrupts = interrupts
		s.rec.on = func(ev any) {
			if _, ok := ev.(*coordinator.StartEvent); ok {
				if n == 2 {
					s.show("wait-checkpoint")
				}
				for range n {
					interrupts <- struct{}{}
				}
			}
		}
		r, err := launched(t.Context(), s.spec, s.opt)
		if err != nil || r.Outcome != job.StateStopped || !r.Interrupted || r.Checkpoints != 2-n || r.CanRestart() != (n == 1) {
			t.Errorf("%d interrupts: %+v, %v", n, r, err)
		}
	}
}

// TestFullDisk: without space for a checkpoint none is begun; the job goes on, or stops if
// that is asked for.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, stop := range []bool{false, true} {
		s := newScene(t, 60, time.Millisecond)
		s.opt.StopOnFull = stop
		s.opt.DMTCP.Free = func() (int64, error) { return 1 << 20, nil }
		asked := s.atStart(func(c *wire.Client) {
			if _, err := c.Checkpoint(); !errors.Is(err, durable.ErrStorageFull) {
				t.Error(err)
			}
		})
		r, err := launched(context.Background(), s.spec, s.opt)
		asked()
		want := map[bool]string{false: job.StateCompleted, true: job.StateStopped}[stop]
		if r == nil || r.Outcome != want || r.Full != 1 || stop != errors.Is(err, durable.ErrStorageFull) {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestWalltime: a run stops after a last checkpoint before its time is up.
func TestWalltime(t *testing.T) {
	t.Parallel()
	s := newScene(t, 100000, 10*time.Millisecond)
	s.opt.Until = time.Now().Add(3 * time.Second)
	r, err := launched(t.Context(), s.spec, s.opt)
	if err != nil || r.Outcome != job.StateStopped || !r.Requeue || r.Checkpoints != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDeathWhileWriting: a rank dies while DMTCP writes, which waits for it for ever. That is noticed
// long before the patience with a checkpoint is over.
func TestDeathWhileWriting(t *testing.T) {
	t.Parallel()
	s := newScene(t, 80, time.Millisecond)
	s.opt.Limits.Patience = time.Hour
	s.spec.AutoRestart = true
	s.show("once with-rank")
	asked := s.atStart(func(c *wire.Client) {
		if _, err := c.Checkpoint(); err != nil {
			t.Error(err)
		}
		s.show("once hang-checkpoint")
		written := make(chan struct{})
		go func() {
			defer close(written)
			if _, err := c.Checkpoint(); err == nil {
				t.Error("a checkpoint was taken without a rank")
			}
		}()
		for { // until DMTCP writes
			if b, err := os.ReadFile(s.faults); err == nil && len(strings.TrimSpace(string(b))) == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		other, err := wire.Contact(t.Context(), s.job())
		if err != nil {
			t.Error(err)
			return
		}
		defer other.Close()
		status, err := other.Status()
		if err != nil || len(status.PIDs) < 2 {
			t.Errorf("%+v, %v", status, err)
			return
		}
		if err := syscall.Kill(status.PIDs[1], syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		<-written
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	asked()
	if err != nil || r.Outcome != job.StateCompleted || r.Failures != 1 || r.Lost != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if f := of[*coordinator.FailureEvent](s.rec); !strings.Contains(f[0].Reason, "while DMTCP wrote the images") {
		t.Errorf("%+v", f[0])
	}
	s.counted(80)
	s.sound(1)
}
