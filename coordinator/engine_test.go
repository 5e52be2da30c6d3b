package coordinator

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/testkit"
	"ckpt/zones/dmtcptest"
)

// engines are all there are, by name: each with a job that ends soon, and one that does not
// end by itself.
var engines = map[string]func(t *testing.T, ends bool) job.Spec{
	"simulated": func(t *testing.T, ends bool) job.Spec {
		s := newSpec(t, "ring.S.2", 1)
		if s.Iterations = 1 << 30; ends {
			s.Iterations = 20
		}
		return s
	},
	"program": func(t *testing.T, ends bool) job.Spec {
		f := fakeProgram{Ranks: 2, Steps: 1 << 30, Pause: time.Millisecond, Protect: 10}
		if ends {
			f.Steps = 20
		}
		return job.NewProgramSpec(job.Program{Command: f.command(), Dir: t.TempDir(), Grace: testkit.Patience})
	},
	"dmtcp": func(t *testing.T, ends bool) job.Spec {
		steps := "1000000000"
		if ends {
			steps = "20"
		}
		s := job.NewProgramSpec(job.Program{Command: []string{"count", steps, "1ms"}, Dir: t.TempDir()})
		s.Origin = dmtcp.Origin
		return s
	},
}

// fakesOfDMTCP has jobs find programs that answer like those of DMTCP.
func fakesOfDMTCP() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "dmtcp")
	if err == nil {
		err = dmtcptest.Install(dir)
	}
	if err == nil {
		err = os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	}
	return func() { os.RemoveAll(dir) }, err
}

// An enginesRun is one run of a job of an engine, which do steers once its ranks compute.
type enginesRun struct {
	spec  job.Spec
	opt   Options
	rec   *recorder
	start *StartEvent // the first
}

func (r *enginesRun) launch(t *testing.T, do func(*wire.Client)) (*Result, error) {
	return r.steer(t, do, func() (*Result, error) { return Launch(t.Context(), r.spec, r.opt) })
}

func (r *enginesRun) restart(t *testing.T, do func(*wire.Client)) (*Result, error) {
	return r.steer(t, do, func() (*Result, error) { return Restart(t.Context(), RestartOptions{Options: r.opt}) })
}

func (r *enginesRun) steer(t *testing.T, do func(*wire.Client), run func() (*Result, error)) (*Result, error) {
	t.Helper()
	var once sync.Once
	var steering sync.WaitGroup
	r.rec = &recorder{t: t}
	r.rec.on = func(ev any) {
		if start, ok := ev.(*StartEvent); ok {
			once.Do(func() {
				r.start = start
				if do == nil {
					return // it may have ended before it answers
				}
				steering.Go(func() {
					c, err := wire.Contact(context.Background(), r.job(t))
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					do(c)
				})
			})
		}
	}
	r.opt.Observer = r.rec
	result, err := run()
	steering.Wait()
	return result, err
}

func (r *enginesRun) job(t *testing.T) *image.Job {
	t.Helper()
	store, err := image.OpenStore(Options{}.fileSystem(), r.opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(r.opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// await waits until something has been told, as long as patience lasts: a run that never tells
// it is stopped all the same.
func (r *enginesRun) await(t *testing.T, c *wire.Client, told func() bool) {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); !told(); {
		if _, err := c.Status(); err != nil || time.Now().After(end) {
			t.Errorf("never told, or %v", err)
			return
		}
	}
}

// TestEngines has all engines do the same: what a driver promises holds for each.
func TestEngines(t *testing.T) {
	t.Parallel()
	for name, describe := range engines {
		for what, conforms := range map[string]func(*testing.T, *enginesRun, func(bool) job.Spec){
			"completes": completes, "steered": steered, "keeps": keeps, "fails": fails, "in time": inTime,
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				testkit.Costly(t)
				r := &enginesRun{opt: Options{Store: t.TempDir(), Job: "job", Streams: launch.Streams{Out: io.Discard, Err: io.Discard}}}
				r.opt.DMTCP.Settle = 20 * time.Millisecond
				conforms(t, r, func(ends bool) job.Spec { return describe(t, ends) })
			})
		}
	}
}

// completes: a job runs to its end, and says so.
func completes(t *testing.T, r *enginesRun, describe func(bool) job.Spec) {
	r.spec = describe(true)
	result, err := r.launch(t, nil)
	if err != nil || result.Outcome != job.StateCompleted || result.Failures != 0 || result.Interrupted {
		t.Fatalf("%+v, %v", result, err)
	}
	if r.start.NP < 1 || result.NP < 1 || result.Job != "job" || r.start.Job != "job" {
		t.Errorf("%+v, %+v", r.start, result)
	}
	if s, err := job.Describe(r.job(t).Store(), "job"); err != nil || s.State != job.StateCompleted {
		t.Errorf("%+v, %v", s, err)
	}
}

// steered: a checkpoint on request, a prune, a stop, and a restart from where it stopped.
func steered(t *testing.T, r *enginesRun, describe func(bool) job.Spec) {
	r.spec = describe(false)
	result, err := r.launch(t, func(c *wire.Client) {
		for n := 1; n <= 2; n++ {
			if ev, err := c.Checkpoint(); err != nil || ev.Number != n || ev.StoredBytes == 0 || ev.Latency.Total <= 0 {
				t.Errorf("%+v, %v", ev, err)
			}
		}
		if p, err := c.Prune(1); err != nil || len(p.Kept) != 1 || p.Kept[0] != 2 {
			t.Errorf("%+v, %v", p, err)
		}
		if s, err := c.Status(); err != nil || s.Phase != "computing" || len(s.PIDs) == 0 {
			t.Errorf("%+v, %v", s, err)
		}
		if ev, err := c.Stop(false); err != nil || ev == nil || ev.Number != 3 {
			t.Errorf("%+v, %v", ev, err)
		}
	})
	if err != nil || result.Outcome != job.StateStopped || result.Checkpoints != 3 || !result.CanRestart() {
		t.Fatalf("%+v, %v", result, err)
	}
	result, err = r.restart(t, func(c *wire.Client) {
		if _, err := c.Stop(true); err != nil {
			t.Error(err)
		}
	})
	if err != nil || result.Outcome != job.StateStopped || result.Checkpoints != 0 || r.start.From != 3 {
		t.Errorf("%+v, %+v, %v", r.start, result, err)
	}
}

// keeps: checkpoints are taken by the clock, and only the newest are kept.
func keeps(t *testing.T, r *enginesRun, describe func(bool) job.Spec) {
	r.spec = describe(false)
	r.spec.Schedule, r.spec.Keep = job.Schedule{Interval: 20 * time.Millisecond}, 2
	result, err := r.launch(t, func(c *wire.Client) {
		r.await(t, c, func() bool { return len(eventsOf[*job.CheckpointEvent](r.rec)) >= 4 })
		if _, err := c.Stop(true); err != nil {
			t.Error(err)
		}
	})
	if err != nil || result.Outcome != job.StateStopped || result.Removed < 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	if kept, err := r.job(t).Checkpoints(); err != nil || len(kept) != 2 {
		t.Errorf("%v, %v", kept, err)
	}
}

// fails: a job whose process dies continues from its newest checkpoint.
func fails(t *testing.T, r *enginesRun, describe func(bool) job.Spec) {
	r.spec = describe(false)
	r.spec.AutoRestart = true
	result, err := r.launch(t, func(c *wire.Client) {
		if _, err := c.Checkpoint(); err != nil {
			t.Error(err)
		}
		s, err := c.Status()
		if err != nil || len(s.PIDs) == 0 {
			t.Errorf("%+v, %v", s, err)
			return
		}
		if err := syscall.Kill(s.PIDs[0], syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		r.await(t, c, func() bool { return len(eventsOf[*StartEvent](r.rec)) >= 2 })
		if _, err := c.Stop(true); err != nil {
			t.Error(err)
		}
	})
	if err != nil || result.Outcome != job.StateStopped || result.Failures != 1 || len(result.Restarts) != 1 || result.Restarts[0] != result.NP {
		t.Errorf("%+v, %v", result, err)
	}
	failed, again := eventsOf[*FailureEvent](r.rec), eventsOf[*RestartEvent](r.rec)
	if len(failed) != 1 || failed[0].Reason == "" || len(again) != 1 || again[0].From != 1 || again[0].Ranks != result.NP {
		t.Errorf("%+v, %+v", failed, again)
	}
}

// inTime: a run ends after a last checkpoint before its time is up.
func inTime(t *testing.T, r *enginesRun, describe func(bool) job.Spec) {
	r.spec = describe(false)
	r.opt.Until = time.Now().Add(4 * time.Second)
	result, err := r.launch(t, nil)
	if err != nil || result.Outcome != job.StateStopped || !result.Requeue || result.Checkpoints != 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// trueEngine runs true(1), and takes no checkpoints: an engine needs Start, and ranks or an
// agent that obey the protocol.
type trueEngine struct{ processes }

type trueRank struct {
	*exec.Cmd
	over chan struct{}
}

func (r *trueRank) Kill()                 { _ = r.Process.Kill() }
func (r *trueRank) Done() <-chan struct{} { return r.over }
func (r *trueRank) PID() int              { return r.Process.Pid }
func (r *trueRank) Explains() bool        { return true }

func (e *trueEngine) Start(r launch.Rank, ended func(string)) (launch.Process, error) {
	p := &trueRank{exec.Command("true"), make(chan struct{})}
	if err := p.Cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer ended("left")
		defer close(p.over)
		conn, err := wire.Dial(context.Background(), r.Socket, r.Token)
		if err != nil {
			return
		}
		defer conn.Close()
		_ = wire.Greet(conn, wire.Greeting{Token: r.Token, Role: wire.RoleRank, Rank: r.Rank, Incarnation: r.Incarnation})
		l, err := wire.NewLink(conn, bufio.NewReader(conn))
		if err != nil {
			return
		}
		l.Send(protocol.Hello{})
		for {
			m, err := l.Receive()
			switch m.(type) {
			case protocol.Welcome:
				l.Send(protocol.Ready{})
			case protocol.Start:
				_ = p.Wait()
				l.Send(protocol.Done{})
			case protocol.Quit:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return p, nil
}

func (e *trueEngine) Complete([][]byte) error { return nil }

func TestNewEngine(t *testing.T) {
	t.Parallel()
	_, j := emptyJob(t, t.TempDir())
	rec := &recorder{t: t}
	spec := job.NewProgramSpec(job.Program{Command: []string{"true"}})
	spec.NP, spec.Mapping, spec.Origin = 1, job.Mapping{1}, "true"
	d := Options{Observer: rec}.newDriver(resolved(t, spec), j, libraryID{})
	e := &trueEngine{processes{d: d}}
	d.run(e, nil)
	r, err := d.drive(t.Context(), nil, nil, nil)
	if err != nil || r.Outcome != job.StateCompleted || len(eventsOf[*StartEvent](rec)) != 1 {
		t.Errorf("%+v, %v, %v", r, err, rec.warned)
	}
}

// TestRefusedEngines: what an engine cannot do is refused before a job is made, and an engine
// whose socket cannot be opened keeps nothing.
func TestRefusedEngines(t *testing.T) {
	t.Parallel()
	spec := engines["dmtcp"](t, true)
	opt := Options{Store: t.TempDir(), Job: "job", Observer: &recorder{t: t}, Failures: []launch.Failure{{Rank: 0, Node: -1, Iter: 5}}}
	if _, err := Launch(t.Context(), spec, opt); !errors.As(err, new(*job.UsageError)) {
		t.Errorf("%v", err)
	}
	opt.Failures = nil
	opt.Listen = "192.0.2.1:0" // of no host; attend would refuse it
	_, err := beginDMTCP(t.Context(), spec, opt)
	if err == nil {
		t.Fatal("a socket of another host was opened")
	}
	opt.Listen, opt.Streams, opt.DMTCP.Settle = "", launch.Streams{Out: io.Discard, Err: io.Discard}, 20*time.Millisecond
	if r, err := Launch(t.Context(), spec, opt); err != nil || r.Outcome != job.StateCompleted {
		t.Errorf("after a socket that could not be opened: %+v, %v", r, err)
	}
}
