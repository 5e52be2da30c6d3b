package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/nodes"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// tiered describes a run whose nodes have directories.
func tiered(t testing.TB, app string, count int, scheme, drain string) job.Spec {
	t.Helper()
	s := newSpec(t, app, count)
	p, err := nodes.Parse(scheme)
	if err != nil {
		t.Fatal(err)
	}
	d, err := nodes.ParseDrain(drain)
	if err != nil {
		t.Fatal(err)
	}
	s.Tier = &nodes.Setting{Dir: filepath.Join(t.TempDir(), "{node}"), Protect: p, Drain: d}
	return s
}

// cameTo returns which levels checkpoint n has come to, in order.
func cameTo(rec *recorder, n int) []nodes.State {
	var list []nodes.State
	for _, ev := range eventsOf[*levels.LevelEvent](rec) {
		if ev.Number == n {
			list = append(list, ev.Level)
		}
	}
	return list
}

// stored lists the checkpoints in the store of a job.
func storedNumbers(t *testing.T, opt Options) []int {
	t.Helper()
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := j.Checkpoints()
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

// loseDirs removes the directories that nodes have of a job.
func loseDirs(t *testing.T, s job.Spec, nodes ...int) {
	t.Helper()
	for _, n := range nodes {
		if err := os.RemoveAll(s.Tier.NodeDir(n)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTierLevels: a checkpoint is protected, copied into the store, and leaves the nodes
// when a newer one is there. The store has it whole at the end.
func TestTierLevels(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "behind")
	s.Schedule.Every = 20
	want := undisturbed(t, s)
	r, rec, opt := mustLaunch(t, s, Options{})
	if r.Digest != want.Digest {
		t.Errorf("digest %s, without nodes %s", r.Digest, want.Digest)
	}
	if got := cameTo(rec, 2); len(got) < 3 || got[0] != nodes.Protected || got[len(got)-1] != nodes.Stored {
		t.Errorf("levels %v of checkpoint 2", got)
	}
	if !slices.Contains(storedNumbers(t, opt), 2) {
		t.Error("the last checkpoint is not in the store")
	}
	verifyAll(t, opt)
}

// TestTierIncrementalDrain: of a job that changes 5 % of its memory between two checkpoints,
// a drain copies at most 10 % of what a full one does, the store has each checkpoint whole,
// and a restart without the nodes reads it.
func TestTierIncrementalDrain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "slow.yaml")
	text := `name: slow
kernel: generic
procs: any
classes:
  S: {iterations: 60, params: {}}
arrays:
  - {name: still, elem: float64, count: "995328", rewrite: 0}
  - {name: moving, elem: float64, count: "52384", rewrite: 1}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, layout := range testkit.Some(1, plan.PerRank, plan.Aggregated, plan.Shared) {
		t.Run(string(layout), func(t *testing.T) {
			inst, err := dataset.ParseApp(path, 4)
			if err != nil {
				t.Fatal(err)
			}
			s := job.NewSpec(inst)
			s.Mapping, s.Tier = job.Mapping{2, 2}, tiered(t, "bt.S.4", 2, "partner", "every=1").Tier
			// The third waits on the nodes until the first is stored.
			s.Schedule.Every, s.Incremental, s.Codec, s.WritePath.Layout = 15, true, "none", layout
			want, rec, opt := mustLaunch(t, s, Options{})
			var copied []int64
			for _, ev := range eventsOf[*levels.LevelEvent](rec) {
				if ev.Level == nodes.Stored {
					copied = append(copied, ev.Bytes)
				}
			}
			if len(copied) < 2 || copied[1] > copied[0]/10 {
				t.Errorf("drains copied %d bytes, want at most a tenth after the first", copied)
			}
			files, err := filepath.Glob(filepath.Join(opt.Store, "jobs", opt.Job, "0001", "*.img"))
			if most := map[plan.Layout]int{plan.PerRank: 4, plan.Aggregated: 2, plan.Shared: 1}[layout]; err != nil || len(files) != most {
				t.Errorf("the store has %v, %v, want %d files", files, err, most)
			}
			verifyAll(t, opt)
			loseDirs(t, s, 0, 1)
			again, err := Restart(t.Context(), RestartOptions{Options: opt})
			if err != nil {
				t.Fatal(err)
			}
			if again.Digest != want.Digest {
				t.Errorf("digest %s, want %s", again.Digest, want.Digest)
			}
		})
	}
}

// TestTierApplicationLevel: what ranks save at application level survives a lost node on the
// nodes, and in the store, where another number of ranks reads it.
func TestTierApplicationLevel(t *testing.T) {
	t.Parallel()
	s := tiered(t, "heat.S.4", 4, "xor:4", "behind")
	s.Level, s.AutoRestart, s.Incremental = job.Application, true, true
	s.Schedule.Every = s.Iterations / 3
	want := undisturbed(t, s)
	r, rec, opt := mustLaunch(t, s, Options{Failures: []launch.Failure{{Rank: -1, Node: 2, Iter: s.Iterations/3 + 2, LoseLocal: true}}})
	if r.Digest != want.Digest {
		t.Errorf("digest %s, without failures %s", r.Digest, want.Digest)
	}
	if f := eventsOf[*levels.SourcesEvent](rec); len(f) != 1 || f[0].Local != 3 || f[0].Built != 1 {
		t.Errorf("found %+v, want 3 ranks on their nodes and one rebuilt", f)
	}
	verifyAll(t, opt)
	loseDirs(t, s, 0, 1, 2, 3)
	opt.Failures = nil
	for _, np := range []int{4, 3} {
		again, err := Restart(t.Context(), RestartOptions{Options: opt, NP: np})
		if err != nil {
			t.Fatalf("%d ranks: %v", np, err)
		}
		if np == 4 && again.Digest != want.Digest {
			t.Errorf("%d ranks: digest %s, want %s", np, again.Digest, want.Digest)
		}
	}
}

// TestTierLostNode: the ranks of a lost node find their parts with its partner, and the
// others on their own nodes.
func TestTierLostNode(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "none")
	s.Schedule.Every, s.AutoRestart, s.Iterations = 20, true, 30 // one checkpoint
	want := undisturbed(t, s)
	r, rec, opt := mustLaunch(t, s, Options{Job: "lost", Failures: []launch.Failure{{Rank: -1, Node: 1, Iter: 25, LoseLocal: true}}})
	if r.Digest != want.Digest {
		t.Errorf("digest %s, without failures %s", r.Digest, want.Digest)
	}
	found := eventsOf[*levels.SourcesEvent](rec)
	if len(found) != 1 || found[0].Number != 1 || found[0].Local != 2 || found[0].Copied != 2 {
		t.Errorf("found %+v, want 2 ranks on their node and 2 copied", found)
	}
	if again := eventsOf[*levels.RedundancyEvent](rec); len(again) != 1 || again[0].Number != 1 || again[0].Bytes == 0 {
		t.Errorf("restored redundancy %+v, want that of checkpoint 1", again)
	}
	if got := storedNumbers(t, opt); len(got) != 0 {
		t.Errorf("checkpoints %v are in the store, want none", got)
	}
	if !slices.ContainsFunc(rec.warned, func(w string) bool { return strings.Contains(w, "on the nodes only") }) {
		t.Errorf("no warning says that the last checkpoint is not in the store: %q", rec.warned)
	}
}

// TestTierNothingLeft: without protection and without a store a lost node costs the
// checkpoints, and nothing wrong is restored.
func TestTierNothingLeft(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "none", "none")
	s.Schedule.Every, s.AutoRestart = 20, true
	want := undisturbed(t, s)
	r, rec, _ := mustLaunch(t, s, Options{Failures: []launch.Failure{{Rank: -1, Node: 1, Iter: 50, LoseLocal: true}}})
	if r.Digest != want.Digest {
		t.Errorf("digest %s, without failures %s", r.Digest, want.Digest)
	}
	starts := eventsOf[*StartEvent](rec)
	if last := starts[len(starts)-1]; last.From != 0 {
		t.Errorf("the ranks begin with checkpoint %d, of which parts are nowhere", last.From)
	}
}

// TestTierRestart: a restart by a user reads the nearest sound level, and falls through to
// the next one where that is damaged or gone.
func TestTierRestart(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "behind")
	s.Schedule.Every = 20
	want, _, opt := mustLaunch(t, s, Options{})
	image := filepath.Join(s.Tier.NodeDir(0), "jobs", "job", "0002", "rank-1.img")
	again := func(name string, local, copied, stored int) {
		t.Helper()
		rec := &recorder{t: t}
		opt.Observer = rec
		r, err := Restart(t.Context(), RestartOptions{Options: opt})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.Digest != want.Digest {
			t.Errorf("%s: digest %s, want %s", name, r.Digest, want.Digest)
		}
		if f := eventsOf[*levels.SourcesEvent](rec); len(f) != 1 || f[0].Local != local || f[0].Copied != copied || f[0].Stored != stored {
			t.Errorf("%s: found %+v, want %d, %d and %d ranks", name, f, local, copied, stored)
		}
	}
	again("whole", 4, 0, 0)
	flipByte(t, image)
	again("a damaged file", 3, 1, 0)
	flipByte(t, image)
	flipByte(t, strings.Replace(image, s.Tier.NodeDir(0), s.Tier.NodeDir(1), 1))
	again("two damaged files", 3, 0, 1)
	loseDirs(t, s, 0, 1)
	again("nothing on the nodes", 0, 0, 4)
}

// TestTierManyDamaged: a user hears of the first files that ranks pass over, and how
// many more there are.
func TestTierManyDamaged(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.9", 2, "partner", "none")
	s.Schedule.Every = 20
	_, _, opt := mustLaunch(t, s, Options{})
	resolved, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for rank, node := range resolved.Nodes {
		flipByte(t, filepath.Join(s.Tier.NodeDir(node), "jobs", opt.Job, nodes.RankFile(2, rank)))
	}
	rec := &recorder{t: t}
	opt.Observer = rec
	if _, err := Restart(t.Context(), RestartOptions{Options: opt}); err != nil {
		t.Fatal(err)
	}
	one, more := 0, 0
	for _, w := range rec.warned {
		if strings.Contains(w, "passes over") {
			one++
		}
		if strings.Contains(w, "pass over 6 more") {
			more++
		}
	}
	if one != 3 || more != 1 {
		t.Errorf("warnings: %q", rec.warned)
	}
}

// TestTierOtherMapping: a checkpoint that only the nodes have is stored before ranks on
// other nodes read it.
func TestTierOtherMapping(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "none")
	s.Schedule.Every = 20
	want, _, opt := mustLaunch(t, s, Options{})
	if got := storedNumbers(t, opt); len(got) != 0 {
		t.Fatalf("checkpoints %v are in the store", got)
	}
	rec := &recorder{t: t}
	opt.Observer = rec
	r, err := Restart(t.Context(), RestartOptions{Options: opt, Mapping: func(np int) (job.Mapping, error) { return job.EvenMapping(np, 4) }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Digest != want.Digest {
		t.Errorf("digest %s, want %s", r.Digest, want.Digest)
	}
	if got := storedNumbers(t, opt); !slices.Equal(got, []int{2}) {
		t.Errorf("checkpoints %v are in the store, want 2", got)
	}
	verifyAll(t, opt)
}

// TestTierOtherDomains: after a restart on other nodes, to which the failure domains of the
// description do not apply, the job can be restarted again.
func TestTierOtherDomains(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 4, "partner", "behind")
	s.Tier.Domains, s.Schedule.Every = []int{0, 0, 1, 1}, 20
	want, _, opt := mustLaunch(t, s, Options{})
	for _, nodes := range []int{2, 2, 4} {
		opt.Observer = &recorder{t: t}
		r, err := Restart(t.Context(), RestartOptions{Options: opt, Checkpoint: 1,
			Mapping: func(np int) (job.Mapping, error) { return job.EvenMapping(np, nodes) }})
		if err != nil {
			t.Fatalf("on %d nodes: %v", nodes, err)
		}
		if r.Digest != want.Digest {
			t.Errorf("on %d nodes: digest %s, want %s", nodes, r.Digest, want.Digest)
		}
	}
}

// TestTierSameDigest kills ranks and nodes at seeded random times, lets nodes lose their
// directories, or makes these unusable, and expects the digest of a run without failures. The nightly form is
// CKPT_TIER_RUNS=500.
func TestTierSameDigest(t *testing.T) {
	t.Parallel()
	apps := []string{"bt.S.4", "lu.S.4", "cg.S.4", "ring.S.4"}
	var failures atomic.Int64
	runs := runsOf(t, "CKPT_TIER_RUNS", 2)
	t.Cleanup(func() {
		if t.Logf("%d failures", failures.Load()); failures.Load() < int64(runs)/4 {
			t.Errorf("%d failures in %d runs prove little", failures.Load(), runs)
		}
	})
	for seed := range runs {
		app := apps[seed%len(apps)]
		t.Run(fmt.Sprintf("seed=%d/%s", seed, app), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 18))
			s := newSpec(t, app, 4)
			s.Iterations = usually(s.Iterations)
			want := undisturbed(t, s)
			r := loseRandomly(t, rng, app, s.Iterations, wallOf(want))
			failures.Add(int64(r.Failures))
			if r.Digest != want.Digest {
				t.Errorf("digest %s, without failures %s", r.Digest, want.Digest)
			}
		})
	}
}

// loseRandomly runs an application while nodes fail, and restarts it where that is for a
// user to do.
func loseRandomly(t *testing.T, rng *rand.Rand, app string, iterations int, length time.Duration) *Result {
	schemes := tierSchemes
	s := tiered(t, app, 4, schemes[rng.IntN(len(schemes))], []string{"behind", "every=2", "none"}[rng.IntN(3)])
	s.Iterations = iterations
	s.Schedule.Every = max(1, s.Iterations/10+rng.IntN(s.Iterations/4))
	s.AutoRestart, s.Async = rng.IntN(4) > 0, rng.IntN(3) == 0
	if s.Async {
		s.InFlight = rng.IntN(4)
	}
	s.SharedOnce, s.LibraryOnce = rng.IntN(4) > 0, rng.IntN(4) > 0
	s.Codec = codec.Setting(rng.IntN(int(codec.UseS2) + 1)).String()
	s.WritePath, s.Incremental = anyLayout(rng), rng.IntN(2) > 0
	if rng.IntN(4) == 0 {
		s.Level, s.SharedOnce, s.LibraryOnce = job.Application, false, false
	}
	if rng.IntN(3) == 0 {
		s.Tier.Rate = int64(1+rng.IntN(20)) << 20
	}
	opt := Options{Store: t.TempDir(), Job: "job", Observer: &recorder{t: t}}
	cure := func() {}
	if rng.IntN(3) == 0 {
		opt.Observer, cure = breakRandomly(t, rng, s)
	}
	for range 1 + rng.IntN(2) {
		f := launch.Failure{Rank: -1, Node: rng.IntN(4), LoseLocal: rng.IntN(3) > 0}
		if rng.IntN(2) == 0 {
			f.After = time.Duration(rng.Int64N(int64(length)))
		} else {
			f.Iter = 1 + rng.IntN(s.Iterations)
		}
		opt.Failures = append(opt.Failures, f)
	}
	r, err := Launch(t.Context(), s, opt)
	died := 0
	for failed := (*JobFailedError)(nil); errors.As(err, &failed); {
		died++
		opt.Failures = nil
		if !failed.Restartable || rng.IntN(2) == 0 {
			cure() // else the restart does without the node
		}
		if !failed.Restartable {
			opt.Job = "again"
			r, err = Launch(t.Context(), s, opt)
		} else {
			r, err = Restart(t.Context(), RestartOptions{Options: opt})
		}
		var lost *job.MissingError
		if errors.As(err, &lost) { // it is beyond what the scheme protects from
			cure()
			opt.Job = "anew"
			r, err = Launch(t.Context(), s, opt)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	r.Failures += died
	return r
}

// anyLayout draws how the store is written.
func anyLayout(rng *rand.Rand) plan.Settings {
	s := plan.Settings{Layout: []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared}[rng.IntN(3)]}
	switch s.Layout {
	case plan.Aggregated:
		s.Aggregators = rng.IntN(4) // 0: one for each node
	case plan.Shared:
		s.Strategy = []plan.Strategy{"", plan.TwoPhase, plan.Dynamic, plan.Static, plan.Individual}[rng.IntN(5)]
	}
	return s
}

// tierSchemes are the schemes that jobs run with.
var tierSchemes = []string{"none", "partner", "partner:2", "xor:4", "rs:2+2", "xor:2", "rs:3+1"}

// TestTierParity: as many nodes as a code is strong may be lost with their directories.
func TestTierParity(t *testing.T) {
	t.Parallel()
	for scheme, lost := range map[string][]int{"xor:4": {3}, "rs:2+2": {0, 2}} {
		t.Run(scheme, func(t *testing.T) {
			s := tiered(t, "bt.S.4", 4, scheme, "none")
			s.Schedule.Every = 20
			want, _, opt := mustLaunch(t, s, Options{})
			loseDirs(t, s, lost...)
			rec := &recorder{t: t}
			opt.Observer = rec
			r, err := Restart(t.Context(), RestartOptions{Options: opt})
			if err != nil {
				t.Fatal(err)
			}
			if r.Digest != want.Digest {
				t.Errorf("digest %s, want %s", r.Digest, want.Digest)
			}
			if f := eventsOf[*levels.SourcesEvent](rec); len(f) != 1 || f[0].Built != len(lost) || f[0].Local != 4-len(lost) {
				t.Errorf("found %+v, want %d rebuilt", f, len(lost))
			}
		})
	}
}

// TestTierAllLost: when every node has lost its directory, a version that the store does
// not have is over: no manifest of it is written again, and the job falls back.
func TestTierAllLost(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "none")
	s.Schedule.Every, s.AutoRestart = 20, true
	want := undisturbed(t, s)
	rec := &recorder{t: t}
	var lost sync.Once
	rec.on = func(ev any) {
		if _, ok := ev.(*FailureEvent); ok {
			lost.Do(func() { loseDirs(t, s, 0, 1) }) // before a restart looks there
		}
	}
	r, _, _ := mustLaunch(t, s, Options{Observer: rec, Failures: []launch.Failure{{Rank: -1, Node: 0, Iter: 30}}})
	if r.Digest != want.Digest {
		t.Errorf("digest %s, without failures %s", r.Digest, want.Digest)
	}
	if found := eventsOf[*levels.SourcesEvent](rec); len(found) != 0 {
		t.Errorf("found %+v where nothing is left", found)
	}
	restarts := eventsOf[*RestartEvent](rec)
	if n := len(restarts); n == 0 || restarts[n-1].From != 0 || !strings.Contains(restarts[n-1].Unusable, "checkpoint 1 is not on the nodes") {
		t.Errorf("restarts %+v, want one from the beginning at last, since no node has checkpoint 1", restarts)
	}
}

// TestTierKilled: a run that is killed leaves versions that only the nodes have, and a
// restart finds them, and removes what no version needs.
func TestTierKilled(t *testing.T) {
	t.Parallel()
	s := tiered(t, "bt.S.4", 2, "partner", "none")
	s.Schedule.Every = 10
	want := undisturbed(t, s)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	rec := &recorder{t: t, on: func(ev any) {
		if cp, ok := ev.(*job.CheckpointEvent); ok && cp.Number == 3 {
			kill()
		}
	}}
	opt := Options{Store: t.TempDir(), Job: "job", Observer: rec}
	if _, err := Launch(ctx, s, opt); !errors.Is(err, context.Canceled) {
		t.Fatalf("launch: %v, want it to be killed", err)
	}
	taken := eventsOf[*job.CheckpointEvent](rec)
	junk := filepath.Join(s.Tier.NodeDir(1), "jobs", "job", "0099")
	if err := os.Mkdir(junk, 0o700); err != nil {
		t.Fatal(err)
	}
	again := &recorder{t: t}
	opt.Observer = again
	r, err := Restart(t.Context(), RestartOptions{Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	if from := eventsOf[*StartEvent](again)[0].From; r.Digest != want.Digest || from < taken[len(taken)-1].Number {
		t.Errorf("restarted from checkpoint %d with digest %s, want at least %d and %s", from, r.Digest, taken[len(taken)-1].Number, want.Digest)
	}
	if _, err := os.Stat(junk); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what no version needs is still there: %v", err)
	}
}

// killedWithTwo kills a job whose two checkpoints are on the nodes only. A drain that is faster
// than the job on a busy machine is slowed down.
func killedWithTwo(t *testing.T) (s job.Spec, opt Options, want *Result) {
	t.Helper()
	for rate := int64(300 << 10); ; rate /= 4 {
		s = tiered(t, "ring.S.4", 2, "partner", "behind")
		s.Schedule.Every, s.Tier.Rate = s.Iterations/4, rate
		want = undisturbed(t, s)
		ctx, kill := context.WithCancel(t.Context())
		opt = Options{Store: t.TempDir(), Job: "job", Observer: &recorder{t: t, on: func(ev any) {
			if cp, ok := ev.(*job.CheckpointEvent); ok && cp.Number == 2 {
				kill()
			}
		}}}
		_, err := Launch(ctx, s, opt)
		kill()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("launch: %v, want it to be killed", err)
		}
		if _, err := os.Stat(filepath.Join(s.Tier.NodeDir(0), "jobs", "job", "0001", "manifest")); err == nil || rate < 1<<10 {
			return s, opt, want
		}
	}
}

// TestTierDamagedNewest: a restart whose newest checkpoint is damaged on the nodes, and not in the
// store, falls back to the one before and says so; with Exact, or if all are damaged, it ends.
func TestTierDamagedNewest(t *testing.T) {
	t.Parallel()
	s, opt, want := killedWithTwo(t)
	sound := t.TempDir()
	dirs := filepath.Dir(s.Tier.Dir)
	if err := errors.Join(os.CopyFS(filepath.Join(sound, "store"), os.DirFS(opt.Store)), os.CopyFS(filepath.Join(sound, "nodes"), os.DirFS(dirs))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		damage []string // files of each node
		exact  bool
		from   int // 0: it ends with damage
		warned string
	}{
		{"manifest", []string{"0002/manifest"}, false, 1, "checkpoint 2 is passed over"},
		{"image", []string{"0002/rank-1.img"}, false, 1, "checkpoint 2 cannot be used"},
		{"exact manifest", []string{"0002/manifest"}, true, 0, ""},
		{"exact image", []string{"0002/rank-1.img"}, true, 0, ""},
		{"all manifests", []string{"0002/manifest", "0001/manifest"}, false, 0, ""},
		{"older", []string{"0001/manifest"}, true, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := errors.Join(os.RemoveAll(filepath.Join(opt.Store, "jobs")), os.RemoveAll(dirs),
				os.CopyFS(filepath.Join(opt.Store, "jobs"), os.DirFS(filepath.Join(sound, "store", "jobs"))), os.CopyFS(dirs, os.DirFS(filepath.Join(sound, "nodes")))); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.damage {
				for node := range 2 {
					if err := os.Truncate(filepath.Join(s.Tier.NodeDir(node), "jobs", "job", name), 200); err != nil {
						t.Fatal(err)
					}
				}
			}
			rec := &recorder{t: t}
			opt.Observer = rec
			r, err := Restart(t.Context(), RestartOptions{Options: opt, Exact: c.exact})
			if c.from == 0 {
				if !job.Unrestorable(err) {
					t.Errorf("%+v, %v, want an end because of damage", r, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			starts := eventsOf[*StartEvent](rec)
			if from := starts[len(starts)-1].From; from != c.from || r.Digest != want.Digest {
				t.Errorf("from checkpoint %d with digest %s, want %d and %s", from, r.Digest, c.from, want.Digest)
			}
			if !slices.ContainsFunc(rec.warned, func(w string) bool { return strings.Contains(w, c.warned) }) {
				t.Errorf("warned %q, want %q", rec.warned, c.warned)
			}
		})
	}
}
