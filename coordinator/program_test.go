package coordinator

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/program"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/testkit"
)

// launchFake runs a fake program in a new store.
func launchFake(t *testing.T, f fakeProgram, change func(*job.Spec, *Options)) (*Result, *recorder, string, error) {
	t.Helper()
	testkit.Costly(t)
	rec := &recorder{t: t}
	var out bytes.Buffer
	opt := Options{Store: t.TempDir(), Job: "fake", Observer: rec, Streams: launch.Streams{Out: &out, Err: &out}}
	spec := job.NewProgramSpec(job.Program{Command: f.command(), Dir: t.TempDir(), Grace: testkit.Patience})
	if change != nil {
		change(&spec, &opt)
	}
	r, err := Launch(t.Context(), spec, opt)
	return r, rec, out.String(), err
}

// checkSums compares what a program printed with an undisturbed run.
func checkSums(t *testing.T, f fakeProgram, out string) {
	t.Helper()
	want := f.sums()
	for line := range strings.Lines(out) {
		delete(want, strings.TrimSpace(line))
	}
	if len(want) > 0 {
		t.Errorf("missing %v in\n%s", want, out)
	}
}

func TestProgramCompletes(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 5, Hosts: 2, Steps: 40, Pause: 5 * time.Millisecond, Protect: 100, Output: "hello\n"}
	r, rec, out, err := launchFake(t, f, func(s *job.Spec, _ *Options) { s.Schedule.Every = 10 })
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, f, out)
	if r.Outcome != job.StateCompleted || r.Checkpoints != 3 || r.ProgramStatus == nil || *r.ProgramStatus != 0 {
		t.Errorf("result %+v", r)
	}
	if !strings.HasPrefix(out, "hello\n") {
		t.Errorf("output %q", out)
	}
	start := eventsOf[*StartEvent](rec)
	if len(start) != 1 || start[0].NP != 5 || start[0].Mapping.String() != "3,2" || start[0].App != "fake" {
		t.Errorf("start %+v", start)
	}
}

// TestProgramRestarts kills a rank twice: the sums are those of an undisturbed run.
func TestProgramRestarts(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 3, Steps: 60, Pause: 3 * time.Millisecond, Protect: 1, Dies: 25, Deaths: 2}
	r, rec, out, err := launchFake(t, f, func(s *job.Spec, _ *Options) { s.Schedule.Every, s.AutoRestart = 10, true })
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, f, out)
	if r.Failures != 2 || r.Checkpoints != 5 {
		t.Errorf("result %+v", r)
	}
	for _, ev := range eventsOf[*FailureEvent](rec) {
		if ev.Rank != 2 || !strings.Contains(ev.Reason, "status 9") {
			t.Errorf("failure %+v", ev)
		}
	}
}

// TestProgramStops stops a program and restarts it.
func TestProgramStops(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 2, Steps: 80, Pause: 5 * time.Millisecond, Protect: 1}
	interrupts := make(chan struct{}, 2)
	var kept Options
	r, _, _, err := launchFake(t, f, func(s *job.Spec, o *Options) {
		s.Schedule.Every = 20
		o.Interrupts = interrupts
		o.Observer.(*recorder).on = func(ev any) {
			if c, ok := ev.(*job.CheckpointEvent); ok && c.Number == 1 {
				interrupts <- struct{}{}
			}
		}
		kept = *o
	})
	if err != nil || r.Outcome != job.StateStopped || !r.Interrupted || r.ProgramStatus == nil {
		t.Fatalf("result %+v, %v", r, err)
	}
	var out bytes.Buffer
	kept.Interrupts, kept.Observer, kept.Streams = nil, &recorder{t: t}, launch.Streams{Out: &out, Err: &out}
	if r, err = Restart(t.Context(), RestartOptions{Options: kept}); err != nil || r.Outcome != job.StateCompleted {
		t.Fatalf("result %+v, %v", r, err)
	}
	checkSums(t, f, out.String())
}

// TestStubbornProgram: a program that does not end after it was told to is killed, and
// its checkpoint stays.
func TestStubbornProgram(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 2, Steps: 1000, Pause: 5 * time.Millisecond, Protect: 1, Stubborn: true}
	interrupts := make(chan struct{}, 2)
	r, rec, _, err := launchFake(t, f, func(s *job.Spec, o *Options) {
		s.Program.Grace = 300 * time.Millisecond
		o.Interrupts = interrupts
		o.Observer.(*recorder).on = func(ev any) {
			if _, ok := ev.(*StartEvent); ok {
				interrupts <- struct{}{}
			}
		}
	})
	if err != nil || r.Outcome != job.StateStopped || r.ProgramStatus != nil || r.Last != 1 {
		t.Fatalf("result %+v, %v", r, err)
	}
	if !warned(rec, "is killed; its checkpoint is safe") {
		t.Errorf("warnings %q", rec.warned)
	}
}

func warned(r *recorder, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.warned, "\n"), text)
}

// TestEarlyEnd has programs end before they are protected.
func TestEarlyEnd(t *testing.T) {
	t.Parallel()
	var early *program.EarlyError
	_, _, out, err := launchFake(t, fakeProgram{Output: "done\n"}, nil)
	if !errors.As(err, &early) || early.Status != 0 || out != "done\n" || early.Hint() == "" {
		t.Errorf("%v, output %q", err, out)
	}
	if _, _, _, err := launchFake(t, fakeProgram{Status: 3}, nil); !errors.As(err, &early) || early.Status != 3 || early.Came != 0 {
		t.Errorf("status 3: %v", err)
	}
	if _, _, _, err := launchFake(t, fakeProgram{Ranks: 2, Say: 3}, func(s *job.Spec, o *Options) {
		interrupts := make(chan struct{}, 2)
		o.Interrupts = interrupts
		time.AfterFunc(300*time.Millisecond, func() { interrupts <- struct{}{} })
	}); err != nil {
		t.Errorf("interrupted while it gathers: %v", err)
	}
}

// TestGatherErrors: ranks that do not make one program end it, with one line that says
// why.
func TestGatherErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f    fakeProgram
		want string
	}{
		"twice": {fakeProgram{Ranks: 2, Times: 2, Steps: 1e6, Pause: time.Millisecond}, "came twice, "},
		"many programs of one rank": {fakeProgram{Ranks: 1, Times: 2, Steps: 1e6, Pause: time.Millisecond, Sizes: []wire.Size{{Variable: "SLURM_NTASKS", Ranks: 2}}},
			"the launcher has started programs of 1 rank (SLURM_NTASKS=2)"},
		"version":    {fakeProgram{Ranks: 1, Version: 9}, "speaks version 9, this ckpt speaks version 1"},
		"other rank": {fakeProgram{Ranks: 2, Say: 1, Steps: 1e6, Pause: time.Millisecond}, "there is no such rank"},
	} {
		t.Run(name, func(t *testing.T) {
			var gather *program.GatherError
			_, _, _, err := launchFake(t, c.f, nil)
			if !errors.As(err, &gather) || !strings.Contains(err.Error(), c.want) || gather.Fix == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLostRank: when the agent of a rank dies while others are still to come, the program
// is ended: its ranks would wait for each other.
func TestLostRank(t *testing.T) {
	t.Parallel()
	var gather *program.GatherError
	_, _, _, err := launchFake(t, fakeProgram{Ranks: 1, Say: 2, Deserts: true}, nil)
	if !errors.As(err, &gather) || !strings.Contains(err.Error(), "was lost before all ranks had come: 1 are missing") {
		t.Errorf("%v", err)
	}
}

// TestOneRankAmongMany: a program of one rank in an allocation of several is one program.
func TestOneRankAmongMany(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 1, Steps: 3, Protect: 1, Sizes: []wire.Size{{Variable: "SLURM_NTASKS", Ranks: 8}}}
	_, _, out, err := launchFake(t, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkSums(t, f, out)
}

// TestOtherSize has a program come back with another number of ranks.
func TestOtherSize(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 3, Say2: 2, Steps: 60, Pause: 3 * time.Millisecond, Protect: 1, Dies: 25, Deaths: 1}
	var gather *program.GatherError
	_, _, _, err := launchFake(t, f, func(s *job.Spec, _ *Options) { s.Schedule.Every, s.AutoRestart = 10, true })
	if !errors.As(err, &gather) || !strings.Contains(err.Error(), "has 2 ranks now, not 3") {
		t.Errorf("%v", err)
	}
}

// TestSilentEnd: a program that ends without ckpt_finalize has failed, also when its
// command exits with status 0.
func TestSilentEnd(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 3, Steps: 20, Pause: time.Millisecond, Protect: 1, Silent: true}
	var failed *JobFailedError
	_, _, _, err := launchFake(t, f, nil)
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "ended without ckpt_finalize") || !strings.Contains(err.Error(), "exited with status 0") {
		t.Errorf("%v", err)
	}
}

// TestHiddenDeath restarts a program of which a rank died and whose command exits with
// status 0, as behind a pipe.
func TestHiddenDeath(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 3, Steps: 60, Pause: 3 * time.Millisecond, Protect: 1, Dies: 25, Deaths: 2, Hides: true}
	r, _, out, err := launchFake(t, f, func(s *job.Spec, _ *Options) { s.Schedule.Every, s.AutoRestart = 10, true })
	if err != nil || r.Failures != 2 {
		t.Fatalf("result %+v, %v", r, err)
	}
	checkSums(t, f, out)
}

// TestProgramStatusTold: the status of a program that completed is in the result.
func TestProgramStatusTold(t *testing.T) {
	t.Parallel()
	r, _, _, err := launchFake(t, fakeProgram{Ranks: 2, Steps: 3, Status: 7}, nil)
	if err != nil || r.Outcome != job.StateCompleted || r.ProgramStatus == nil || *r.ProgramStatus != 7 {
		t.Errorf("result %+v, %v", r, err)
	}
}

// TestProgramJobName refuses a name before it starts the program.
func TestProgramJobName(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 1, Steps: 20, Pause: time.Millisecond, Protect: 1}
	var store string
	if _, _, _, err := launchFake(t, f, func(s *job.Spec, o *Options) { store, s.Schedule.Every = o.Store, 5 }); err != nil {
		t.Fatal(err)
	}
	f.Output = "started"
	_, _, out, err := launchFake(t, f, func(_ *job.Spec, o *Options) { o.Store = store })
	if !errors.Is(err, image.ErrJobExists) || out != "" {
		t.Errorf("%v, output %q", err, out)
	}
}

// TestStepsDiffer aborts checkpoints at which the ranks are not in the same step; the
// program goes on.
func TestStepsDiffer(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 3, Steps: 30, Pause: time.Millisecond, Protect: 1, Astray: true}
	r, rec, out, err := launchFake(t, f, func(s *job.Spec, _ *Options) { s.Schedule.Every = 20 })
	if err != nil || r.Checkpoints != 0 || r.Lost != 1 {
		t.Fatalf("result %+v, %v", r, err)
	}
	checkSums(t, f, out)
	if lost := eventsOf[*AbortedEvent](rec); len(lost) != 1 || !strings.Contains(lost[0].Reason, "rank 2 passes its step 42 to ckpt_boundary where rank 0 passes 40") {
		t.Errorf("%+v", lost[0])
	}
}

// TestNothingProtected tells once that checkpoints hold nothing.
func TestNothingProtected(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 2, Steps: 30, Pause: time.Millisecond}
	r, rec, _, err := launchFake(t, f, func(s *job.Spec, _ *Options) { s.Schedule.Every = 10 })
	if err != nil || r.Checkpoints < 2 || strings.Count(strings.Join(rec.warned, "\n"), "protects nothing") != 1 {
		t.Errorf("result %+v, %v, warnings %q", r, err, rec.warned)
	}
}

// TestTimeIsUp stops a program before the end of its time.
func TestTimeIsUp(t *testing.T) {
	t.Parallel()
	f := fakeProgram{Ranks: 2, Steps: 1e6, Pause: time.Millisecond, Protect: 1}
	r, rec, _, err := launchFake(t, f, func(s *job.Spec, o *Options) {
		s.Schedule.Every, o.Until = 20, time.Now().Add(8*time.Second)
	})
	if err != nil || r.Outcome != job.StateStopped || !r.Requeue || !r.Interrupted || r.Checkpoints < 1 || !warned(rec, "time of this run is nearly up") {
		t.Errorf("result %+v, %v, warnings %q", r, err, rec.warned)
	}
}

// TestDeathWhileGathering runs the command again when a rank dies before all have come.
func TestDeathWhileGathering(t *testing.T) {
	t.Parallel()
	for _, hides := range []bool{false, true} {
		f := fakeProgram{Ranks: 3, Fails: 2, Steps: 10, Pause: time.Millisecond, Protect: 1, Hides: hides}
		r, rec, out, err := launchFake(t, f, func(s *job.Spec, _ *Options) { s.AutoRestart = true })
		if err != nil || r.Outcome != job.StateCompleted || strings.Count(strings.Join(rec.warned, "\n"), "the command is run again") != 2 {
			t.Fatalf("result %+v, %v, warnings %q", r, err, rec.warned)
		}
		checkSums(t, f, out)
		var early *program.EarlyError
		if _, _, _, err := launchFake(t, f, nil); !errors.As(err, &early) || early.Came != 2 || early.Size != 3 {
			t.Errorf("without restarts: %v", err)
		}
	}
}
