package coordinator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// modes are all ways to take checkpoints.
func modes() []job.Spec {
	list := []job.Spec{{Mode: job.Coordinated}, {Mode: job.Semi}, {Mode: job.Semi, Log: channel.Sender.String()}, {Mode: job.Semi, GroupSize: 3}}
	for _, k := range []channel.Kind{channel.Receiver, channel.Sender, channel.Optimistic, channel.None} {
		list = append(list, job.Spec{Mode: job.Uncoordinated, Log: k.String()})
	}
	return list
}

// TestModes kills ranks and nodes at seeded random times under every mode and kind
// of log, and expects the digest of a run without failures, no line of output
// twice or not at all, and that nobody restarts who need not. The nightly form is
// CKPT_MODE_RUNS=1000.
func TestModes(t *testing.T) {
	t.Parallel()
	runs := 8 // each mode once
	if testkit.Enabled {
		runs = 4
	}
	runs = runsOf(t, "CKPT_MODE_RUNS", runs)
	apps := []string{"bt.S.4", "lu.S.4", "cg.S.4", "minighost.S.4", "ring.S.5"}
	modes := modes()
	var ran, deaths atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d ranks died", deaths.Load())
		if deaths.Load() == 0 && ran.Load() > 3 { // not when few had their turn
			t.Error("nobody was killed: the runs prove nothing")
		}
	})
	for seed := range runs {
		rng := rand.New(rand.NewPCG(uint64(seed), 6))
		mode := modes[seed%len(modes)]
		app := apps[rng.IntN(len(apps))]
		t.Run(fmt.Sprintf("seed=%d/%s,%s,%s", seed, app, mode.Mode, mode.Log), func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, app, 1+rng.IntN(3))
			ran.Add(1)
			s.Iterations = usually(s.Iterations)
			want := undisturbed(t, s)
			s.Mode, s.Log, s.GroupSize = mode.Mode, mode.Log, mode.GroupSize
			s.AutoRestart = true
			s.Seed = uint64(seed)
			if s.Mode != job.Coordinated {
				s.Stagger = []string{"none", "spread", "random"}[rng.IntN(3)]
				s.Jitter = float64(rng.IntN(2)) * 0.3
			}
			if s.Async = rng.IntN(3) == 0; s.Async {
				s.InFlight = rng.IntN(4)
			}
			s.Residuals = 1 + rng.IntN(5)
			s.Schedule.Every = 2 + rng.IntN(s.Iterations/2)
			opt := Options{Failures: anyFailures(rng, &s, 2*wallOf(want))}
			r, rec, opt := mustLaunch(t, s, opt)
			deaths.Add(int64(r.Failures))
			if r.Digest != want.Digest {
				t.Errorf("%+v: digest %s, without failures %s", opt.Failures, r.Digest, want.Digest)
			}
			checkOutputs(t, &s, eventsOf[*job.OutputEvent](rec))
			if kind := resolved(t, s).Log; s.Mode != job.Coordinated && (kind == channel.Receiver || kind == channel.Sender) {
				checkRolledBack(t, eventsOf[*RecoveryEvent](rec))
			}
			verifyAll(t, opt)
		})
	}
}

// TestModesOfArrays: ranks of several groups hold arrays together. Each group takes its
// checkpoints, and no cell is lost when ranks go back to them, in whatever layout and level.
func TestModesOfArrays(t *testing.T) {
	t.Parallel()
	apps := []string{"heat.S.4", "minighost.S.6"}
	layouts := []string{"per-rank", "application", "shared", "aggregated"}
	for i, mode := range testkit.Some(4, modes()[1:]...) {
		app, layout := apps[i%len(apps)], layouts[(i+i/4)%len(layouts)]
		t.Run(fmt.Sprintf("%s/%s,%d,%s/%s", app, mode.Mode, mode.GroupSize, mode.Log, layout), func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, app, 2)
			s.Mode, s.Log, s.GroupSize, s.Iterations = mode.Mode, mode.Log, mode.GroupSize, usually(s.Iterations)
			s.Schedule.Every = s.Iterations / 4
			want := undisturbed(t, s)
			layoutsOf[layout](&s)
			r, rec, opt := mustLaunch(t, s, Options{})
			if aborted := eventsOf[*AbortedEvent](rec); len(aborted) > 0 || r.Digest != want.Digest {
				t.Errorf("digest %s, want %s; aborted %+v", r.Digest, want.Digest, aborted)
			}
			opt.Observer, opt.Failures = &recorder{t: t}, []launch.Failure{{Rank: 1, Node: -1, Iter: s.Iterations - 1}}
			again, err := Restart(t.Context(), RestartOptions{Options: opt, AutoRestart: true})
			if err != nil || again.Digest != want.Digest {
				t.Errorf("restarted: %+v, %v; want digest %s", again, err, want.Digest)
			}
			verifyAll(t, opt)
		})
	}
}

// TestOtherCells: a checkpoint of a group whose ranks hold other cells than in the job would
// leave cells of a recovery line to no rank. It is damaged.
func TestOtherCells(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "heat.S.4", 2)
	s.Mode, s.Iterations, s.Schedule.Every = job.Semi, 8, 4
	_, _, opt := mustLaunch(t, s, Options{})
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	m, err := job.ChooseCheckpoint(j, resolved(t, s), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Ranks[1].Global = m.Ranks[0].Global
	var damage *durable.DamageError
	if err := resolved(t, s).CheckTaken(j, m); !errors.As(err, &damage) || !strings.Contains(err.Error(), "holds other cells") {
		t.Errorf("other cells: %v", err)
	}
}

// anyFailures draws one to three failures.
func anyFailures(rng *rand.Rand, s *job.Spec, length time.Duration) []launch.Failure {
	var list []launch.Failure
	for range 1 + rng.IntN(3) {
		f := launch.Failure{Rank: rng.IntN(s.NP), Node: -1}
		if rng.IntN(4) == 0 {
			f = launch.Failure{Rank: -1, Node: rng.IntN(len(s.Mapping))}
		}
		if rng.IntN(2) == 0 {
			f.Iter = 1 + rng.IntN(s.Iterations)
		} else {
			f.After = time.Duration(rng.Int64N(int64(length)))
		}
		list = append(list, f)
	}
	return list
}

// checkOutputs checks that every residual was put out once, in order.
func checkOutputs(t *testing.T, s *job.Spec, events []*job.OutputEvent) {
	t.Helper()
	for i, ev := range events {
		if ev.Rank != 0 || ev.Index != uint64(i+1) {
			t.Errorf("output %d is number %d of rank %d", i+1, ev.Index, ev.Rank)
		}
	}
	if len(events) != s.Iterations/s.Residuals {
		t.Errorf("%d outputs, want one every %d of %d iterations", len(events), s.Residuals, s.Iterations)
	}
}

// checkRolledBack checks that only the groups that failed went back.
func checkRolledBack(t *testing.T, events []*RecoveryEvent) {
	t.Helper()
	for _, ev := range events {
		if fmt.Sprint(ev.Failed) != fmt.Sprint(ev.RolledBack) {
			t.Errorf("groups %v failed, %v went back", ev.Failed, ev.RolledBack)
		}
	}
}
