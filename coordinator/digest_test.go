package coordinator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/image/codec"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
)

// runsOf is how many runs a test does: as the environment says, for the nightly
// form, or as many as a developer waits for.
func runsOf(t *testing.T, env string, usual int) int {
	s := os.Getenv(env)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// TestSameDigest kills ranks and nodes at seeded random times, restarts, also
// under other mappings, and expects the digest of a run without failures. The nightly
// form is CKPT_SEEDED_RUNS=200.
func TestSameDigest(t *testing.T) {
	t.Parallel()
	apps := []string{"bt.S.4", "sp.S.4", "lu.S.4", "cg.S.4", "minighost.S.4", "bt.S.16", "ring.S.4"}
	seeds := []int{0, 4, 7, 10} // each kind of disturbance and each layout
	if runs := runsOf(t, "CKPT_SEEDED_RUNS", 0); runs > 0 {
		seeds = nil
		for seed := range runs {
			seeds = append(seeds, seed)
		}
	}
	var failures, ran atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d ranks or nodes died", failures.Load())
		if int(ran.Load()) >= 4 && failures.Load() == 0 { // not when -run chose a few
			t.Error("nothing was killed: the runs prove nothing")
		}
	})
	for _, seed := range seeds {
		app := apps[seed%len(apps)]
		t.Run(fmt.Sprintf("seed=%d/%s", seed, app), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 2))
			s := newSpec(t, app, 1+rng.IntN(4))
			s.Iterations = usually(s.Iterations)
			r := disturbed(t, rng, s)
			failures.Add(int64(r.Failures))
			ran.Add(1)
			if want := undisturbed(t, s); r.Digest != want.Digest {
				t.Errorf("digest %s, without failures %s", r.Digest, want.Digest)
			}
		})
	}
}

// usually is how many iterations a developer waits for, of those of a class.
func usually(iterations int) int {
	if testkit.Nightly() {
		return iterations
	}
	return min(iterations, 16)
}

// disturbed runs an application under one random kind of disturbance.
func disturbed(t *testing.T, rng *rand.Rand, s job.Spec) *Result {
	length := wallOf(undisturbed(t, s))
	s.Schedule.Every = s.Iterations/8 + rng.IntN(s.Iterations/2)
	s.AutoRestart = true
	anyWritePath(rng, &s)
	s.SharedOnce, s.LibraryOnce = rng.IntN(4) > 0, rng.IntN(4) > 0
	if rng.IntN(3) == 0 {
		s.MPI = mpi.OpenMPI.String()
	}
	at := func() time.Duration { return time.Duration(rng.Int64N(int64(length))) }
	var opt Options
	kind := rng.IntN(4)
	switch kind {
	case 0: // ranks killed at random times
		for range 1 + rng.IntN(2) {
			opt.Failures = append(opt.Failures, launch.Failure{Rank: rng.IntN(s.NP), Node: -1, After: at()})
		}
	case 1: // a node killed at a random time
		opt.Failures = []launch.Failure{{Rank: -1, Node: rng.IntN(len(s.Mapping)), After: at()}}
	case 2: // a rank killed at an iteration
		opt.Failures = []launch.Failure{{Rank: rng.IntN(s.NP), Node: -1, Iter: 1 + rng.IntN(s.Iterations)}}
	case 3: // killed for good, then restarted under another mapping
		return remapped(t, rng, s)
	}
	r, _, _ := mustLaunch(t, s, opt)
	return r
}

func wallOf(r *Result) time.Duration { return time.Duration(r.Wall * float64(time.Second)) }

// anyWritePath chooses who writes what, and whether behind the computation.
func anyWritePath(rng *rand.Rand, s *job.Spec) {
	s.Async = rng.IntN(2) == 0
	if s.Async && rng.IntN(2) == 0 {
		s.Staging = int64(1+rng.IntN(64)) << 12
	} else if s.Async {
		s.InFlight = rng.IntN(5)
	}
	s.Codec = codec.Setting(rng.IntN(int(codec.UseS2) + 1)).String()
	s.WritePath = plan.Defaults()
	s.WritePath.Layout = []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared}[rng.IntN(3)]
	s.WritePath.Strategy = []plan.Strategy{plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual}[rng.IntN(4)]
	s.WritePath.StripeSize, s.WritePath.Buffer = 64<<10, int64(1+rng.IntN(30))<<16
	s.WritePath.P1, s.WritePath.P2, s.WritePath.P3, s.WritePath.P4 = rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0
}

// remapped kills a job after its first checkpoint and restarts it elsewhere.
func remapped(t *testing.T, rng *rand.Rand, s job.Spec) *Result {
	s.AutoRestart, s.InFlight = false, 0
	last := s.Schedule.Every + 1
	if s.Async {
		// The first checkpoint is surely committed when the second begins.
		s.Schedule.Every = s.Iterations / 4
		last = 2*s.Schedule.Every + 1
	}
	opt := Options{Store: t.TempDir(), Job: "job", Observer: &recorder{t: t},
		Failures: []launch.Failure{{Rank: rng.IntN(s.NP), Node: -1, Iter: last}}}
	_, err := Launch(t.Context(), s, opt)
	if failed, ok := err.(*JobFailedError); !ok || !failed.Restartable {
		t.Fatalf("launch: %v, want a job that can be restarted", err)
	}
	opt.Failures = nil
	r, err := Restart(t.Context(), RestartOptions{Options: opt,
		Mapping: func(np int) (job.Mapping, error) { return job.EvenMapping(np, 1+rng.IntN(np)) }})
	if err != nil {
		t.Fatal(err)
	}
	r.Failures++
	return r
}

// TestDeathInEveryPhase kills or stops a rank just as the coordinator enters
// each phase of a checkpoint, and expects the same digest and the rank's name.
func TestDeathInEveryPhase(t *testing.T) {
	t.Parallel()
	scheduled := newSpec(t, "ring.S.4", 2) // with messages in flight; its iterations are short
	scheduled.Schedule.Every = scheduled.Iterations / 3
	scheduled.AutoRestart = true
	// A checkpoint on request is proposed as soon as the ranks compute, and they are far from
	// the end however late they hear of it.
	asked := scheduled
	asked.Iterations, asked.Schedule = 400, job.Schedule{}
	phases := map[string]func(protocol.Action) bool{
		"start":   broadcasts[protocol.Start],
		"propose": broadcasts[protocol.Propose],
		"stop":    broadcasts[protocol.StopAt],
		"drain": func(a protocol.Action) bool {
			m, ok := a.(protocol.Send)
			if ok {
				_, ok = m.Message.(protocol.Drain)
			}
			return ok
		},
		"write":  broadcasts[protocol.Write],
		"commit": func(a protocol.Action) bool { _, ok := a.(protocol.Commit); return ok },
		"resume": broadcasts[protocol.Resume],
	}
	stalls := testkit.Some(3, slices.Sorted(maps.Keys(phases))...)
	for phase, is := range phases {
		for _, suspend := range []bool{false, true} {
			if suspend && !slices.Contains(stalls, phase) {
				continue
			}
			t.Run(fmt.Sprintf("%s/suspend=%v", phase, suspend), func(t *testing.T) {
				t.Parallel()
				s := scheduled
				v := &victim{job: fmt.Sprintf("%s-%v", phase, suspend), rank: 2, suspend: suspend, is: is}
				opt := Options{Job: v.job, watch: v.watch, Limits: protocol.DefaultLimits}
				if phase == "propose" || phase == "stop" {
					request := make(chan struct{}, 1)
					request <- struct{}{}
					s, opt.Checkpoints = asked, request
				}
				if suspend {
					// To save time. However busy the machine is, no other rank is silent.
					opt.Limits.Silence, opt.excused = 300*time.Millisecond, func(pid int) bool { return !stopped(pid) }
				}
				opt.Observer = &recorder{t: t}
				r, rec, opt := mustLaunch(t, s, opt)
				if want := undisturbed(t, s); r.Digest != want.Digest {
					t.Errorf("digest %s, want %s", r.Digest, want.Digest)
				}
				died := eventsOf[*FailureEvent](rec)
				if len(died) != 1 || died[0].Rank != 2 {
					t.Errorf("%d failures, want one of rank 2", len(died))
					for _, f := range died {
						t.Logf("%+v", *f)
					}
				}
				for _, lost := range eventsOf[*AbortedEvent](rec) {
					if lost.Rank != 2 && lost.Reason != "the job is finishing" {
						t.Errorf("checkpoint lost: %+v, want it to name rank 2", lost)
					}
				}
				verifyAll(t, opt)
			})
		}
	}
}

func broadcasts[M protocol.Message](a protocol.Action) bool {
	b, ok := a.(protocol.Broadcast)
	if ok {
		_, ok = b.Message.(M)
	}
	return ok
}
