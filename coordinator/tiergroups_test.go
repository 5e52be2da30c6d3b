package coordinator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image/codec"
	"ckpt/image/nodes"
	"ckpt/internal/testkit"
)

// TestGroupsOnNodes kills ranks and nodes of jobs whose groups keep their checkpoints on nodes, at
// seeded random times; nodes lose their directories or cannot use them, users stop jobs and
// restart them. It expects the digest of a run without failures, and each line of output once.
//
//	CKPT_GROUP_RUNS=500 go test -timeout 3h -run TestGroupsOnNodes ./coordinator
//	CKPT_GROUP_SEED=17 CKPT_GROUP_RUNS=1 go test -v -run TestGroupsOnNodes ./coordinator
//
// are more runs, and run 17 alone.
func TestGroupsOnNodes(t *testing.T) {
	t.Parallel()
	usual := 3
	if testkit.Nightly() {
		usual = 500
	}
	runs, first := runsOf(t, "CKPT_GROUP_RUNS", usual), runsOf(t, "CKPT_GROUP_SEED", 0)
	var failures, restarts, anew atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d failures, %d restarts by hand, %d jobs launched again", failures.Load(), restarts.Load(), anew.Load())
		if failures.Load() < int64(runs)/4 && runs > 1 {
			t.Errorf("%d failures in %d runs prove little", failures.Load(), runs)
		}
	})
	apps := []string{"bt.S.4", "lu.S.4", "cg.S.4", "ring.S.4", "heat.S.4", "minighost.S.4"}
	for seed := first; seed < first+runs; seed++ {
		mode, app := modes()[1+seed%7], apps[seed%len(apps)]
		t.Run(fmt.Sprintf("seed=%d/%s,%s,%s", seed, app, mode.Mode, mode.Log), func(t *testing.T) {
			t.Parallel()
			g := &groupsRun{t: t, rng: rand.New(rand.NewPCG(uint64(seed), 38))}
			s := newSpec(t, app, 4)
			s.Iterations = usually(s.Iterations)
			g.want = undisturbed(t, s)
			g.describe(app, mode, s.Iterations)
			r := g.run()
			failures.Add(int64(r.Failures + g.died))
			restarts.Add(int64(g.restarted))
			anew.Add(int64(g.anew))
			if r.Digest != g.want.Digest {
				t.Errorf("%+v, %+v, %+v: digest %s, without failures %s", g.spec.Tier, g.spec, g.opt.Failures, r.Digest, g.want.Digest)
			}
			if g.anew == 0 {
				checkOutputs(t, &g.spec, eventsOf[*job.OutputEvent](g.rec))
			}
		})
	}
}

// A groupsRun is a job of several groups on nodes.
type groupsRun struct {
	t                     *testing.T
	rng                   *rand.Rand
	want                  *Result
	spec                  job.Spec
	opt                   Options
	rec                   *recorder
	died, restarted, anew int
	cure                  func()
}

// describe draws the job, and its failures.
func (g *groupsRun) describe(app string, mode job.Spec, iterations int) {
	rng := g.rng
	schemes, count := tierSchemes, 4
	if mode.GroupSize == 0 && rng.IntN(3) == 0 {
		schemes, count = []string{"none", "partner", "xor:2"}, 2
	}
	drain := []string{"behind", "every=2", "none"}[rng.IntN(3)]
	if drain == "none" && (mode.Log == channel.None.String() || mode.Log == channel.Optimistic.String()) {
		drain = "behind"
	}
	s := tiered(g.t, app, count, schemes[rng.IntN(len(schemes))], drain)
	s.Mode, s.Log, s.GroupSize, s.Iterations = mode.Mode, mode.Log, mode.GroupSize, iterations
	s.Stagger, s.Seed = []string{"none", "spread", "random"}[rng.IntN(3)], rng.Uint64N(1000)
	s.Schedule.Every, s.Residuals = max(1, iterations/10+rng.IntN(iterations/4)), 1+rng.IntN(5)
	s.AutoRestart, s.Incremental = rng.IntN(4) > 0, rng.IntN(4) > 0
	if s.Async = rng.IntN(3) == 0; s.Async {
		s.InFlight = rng.IntN(3)
	}
	s.SharedOnce, s.LibraryOnce = rng.IntN(4) > 0, rng.IntN(4) > 0
	if rng.IntN(4) == 0 {
		s.Level, s.SharedOnce, s.LibraryOnce = job.Application, false, false
	}
	s.Codec, s.WritePath = codec.Setting(rng.IntN(int(codec.UseS2)+1)).String(), anyLayout(rng)
	if rng.IntN(4) == 0 {
		s.Tier.Rate = int64(1+rng.IntN(20)) << 20
	}
	g.spec, g.rec, g.cure = s, &recorder{t: g.t}, func() {}
	g.opt = Options{Store: g.t.TempDir(), Job: "job", Observer: g.rec}
	if rng.IntN(4) == 0 {
		g.rec, g.cure = breakRandomly(g.t, rng, s)
		g.opt.Observer = g.rec
	}
	for range 1 + rng.IntN(2) {
		g.opt.Failures = append(g.opt.Failures, g.failure(count))
	}
}

// failure draws one.
func (g *groupsRun) failure(count int) launch.Failure {
	f := launch.Failure{Rank: -1, Node: g.rng.IntN(count), LoseLocal: g.rng.IntN(3) > 0}
	if g.rng.IntN(4) == 0 {
		f.Rank, f.Node = g.rng.IntN(g.spec.NP), -1
	}
	if g.rng.IntN(2) == 0 {
		f.After = time.Duration(g.rng.Int64N(int64(2 * wallOf(g.want))))
	} else {
		f.Iter = 1 + g.rng.IntN(g.spec.Iterations)
	}
	return f
}

// run runs the job to its end, and restarts it where that is for a user to do.
func (g *groupsRun) run() *Result {
	if g.rng.IntN(3) == 0 {
		stop := make(chan struct{}, 1)
		time.AfterFunc(time.Duration(g.rng.Int64N(int64(2*wallOf(g.want)))), func() { stop <- struct{}{} })
		g.opt.Interrupts = stop
	}
	r, err := Launch(g.t.Context(), g.spec, g.opt)
	for {
		failed, lost := (*JobFailedError)(nil), (*job.MissingError)(nil)
		switch {
		case errors.As(err, &failed):
			g.died++
		case errors.As(err, &lost) && g.spec.Tier.Drain.Mode == nodes.DrainNone:
			g.anew++ // it is beyond what the scheme protects from
		case errors.Is(err, nodes.ErrNotHere):
		case err != nil:
			g.t.Fatal(err)
		case r.Outcome == job.StateCompleted:
			return r
		}
		g.opt.Failures, g.opt.Interrupts = nil, nil
		switch g.rng.IntN(4) {
		case 0, 1:
			g.cure() // else the restart does without the node
		case 2:
			g.cure()
			loseDirs(g.t, g.spec, g.rng.IntN(len(g.spec.Mapping)))
		}
		if lost != nil {
			g.cure()
			g.opt.Job = fmt.Sprint("anew-", g.anew)
			r, err = Launch(g.t.Context(), g.spec, g.opt)
			continue
		}
		g.restarted++
		r, err = Restart(g.t.Context(), RestartOptions{Options: g.opt})
	}
}
