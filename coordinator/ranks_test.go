package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
)

// A transition is a job that restarts on another number of ranks.
type transition struct {
	app      string
	from, to int
	layout   string
}

// layoutsOf change the settings of a job.
var layoutsOf = map[string]func(*job.Spec){
	"per-rank":    func(*job.Spec) {},
	"aggregated":  func(s *job.Spec) { s.WritePath.Layout, s.WritePath.Aggregators = plan.Aggregated, min(4, s.NP) },
	"shared":      func(s *job.Spec) { s.WritePath.Layout = plan.Shared },
	"async":       func(s *job.Spec) { s.WritePath.Layout, s.Async = plan.Shared, true },
	"full":        func(s *job.Spec) { s.Incremental, s.Codec = false, codec.UseNone.String() },
	"application": func(s *job.Spec) { s.Level = job.Application },
}

// transitions are few, or with CKPT_NIGHTLY all pairs of numbers in each layout.
func transitions() []transition {
	if !testkit.Nightly() {
		return testkit.Some(3, []transition{
			{"heat", 6, 4, "aggregated"}, {"minighost", 1, 4, "application"},
			{"bt", 4, 9, "shared"}, {"lu", 6, 5, "async"}, {"cg", 4, 8, "full"},
		}...)
	}
	var list []transition
	numbers := []int{1, 4, 9, 16, 25}
	of := map[string][]int{"heat": numbers, "minighost": numbers, "bt": numbers, "sp": numbers, "lu": {1, 3, 6, 8, 16}, "cg": {1, 2, 4, 16}}
	for app, numbers := range of {
		for _, from := range numbers {
			for layout := range layoutsOf {
				for _, to := range numbers {
					list = append(list, transition{app, from, to, layout})
				}
			}
		}
	}
	return list
}

// TestOtherRanks restarts jobs on another number of ranks, kills a rank of the new run
// before or after its first checkpoint, restarts it on the old number again, and expects
// the digest of a run without either.
func TestOtherRanks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(17, 5))
	for _, c := range transitions() {
		t.Run(fmt.Sprintf("%s/%s/%d-%d", c.app, c.layout, c.from, c.to), func(t *testing.T) {
			s := newSpec(t, fmt.Sprintf("%s.S.%d", c.app, c.from), 1+rng.IntN(min(3, c.from)))
			s.Iterations, s.Schedule.Every, s.WritePath = 30, 7, plan.Defaults()
			s.WritePath.StripeSize, s.WritePath.Buffer = 64<<10, 1<<20
			layoutsOf[c.layout](&s)
			want, _, opt := mustLaunch(t, s, Options{})
			died := 8 + rng.IntN(20)
			opt.Failures = []launch.Failure{{Rank: rng.IntN(c.to), Node: -1, Iter: died}}
			rec := &recorder{t: t}
			opt.Observer = rec
			got, err := Restart(t.Context(), RestartOptions{Options: opt, Checkpoint: 1, NP: c.to, AutoRestart: true})
			if err != nil {
				t.Fatalf("rank %d dies at iteration %d: %v", opt.Failures[0].Rank, died, err)
			}
			// Sums of other parts have other rounding errors.
			if got.Digest != want.Digest || got.NP != c.to || got.Failures != 1 || math.Abs(*got.Residual / *want.Residual - 1) > 1e-9 {
				t.Errorf("rank %d died at iteration %d: %d ranks, %d failures, digest %s; want %s", opt.Failures[0].Rank, died, got.NP, got.Failures, got.Digest, want.Digest)
			}
			if ev := eventsOf[*StartEvent](rec)[0]; c.from != c.to && ev.FromNP != c.from || c.from == c.to && ev.FromNP != 0 {
				t.Errorf("the run tells of %d ranks before", ev.FromNP)
			}
			opt.Failures = nil
			back, err := Restart(t.Context(), RestartOptions{Options: opt, NP: c.from})
			if err != nil || back.Digest != want.Digest || *back.Residual != *want.Residual {
				t.Errorf("back on %d ranks: %+v, %v; want digest %s", c.from, back, err, want.Digest)
			}
			verifyAll(t, opt)
		})
	}
}

// A deal is a job of several groups that goes from one number of ranks to another, and to a third.
type deal struct {
	app      string
	mode     job.Mode
	log      string
	np, size int // ranks, and ranks of a group of Semi
	then     [2]int
}

func deals() []deal {
	list := testkit.Some(1, deal{"heat", job.Uncoordinated, "", 4, 0, [2]int{6, 1}}, deal{"bt", job.Semi, "", 4, 2, [2]int{9, 4}})
	if testkit.Nightly() {
		list = append(list, deal{"cg", job.Uncoordinated, "none", 4, 0, [2]int{2, 8}}, deal{"sp", job.Uncoordinated, "optimistic", 4, 0, [2]int{9, 1}}, deal{"lu", job.Semi, "pessimistic-sender", 6, 4, [2]int{5, 3}})
		for app, numbers := range map[string][]int{"heat": {3, 5, 8}, "minighost": {2, 4, 6}, "bt": {1, 4, 9}, "sp": {4, 9, 16}, "lu": {2, 4, 6}, "cg": {2, 4, 8}} {
			for i, np := range numbers {
				then := [2]int{numbers[(i+1)%3], numbers[(i+2)%3]}
				for _, log := range []string{"", "pessimistic-sender", "optimistic", "none"} {
					list = append(list, deal{app, job.Uncoordinated, log, np, 0, then})
				}
				list = append(list, deal{app, job.Semi, "", np, 1 + np/2, then}, deal{app, job.Semi, "pessimistic-sender", np, 1 + np/3, then})
			}
		}
	}
	return list
}

// A job of several groups dies at some iteration, goes on with other ranks, loses one of them before
// or after its first checkpoint, dies, and goes on with other ranks again. It ends as a run without
// any of this. In half of the cases a checkpoint of the last line is damaged meanwhile.
func TestOtherRanksOfGroups(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(38, 9))
	for _, c := range deals() {
		t.Run(fmt.Sprintf("%s/%s%s/%d-%v", c.app, c.mode, c.log, c.np, c.then), func(t *testing.T) {
			s := newSpec(t, fmt.Sprintf("%s.S.%d", c.app, c.np), 1)
			s.Iterations, s.Residuals = 60, 7
			want, _, _ := mustLaunch(t, s, Options{})
			s.Schedule.Every, s.Mode, s.Log, s.GroupSize = 8, c.mode, c.log, c.size
			first, second, third := 1+rng.IntN(25), 28+rng.IntN(10), 40+rng.IntN(15)
			one := c.np == 1 || c.mode == job.Semi && c.size >= c.np // has no log, and needs a sound checkpoint
			if one {
				first = 10 + rng.IntN(15)
			}
			dies := func(np, at int) launch.Failure { return launch.Failure{Rank: rng.IntN(np), Node: -1, Iter: at} }
			rec := &recorder{t: t}
			opt := Options{Store: t.TempDir(), Job: "job", Observer: rec, Failures: []launch.Failure{dies(c.np, first)}}
			if _, err := Launch(t.Context(), s, opt); !errors.As(err, new(*JobFailedError)) {
				t.Fatal(err)
			}
			if numbers := storedNumbers(t, opt); len(numbers) > 0 && !one && rng.IntN(2) == 0 {
				damaged, _ := filepath.Glob(filepath.Join(opt.Store, "jobs", opt.Job, fmt.Sprintf("%04d", slices.Max(numbers)), "rank-*.img"))
				flipByte(t, damaged[0])
			}
			opt.Failures = []launch.Failure{dies(c.then[0], second), dies(c.then[0], third)}
			_, err := Restart(t.Context(), RestartOptions{Options: opt, NP: c.then[0]})
			if !errors.As(err, new(*JobFailedError)) {
				t.Fatalf("rank %d dies at %d, after one at %d: %v\n%s", opt.Failures[0].Rank, second, first, err, strings.Join(rec.warned, "\n"))
			}
			verifyAll(t, opt)
			opt.Failures = []launch.Failure{dies(c.then[1], third+1)}
			got, err := Restart(t.Context(), RestartOptions{Options: opt, NP: c.then[1], AutoRestart: true})
			if err != nil || got.Digest != want.Digest || got.NP != c.then[1] {
				t.Errorf("deaths at %d, %d, %d: %+v, %v; want digest %s", first, second, third+1, got, err, want.Digest)
			}
			verifyAll(t, opt)
			checkOutputs(t, &s, eventsOf[*job.OutputEvent](rec))
		})
	}
}

// A damager damages a file of each checkpoint from a number on.
type damager struct {
	*recorder
	dir  string
	from int
}

func (d damager) Event(ev any) {
	if c, ok := ev.(*job.CheckpointEvent); ok && c.Number >= d.from {
		flipByte(d.t, filepath.Join(d.dir, fmt.Sprintf("%04d", c.Number), "rank-0.img"))
	}
	d.recorder.Event(ev)
}

func flipByte(t testing.TB, name string) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, 4100); err != nil {
		t.Error(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b, 4100); err != nil {
		t.Error(err)
	}
}

// A run whose own checkpoint is damaged falls back to one of another number of ranks.
func TestFallBackToOtherRanks(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "heat.S.4", 2)
	s.Iterations, s.Schedule.Every = 30, 7
	want, _, opt := mustLaunch(t, s, Options{})
	rec := &recorder{t: t}
	opt.Observer = damager{rec, filepath.Join(opt.Store, "jobs", opt.Job), 5}
	opt.Failures = []launch.Failure{{Rank: 2, Node: -1, Iter: 18}}
	got, err := Restart(t.Context(), RestartOptions{Options: opt, Checkpoint: 1, NP: 6, AutoRestart: true})
	if err != nil || got.Digest != want.Digest {
		t.Fatalf("%+v, %v; want digest %s", got, err, want.Digest)
	}
	starts := eventsOf[*StartEvent](rec)
	last := starts[len(starts)-1]
	if last.From != 1 || last.FromNP != 4 || last.NP != 6 {
		t.Errorf("the last start is of %d ranks from checkpoint %d of %d, want 6 from 1 of 4", last.NP, last.From, last.FromNP)
	}
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	if run, err := job.MeasureRun(j); err != nil || len(run.Checkpoints) != 4 || run.Checkpoints[3].Number != 4 {
		t.Errorf("measured are %d checkpoints, %v; want the 4 of the launch", len(run.Checkpoints), err)
	}
}

// A user who restarts a job whose newest checkpoints are damaged gets the newest sound one, on any
// number of ranks and in any layout, and hears of it. Exactly the newest, a number, and a job
// without a sound checkpoint end in the error of the damage.
func TestUserFallsBack(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(38, 4))
	files := map[plan.Layout]string{plan.PerRank: "rank-0.img", plan.Shared: "job.img", plan.Aggregated: "aggregator-0.img"}
	for layout, file := range files {
		t.Run(string(layout), func(t *testing.T) {
			s := newSpec(t, "heat.S.4", 2)
			s.Iterations, s.Schedule.Every, s.Keep = 30, 7, 4
			if layout != plan.PerRank {
				s.WritePath = plan.Defaults()
				s.WritePath.StripeSize, s.WritePath.Buffer = 64<<10, 1<<20
				layoutsOf[string(layout)](&s)
			}
			want, _, opt := mustLaunch(t, s, Options{})
			dir := filepath.Join(opt.Store, "jobs", opt.Job)
			bad := 2 + rng.IntN(3) // it and all that follow
			for n := bad; n <= 4; n++ {
				name := file
				if n == 4 && bad < 4 {
					name = "manifest"
				}
				damage := filepath.Join(dir, fmt.Sprintf("%04d", n), name)
				switch name {
				case "rank-0.img", "aggregator-0.img":
					flipByte(t, damage)
				default: // a byte could be one that nobody reads
					if err := os.Truncate(damage, 100); err != nil {
						t.Fatal(err)
					}
				}
			}
			exact := RestartOptions{Options: opt, Exact: true}
			exact.Observer = &recorder{t: t}
			if _, err := Restart(t.Context(), exact); !job.Unrestorable(err) {
				t.Errorf("exactly the newest: %v, want damage", err)
			}
			exact.Checkpoint, exact.Exact = bad, false
			if _, err := Restart(t.Context(), exact); !job.Unrestorable(err) {
				t.Errorf("checkpoint %d: %v, want damage", bad, err)
			}
			rec := &recorder{t: t}
			opt.Observer = rec
			np := 1 + rng.IntN(6)
			got, err := Restart(t.Context(), RestartOptions{Options: opt, NP: np})
			if err != nil || got.Digest != want.Digest || got.Failures != 0 {
				t.Fatalf("%d ranks: %+v, %v; want digest %s", np, got, err, want.Digest)
			}
			starts := eventsOf[*StartEvent](rec)
			if last := starts[len(starts)-1]; last.From != bad-1 || last.NP != np {
				t.Errorf("%d ranks resume from checkpoint %d, want %d from %d", last.NP, last.From, np, bad-1)
			}
		})
	}
	s := newSpec(t, "heat.S.2", 1)
	s.Iterations, s.Schedule.Every = 8, 5
	_, _, opt := mustLaunch(t, s, Options{})
	opt.Observer = &recorder{t: t}
	flipByte(t, filepath.Join(opt.Store, "jobs", opt.Job, "0001", "rank-0.img"))
	if _, err := Restart(t.Context(), RestartOptions{Options: opt}); !job.Unrestorable(err) {
		t.Errorf("the only checkpoint: %v, want damage", err)
	}
}

// No new rank needs all that the old ranks have; the rest is checked, too.
func TestUnneededDamage(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "heat.S.4", 1)
	s.Iterations, s.Schedule.Every, s.Codec, s.Incremental = 30, 7, codec.UseNone.String(), false
	_, _, opt := mustLaunch(t, s, Options{})
	opt.Observer = &recorder{t: t}
	// The runtime region of rank 3 is the last page before the index.
	name := filepath.Join(opt.Store, "jobs", opt.Job, "0004", "rank-3.img")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := binary.LittleEndian.Uint64(b[len(b)-4096+16:]) - 4096 // before the index
	b[at] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restart(t.Context(), RestartOptions{Options: opt, NP: 2, Exact: true}); err == nil || !job.Unrestorable(err) || !strings.Contains(err.Error(), "rank-3.img") {
		t.Errorf("the damage was not found: %v", err)
	}
}

// Wrong use is told before anything starts, in words that help.
func TestWrongRanks(t *testing.T) {
	t.Parallel()
	launch := func(app string, change func(*job.Spec)) Options {
		s := newSpec(t, app, 1)
		s.Iterations, s.Schedule.Every = 8, 4
		change(&s)
		_, _, opt := mustLaunch(t, s, Options{})
		opt.Observer = &recorder{t: t}
		return opt
	}
	half := func(s *job.Spec) {
		s.Workload = strings.Replace(s.Workload, "messages:", "  - {name: own, elem: float64, count: 5}\nmessages:", 1)
	}
	for _, c := range []struct {
		app    string
		change func(*job.Spec)
		np     int
		want   string
	}{
		{"sp.S.4", func(*job.Spec) {}, 8, "8 processes are not possible (rule: square)"},
		{"bt.S.4", func(*job.Spec) {}, 49, "too small for 7 cells of 2"},
		{"sp.S.4", func(s *job.Spec) {
			s.Workload = regexp.MustCompile(`,\s+blocks: .*}`).ReplaceAllString(s.Workload, "}")
		}, 9, `array "u" of sp is neither global nor replicated`},
		{"dl.S.4", func(s *job.Spec) { s.Level = job.Application }, 3, "the ranks of dl hold no array together"},
		{"heat.S.4", half, 3, `array "own" of heat is neither global nor replicated`},
		{"ring.S.4", func(s *job.Spec) { s.Mode, s.GroupSize = job.Semi, 2 }, 3, `array "state" of ring is neither global nor replicated`},
		{"bt.S.4", func(s *job.Spec) { s.Mode = job.Uncoordinated }, 3, "3 processes are not possible"},
		{"heat.S.4", func(*job.Spec) {}, 191, "187 elements on 191 ranks"},
	} {
		opt := launch(c.app, c.change)
		if _, err := Restart(t.Context(), RestartOptions{Options: opt, NP: c.np}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %d ranks: %v, want %q", c.app, c.np, err, c.want)
		}
	}
}

// A rank that restarts opens each file once, whatever of it is needed.
func TestRestartOpensOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*job.Spec){
		"per-rank":    func(s *job.Spec) { s.Incremental = true },
		"shared":      layoutsOf["shared"],
		"application": func(s *job.Spec) { s.Level = job.Application },
		"groups":      func(s *job.Spec) { s.Mode, s.GroupSize = job.Semi, 2 },
	} {
		for _, np := range []int{4, 6} {
			if np == 6 && name == "groups" {
				continue // it resumes on 4 first
			}
			s := newSpec(t, "heat.S.4", 2)
			s.Iterations, s.Schedule.Every, s.Trace = 20, 7, true
			change(&s)
			_, _, opt := mustLaunch(t, s, Options{})
			opt.Observer = &recorder{t: t}
			if _, err := Restart(t.Context(), RestartOptions{Options: opt, NP: np}); err != nil {
				t.Fatal(err)
			}
			_, j := storedJobOf(t, opt)
			trace, err := iotrace.ReadFile(job.RestartTracePath(j))
			if err != nil {
				t.Fatal(err)
			}
			opened := map[[2]int32]int{}
			for _, e := range trace.Events {
				if e.Op == iotrace.Open {
					opened[[2]int32{e.Rank, e.File}]++
				}
			}
			if len(opened) == 0 {
				t.Errorf("%s on %d: nothing was opened", name, np)
			}
			for of, n := range opened {
				if path := trace.Files[of[1]]; n > 1 && strings.HasSuffix(path, ".img") {
					t.Errorf("%s on %d: rank %d opened %s %d times", name, np, of[0], path, n)
				}
			}
		}
	}
}
