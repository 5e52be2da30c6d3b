package dmtcp_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	imagedmtcp "ckpt/image/dmtcp"
)

// TestCheckpoints: a program runs to its end, and checkpoints are taken at an interval and
// on request. They belong to a job of as many ranks as the images have.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	s := newScene(t, 100, time.Millisecond)
	s.spec.Schedule.Interval = 200 * time.Millisecond
	asked := s.atStart(func(c *wire.Client) {
		ev, err := c.Checkpoint()
		if err != nil || ev.Ranks != dmtcpRanks || ev.StoredBytes == 0 || ev.Pause <= 0 {
			t.Errorf("%+v, %v", ev, err)
		}
		for len(of[*job.CheckpointEvent](s.rec)) < 2 { // that of the interval
			time.Sleep(time.Millisecond)
		}
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	if err != nil {
		t.Fatal(err)
	}
	asked()
	// The last one may meet the end of the program, when some processes have gone.
	if r.Outcome != job.StateCompleted || r.Checkpoints < 2 || r.Lost > 1 || r.NP != dmtcpRanks {
		t.Errorf("%+v", r)
	}
	if n := s.counted(100); n != 0 {
		t.Errorf("%d restarts", n)
	}
	s.sound(r.Checkpoints)
	spec, err := job.ReadSpec(s.job())
	if err != nil || spec.NP != dmtcpRanks || spec.Origin != imagedmtcp.Origin {
		t.Errorf("%+v, %v", spec, err)
	}
}

const dmtcpRanks = 4

// TestStopAndRestart: a job that was stopped continues from its last checkpoint, and a
// second time after its end.
func TestStopAndRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t, 60, time.Millisecond)
	stopped := s.atStart(func(c *wire.Client) {
		if ev, err := c.Stop(false); err != nil || ev == nil || ev.Number != 1 {
			t.Errorf("%+v, %v", ev, err)
		}
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	stopped()
	if err != nil || r.Outcome != job.StateStopped || r.Checkpoints != 1 || !r.CanRestart() {
		t.Fatalf("%+v, %v", r, err)
	}
	for range 2 {
		if r, err = restarted(t.Context(), s.opt, 0, false); err != nil || r.Outcome != job.StateCompleted {
			t.Fatalf("%+v, %v", r, err)
		}
		s.counted(60)
	}
	s.sound(1)
	if starts := of[*coordinator.StartEvent](s.rec); starts[1].From != 1 {
		t.Errorf("%+v", starts[1])
	}
	var want *coordinator.JobFailedError
	if _, err = restarted(t.Context(), s.opt, 7, false); err == nil || errors.As(err, &want) {
		t.Errorf("checkpoint 7: %v", err)
	}
}

// TestAutoRestart: a program that fails continues from its newest checkpoint.
func TestAutoRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t, 80, time.Millisecond)
	s.spec.AutoRestart = true
	s.show("once exit at 60 with 9")
	asked := s.atStart(func(c *wire.Client) {
		if _, err := c.Checkpoint(); err != nil {
			t.Error(err)
		}
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	asked()
	if err != nil || r.Outcome != job.StateCompleted || r.Failures != 1 || len(r.Restarts) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := s.counted(80); n != 1 {
		t.Errorf("%d restarts", n)
	}
	if f := of[*coordinator.FailureEvent](s.rec); len(f) != 1 || !strings.Contains(f[0].Reason, "status 9") {
		t.Errorf("%+v", f)
	}
	s.sound(1)
}

// TestKilledByCommand: a program that somebody has ended by DMTCP's own command has not
// completed, though all of its processes exit with 0.
func TestKilledByCommand(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		s := newScene(t, 80, time.Millisecond)
		s.spec.AutoRestart = again
		asked := s.atStart(func(c *wire.Client) {
			if _, err := c.Checkpoint(); err != nil {
				t.Error(err)
			}
			port, err := os.ReadFile(filepath.Join(s.job().Dir(), dmtcp.EngineName, "port"))
			if err != nil {
				t.Error(err)
			}
			if out, err := exec.Command("dmtcp_command", "-h", dmtcp.Loopback, "-p", strings.TrimSpace(string(port)), "-k").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		r, err := launched(t.Context(), s.spec, s.opt)
		asked()
		if f := of[*coordinator.FailureEvent](s.rec); len(f) != 1 || !strings.Contains(f[0].Reason, "was killed by a command to DMTCP") {
			t.Errorf("%+v", f)
		}
		if !again {
			failed := new(coordinator.JobFailedError)
			if !errors.As(err, &failed) || !failed.Restartable || r.Outcome != job.StateFailed {
				t.Errorf("%+v, %v", r, err)
			}
			continue
		}
		if err != nil || r.Outcome != job.StateCompleted || r.Failures != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		s.counted(80)
	}
}

// TestInputAgain: a program that begins again reads the same file; a pipe cannot be read again.
func TestInputAgain(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("12345"); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for in, want := range map[*os.File]string{file: "", r: "its standard input is a pipe"} {
		s := newScene(t, 400, time.Millisecond)
		s.spec.AutoRestart = true
		s.opt.Streams.In = in
		s.show("once exit at 300 with 9")
		_, _ = in.Seek(2, io.SeekStart)
		s.onFailure(func() { _, _ = in.Seek(0, io.SeekEnd) }) // the program has read it
		_, err := launched(t.Context(), s.spec, s.opt)
		at, _ := in.Seek(0, io.SeekCurrent)
		if want == "" && (err != nil || at != 2) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, at %d", err, at)
		}
	}
}

// TestNoRestart: without checkpoints and without automatic restarts the job fails, and says
// how.
func TestNoRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t, 80, time.Millisecond)
	s.show("exit at 60 with 9")
	r, err := launched(t.Context(), s.spec, s.opt)
	failed := new(coordinator.JobFailedError)
	if !errors.As(err, &failed) || failed.Restartable || r.Outcome != job.StateFailed {
		t.Errorf("%+v, %v", r, err)
	}
	s.show("fail-launch")
	s.spec.AutoRestart = true
	if r, err = launched(t.Context(), s.spec, s.opt); !errors.As(err, &failed) || r.Failures != 1 || !strings.Contains(err.Error(), "99") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestTools: a DMTCP that is missing or too old is named.
func TestTools(t *testing.T) {
	s := newScene(t, 1, time.Millisecond)
	if _, err := launched(t.Context(), s.spec, s.opt); err != nil {
		t.Fatal(err)
	}
	s.show("old-version")
	t.Setenv("FAKE_DMTCP", s.faults)
	usage := new(job.UsageError)
	if _, err := launched(t.Context(), s.spec, s.opt); !errors.As(err, &usage) || !strings.Contains(err.Error(), "3.1.2") {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := launched(t.Context(), s.spec, s.opt); !errors.As(err, &usage) || !strings.Contains(err.Error(), "not installed") {
		t.Error(err)
	}
	if _, err := restarted(t.Context(), s.opt, 0, false); !errors.As(err, &usage) {
		t.Error(err)
	}
}

// TestInject: failures are injected into a program that is not changed, by time and again and again.
func TestInject(t *testing.T) {
	t.Parallel()
	s := newScene(t, 150, time.Millisecond)
	s.spec.AutoRestart, s.spec.Keep = true, 1
	s.opt.Failures = []launch.Failure{{Rank: 9, Node: -1, After: 1500 * time.Millisecond}, {Rank: 0, Node: -1, After: 1500 * time.Millisecond}}
	taken := 0
	asked := s.atStart(func(c *wire.Client) {
		for range 2 {
			_, err := c.Checkpoint()
			switch {
			case err == nil:
				taken = 1 // one is kept
			// The kill may come while it is taken.
			case !strings.Contains(err.Error(), "was killed by signal 9") && !strings.Contains(err.Error(), "has ended"):
				t.Error(err)
			}
		}
		for len(of[*coordinator.FailureEvent](s.rec)) == 0 {
			time.Sleep(time.Millisecond)
		}
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	asked()
	if err != nil || r.Outcome != job.StateCompleted || r.Failures != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if f := of[*coordinator.FailureEvent](s.rec); !strings.Contains(f[0].Reason, "was killed by signal 9") {
		t.Errorf("%+v", f[0])
	}
	if !strings.Contains(strings.Join(s.rec.warned, "\n"), "into rank 9: the program has no such rank") {
		t.Errorf("%q", s.rec.warned)
	}
	s.counted(150)
	s.sound(taken)
	usage := new(job.UsageError)
	s.opt.Failures = []launch.Failure{{Rank: 0, Node: -1, Iter: 3}}
	if _, err := restarted(t.Context(), s.opt, 0, false); !errors.As(err, &usage) || !strings.Contains(err.Error(), "iteration 3") {
		t.Error(err)
	}
}

// TestStopWhileRestarting: a stop that is asked for while the program starts again is kept until
// it computes.
func TestStopWhileRestarting(t *testing.T) {
	t.Parallel()
	s := newScene(t, 100000, time.Millisecond)
	s.spec.AutoRestart = true
	s.show("once exit at 50 with 1")
	answered := make(chan error, 1)
	s.onFailure(func() {
		go func() {
			c, err := wire.Contact(context.Background(), s.job())
			if err == nil {
				defer c.Close()
				_, err = c.Stop(false)
			}
			answered <- err
		}()
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	if err != nil || r.Outcome != job.StateStopped || r.Checkpoints != 1 || r.Failures != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestPackedImages: what DMTCP wrote is packed where that pays, and restarts the program.
func TestPackedImages(t *testing.T) {
	t.Parallel()
	stored := map[string]int64{}
	for _, setting := range []string{"none", "zstd", "auto"} {
		s := newScene(t, 60, time.Millisecond)
		s.spec.Codec = setting
		stopped := s.atStart(func(c *wire.Client) {
			ev, err := c.Stop(false)
			if err != nil {
				t.Error(err)
				return
			}
			stored[setting] = ev.StoredBytes
		})
		if _, err := launched(t.Context(), s.spec, s.opt); err != nil {
			t.Fatal(err)
		}
		stopped()
		if r, err := restarted(t.Context(), s.opt, 0, false); err != nil || r.Outcome != job.StateCompleted {
			t.Fatalf("%+v, %v", r, err)
		}
		s.counted(60)
		s.sound(1)
	}
	if max(stored["zstd"], stored["auto"]) >= stored["none"] || stored["zstd"] == 0 {
		t.Errorf("stored %v bytes", stored)
	}
}
