package coordinator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
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
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/iosched"
	"ckpt/image/nodes"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
)

// serveTurns is a controller in a process of its own. Its lease is long: no test waits for
// the end of one, and on a busy machine a holder may be silent for longer than by default.
func serveTurns(dir string) error {
	return turns.Serve(context.Background(), dir, turns.ServeOptions{Arbiter: iosched.TurnOptions{Window: 50 * time.Millisecond, Lease: time.Minute}, IdleExit: time.Minute})
}

// controllerWord has the test binary be a controller.
const controllerWord = "serve-turns"

// startController starts a controller for a store. Stop kills it.
func startController(t testing.TB, dir string) (stop func()) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], controllerWord, dir)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	t.Cleanup(stop)
	for {
		if _, err := turns.Ask(t.Context(), dir); err == nil {
			return stop
		} else if !errors.Is(err, turns.ErrNone) {
			t.Fatal(err)
		}
		if c.ProcessState != nil {
			t.Fatal("the controller has ended")
		}
		time.Sleep(time.Millisecond)
	}
}

// intruder takes the storage of a store, until it is let go.
func intruder(t testing.TB, dir string) (letGo func()) {
	t.Helper()
	c := turns.NewClient(dir, turns.Who{App: "intruder"}, turns.ClientOptions{})
	turn := c.Begin(turns.Burst{Kind: turns.Command, Bytes: -1})
	if err := turn.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	letGo = sync.OnceFunc(func() {
		if r := turn.End(); r.Passed != "" {
			t.Errorf("the intruder has passed without a turn: %s", r.Passed)
		}
		c.Close()
	})
	t.Cleanup(letGo)
	return letGo
}

// waitsFor waits until so many bursts wait for their turns.
func waitsFor(t testing.TB, dir string, n int) {
	t.Helper()
	for waiting := 0; waiting < n; time.Sleep(time.Millisecond) {
		s, err := turns.Ask(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		waiting = 0
		for _, a := range s.Apps {
			waiting += a.Waiting
		}
	}
}

// allWait waits until so many bursts wait, and gives those who asked for them the time to come
// to their first reads or writes, which wait then.
func allWait(t testing.TB, dir string, n int) {
	t.Helper()
	waitsFor(t, dir, n)
	time.Sleep(map[bool]time.Duration{false: time.Second, true: 4 * time.Second}[testkit.Enabled])
}

// envOrder is a file in which the ranks of a test note when they begin and end to write.
const envOrder = "CKPT_TEST_ORDER"

// An orderDisk notes when long writes begin and end, in the order in which all processes do
// so: the file is appended to.
type orderDisk struct {
	vfs.Buffered
	log *os.File
}

var orderNumber atomic.Int64

func newOrderDisk(path string) vfs.FS {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return orderDisk{vfs.Through(vfs.OS{}), f}
}

func (d orderDisk) Create(name string) (vfs.File, error)    { return d.file(name, d.FS.Create) }
func (d orderDisk) OpenWrite(name string) (vfs.File, error) { return d.file(name, d.FS.OpenWrite) }

func (d orderDisk) file(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	_, of, _ := strings.Cut(name, "/jobs/")
	of, _, _ = strings.Cut(of, "-")
	return orderedFile{vfs.Only(f), d, of}, nil
}

type orderedFile struct {
	vfs.Plain
	disk orderDisk
	job  string
}

func (f orderedFile) WriteAt(b []byte, off int64) (int, error) {
	if len(b) < turns.Threshold {
		return f.File.WriteAt(b, off)
	}
	id := fmt.Sprintf("%d.%d", os.Getpid(), orderNumber.Add(1))
	fmt.Fprintf(f.disk.log, "begin %s %s\n", f.job, id)
	defer func() { fmt.Fprintf(f.disk.log, "end %s %s\n", f.job, id) }()
	return f.File.WriteAt(b, off)
}

// checkOrder checks that no write of a job was begun while one of another was under way.
func checkOrder(t *testing.T, path string) (writes map[string]int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	open, writes := map[string]string{}, map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var what, of, id string
		if n, _ := fmt.Sscan(s.Text(), &what, &of, &id); n != 3 {
			t.Fatalf("line %q", s.Text())
		}
		if what == "end" {
			delete(open, id)
			continue
		}
		writes[of]++
		for _, other := range open {
			if other != of {
				t.Fatalf("job %s has begun to write while job %s did (write %s)", of, other, id)
			}
		}
		open[id] = of
	}
	return writes
}

// TestTurnsTwoJobs runs two jobs in one store. The storage is taken when they begin to write
// their first checkpoints, so that both wait. Then the writes of one never overlap those of
// the other, whatever the layout, and each trace has its waits.
func TestTurnsTwoJobs(t *testing.T) {
	t.Parallel()
	for _, layout := range testkit.Some(2, plan.PerRank, plan.Aggregated, plan.Shared) {
		for _, async := range []bool{false, true} {
			if !testkit.Nightly() && async != (layout == plan.Shared) {
				continue
			}
			t.Run(fmt.Sprintf("%s,async=%v", layout, async), func(t *testing.T) { twoJobs(t, layout, async) })
		}
	}
}

func twoJobs(t *testing.T, layout plan.Layout, async bool) {
	t.Parallel()
	dir, order := t.TempDir(), filepath.Join(t.TempDir(), "order")
	startController(t, dir)
	letGo := intruder(t, dir)
	var running sync.WaitGroup
	for _, app := range []string{"bt", "lu"} {
		s := newSpec(t, app+".S.4", 2)
		s.Iterations = 12 // few are enough
		want := undisturbed(t, s)
		s.Codec, s.Incremental, s.Async, s.StorageTurns = "none", false, async, job.UseTurns
		s.Schedule.Every = max(1, s.Iterations/6)
		if layout != plan.PerRank {
			s.WritePath = plan.Defaults()
			s.WritePath.Layout = layout
		}
		opt := Options{Store: dir, Job: fmt.Sprintf("%s-%s-%v", app, layout, async), FS: newOrderDisk(order)}
		forRank(t, opt.Job, envOrder, order)
		running.Go(func() {
			rec := &recorder{t: t}
			opt.Observer = rec
			r, err := Launch(t.Context(), s, opt)
			if err != nil {
				t.Errorf("%s: %v", app, err)
				return
			}
			taken := eventsOf[*job.CheckpointEvent](rec)
			if r.Digest != want.Digest || r.Lost > 0 || len(taken) < 5 {
				t.Errorf("%s: %d checkpoints, %d lost, digest %s, want %s", app, len(taken), r.Lost, r.Digest, want.Digest)
			}
			checkWaited(t, opt, rec)
		})
	}
	allWait(t, dir, 8)
	letGo()
	running.Wait()
	if writes := checkOrder(t, order); writes["bt"] == 0 || writes["lu"] == 0 {
		t.Errorf("writes %v, want some of bt and lu", writes)
	}
}

// checkWaited checks that the first checkpoint of a job says that it waited, in its event,
// its manifest and its trace, and that none of the parts of its latency counts the wait.
func checkWaited(t *testing.T, opt Options, rec *recorder) {
	t.Helper()
	ev := eventsOf[*job.CheckpointEvent](rec)[0]
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Error(err)
		return
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Error(err)
		return
	}
	m, err := j.Manifest(ev.Number)
	if err != nil {
		t.Error(err)
		return
	}
	l := ev.Latency
	if ev.TurnWait <= 0 || m.TurnWait <= 0 || m.TurnWait > ev.TurnWait || l.Coordination+l.Management+l.Storage > l.Total-ev.TurnWait+1e-6 {
		t.Errorf("%s: waited %v, the manifest says %v, latency %+v", opt.Job, ev.TurnWait, m.TurnWait, l)
	}
	f, err := os.Open(job.TracePath(j, ev.Number))
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	tr, _, err := iotrace.Import(f, iotrace.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	waits := 0
	for _, e := range tr.Events {
		if e.Op == iotrace.LockWait && e.End > e.Start {
			waits++
		}
	}
	if waits == 0 {
		t.Errorf("%s: the trace of checkpoint %d has no wait", opt.Job, ev.Number)
	}
	if told := eventsOf[*TurnsEvent](rec); len(told) != 1 || told[0].Unit != opt.Store || told[0].Reason != "" {
		t.Errorf("%s: told %+v of the turns", opt.Job, told)
	}
}

// TestTurnsWithout: a job that is to take turns, on a storage without a controller, says so
// once and runs as any other.
func TestTurnsWithout(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "bt.S.4", 2)
	s.Schedule.Every = 10
	want := undisturbed(t, s)
	s.StorageTurns = job.UseTurns
	r, rec, opt := mustLaunch(t, s, Options{})
	told := eventsOf[*TurnsEvent](rec)
	if r.Digest != want.Digest || r.Checkpoints != 5 || len(told) != 1 || told[0].Reason == "" || told[0].Unit != "" {
		t.Errorf("%d checkpoints, want 5; digest %s, want %s; told %+v", r.Checkpoints, r.Digest, want.Digest, told)
	}
	// A restart takes turns as launched, unless it is told otherwise.
	for i, taken := range []*job.StorageTurns{nil, new(job.StorageTurns)} {
		rec := &recorder{t: t}
		opt.Observer = rec
		if _, err := Restart(t.Context(), RestartOptions{Options: opt, StorageTurns: taken}); err != nil {
			t.Fatal(err)
		}
		if got := len(eventsOf[*TurnsEvent](rec)); got != 1-i {
			t.Errorf("restart %d has told of its turns %d times, want %d", i, got, 1-i)
		}
	}
}

// TestTurnsAuto: a job starts the controller, and finds one that is there.
func TestTurnsAuto(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "bt.S.4", 2)
	s.Schedule.Every, s.StorageTurns = 10, job.AutoTurns
	opt := Options{Store: t.TempDir(), StartTurns: func(_ context.Context, dir string) error { startController(t, dir); return nil }}
	for i, name := range []string{"first", "second"} {
		opt.Job, opt.Observer = name, nil
		_, rec, _ := mustLaunch(t, s, opt)
		if told := eventsOf[*TurnsEvent](rec); len(told) != 1 || told[0].Unit != opt.Store || told[0].Started != (i == 0) {
			t.Errorf("%s: told %+v", name, told)
		}
	}
	opt.Store, opt.Job, opt.StartTurns = t.TempDir(), "third", func(context.Context, string) error { return errors.New("no") }
	_, rec, _ := mustLaunch(t, s, opt)
	if told := eventsOf[*TurnsEvent](rec); len(told) != 1 || !strings.Contains(told[0].Reason, "no") {
		t.Errorf("told %+v, want the reason", told)
	}
}

// TestTurnsRestart: the reads of a restart wait for their turn, and its record says so.
func TestTurnsRestart(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "bt.S.4", 2)
	s.Schedule.Every, s.StorageTurns, s.Codec = 20, job.UseTurns, "none"
	want, _, opt := mustLaunch(t, s, Options{})
	startController(t, opt.Store)
	letGo := intruder(t, opt.Store)
	rec := &recorder{t: t}
	opt.Observer = rec
	var r *Result
	var err error
	var running sync.WaitGroup
	running.Go(func() { r, err = Restart(t.Context(), RestartOptions{Options: opt}) })
	allWait(t, opt.Store, 4)
	letGo()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if r.Digest != want.Digest {
		t.Errorf("digest %s, want %s", r.Digest, want.Digest)
	}
	if list := eventsOf[*job.RestartedEvent](rec); len(list) != 1 || list[0].TurnWait <= 0 || list[0].TurnWait > list[0].Seconds {
		t.Errorf("restarted %+v, want a wait", list)
	}
}

// TestTurnsDrain: a checkpoint goes to the nodes without a turn. Its copy into the store waits
// for one, and the event says so.
func TestTurnsDrain(t *testing.T) {
	t.Parallel()
	for pause := time.Second; ; pause *= 4 {
		last := drainTurns(t, pause)
		if last.Level != nodes.Stored || last.TurnWait > last.Seconds {
			t.Fatalf("last level %+v, want stored", last)
		}
		// On a busy machine ranks may come to their first writes only after the turn was let go.
		if last.TurnWait > 0 {
			return
		}
		if pause > time.Minute {
			t.Fatalf("last level %+v, want stored after a wait", last)
		}
	}
}

// drainTurns has ranks drain a checkpoint while another application has the turn, for a while after
// all have asked for it, and returns the last event of the version.
func drainTurns(t *testing.T, pause time.Duration) *levels.LevelEvent {
	s := tiered(t, "bt.S.4", 2, "partner", "behind")
	s.Schedule.Count, s.StorageTurns, s.LibraryOnce, s.Codec = 1, job.UseTurns, false, "none"
	opt := Options{Store: t.TempDir()}
	startController(t, opt.Store)
	letGo := intruder(t, opt.Store)
	rec := &recorder{t: t}
	opt.Observer = rec
	var waiting sync.WaitGroup
	waiting.Go(func() {
		waitsFor(t, opt.Store, 4)
		time.Sleep(pause)
		letGo()
	})
	r, _, opt := mustLaunch(t, s, opt)
	waiting.Wait()
	if r.Checkpoints != 1 || !slices.Contains(storedNumbers(t, opt), 1) {
		t.Errorf("result %+v, want a checkpoint in the store", r)
	}
	verifyAll(t, opt)
	list := eventsOf[*levels.LevelEvent](rec)
	return list[len(list)-1]
}

// TestTurnsStall: a rank that waits for its turn is neither dead nor stuck, however long.
func TestTurnsStall(t *testing.T) {
	t.Parallel()
	for _, layout := range []plan.Layout{plan.PerRank, plan.Shared} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, "bt.S.4", 2)
			s.Schedule.Count, s.StorageTurns, s.Codec = 1, job.UseTurns, "none"
			if layout == plan.Shared {
				s.WritePath = plan.Defaults()
				s.WritePath.Layout = layout
			}
			opt := Options{Store: t.TempDir(), Limits: protocol.DefaultLimits}
			opt.Limits.Phase = 5 * time.Second
			startController(t, opt.Store)
			letGo := intruder(t, opt.Store)
			var running sync.WaitGroup
			running.Go(func() {
				waitsFor(t, opt.Store, 1)
				time.Sleep(opt.Limits.Phase * 3 / 2) // a rank that does nothing counts as stuck by then
				if store, err := image.OpenStore(vfs.OS{}, opt.Store); err != nil {
					t.Error(err)
				} else if s, err := wire.Inspect(t.Context(), store, "job"); err != nil || !strings.HasSuffix(s.Phase, "waits for its turn") {
					t.Errorf("status %+v, error %v, want a phase that says that the job waits", s, err)
				}
				letGo()
			})
			r, _, _ := mustLaunch(t, s, opt)
			running.Wait()
			if r.Checkpoints != 1 || r.Lost != 0 || r.Failures != 0 {
				t.Errorf("result %+v, want 1 checkpoint", r)
			}
		})
	}
}

// TestTurnsSameDigest runs two jobs side by side, whose ranks, controllers and whole runs are
// killed at seeded random times. Each ends with the digest of a run without failures. The
// nightly form is CKPT_TURNS_RUNS=300.
func TestTurnsSameDigest(t *testing.T) {
	t.Parallel()
	apps := []string{"bt.S.4", "lu.S.4", "cg.S.4", "ring.S.4"}
	runs := runsOf(t, "CKPT_TURNS_RUNS", 1)
	var failures, waited, passed atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d failures, %d checkpoints waited, %d notices without a controller", failures.Load(), waited.Load(), passed.Load())
		if failures.Load() < int64(runs)/4 {
			t.Errorf("%d failures in %d runs prove little", failures.Load(), runs)
		}
	})
	for seed := range runs {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(uint64(seed), 19))
			dir := t.TempDir()
			longest := time.Duration(0)
			var running, disturbing sync.WaitGroup
			over := make(chan struct{})
			disturber := rand.New(rand.NewPCG(rng.Uint64(), 19))
			for i := range 2 {
				app := apps[rng.IntN(len(apps))]
				plain := newSpec(t, app, 2)
				plain.Iterations = usually(plain.Iterations)
				want := undisturbed(t, plain)
				longest = max(longest, wallOf(want))
				own := rand.New(rand.NewPCG(rng.Uint64(), 19))
				running.Go(func() {
					v := &victimJob{rng: own, app: app, name: fmt.Sprintf("job%d", i), dir: dir, iterations: plain.Iterations, length: wallOf(want)}
					if got := v.run(t); got != want.Digest {
						t.Errorf("%s: digest %s, without failures %s", app, got, want.Digest)
					}
					failures.Add(int64(v.failures))
					waited.Add(int64(v.waited))
					passed.Add(int64(v.passed))
				})
			}
			disturbing.Go(func() { disturb(t, disturber, dir, longest, over) })
			running.Wait()
			close(over)
			disturbing.Wait()
		})
	}
}

// disturb lets controllers come and die, and others take the storage, until it is over.
func disturb(t *testing.T, rng *rand.Rand, dir string, length time.Duration, over <-chan struct{}) {
	for {
		stop := startController(t, dir)
		letGo := func() {}
		if rng.IntN(2) == 0 {
			c := turns.NewClient(dir, turns.Who{App: "intruder"}, turns.ClientOptions{})
			turn := c.Begin(turns.Burst{Kind: turns.Command, Bytes: -1})
			ctx, cancel := context.WithCancel(context.Background())
			held := make(chan struct{})
			go func() { defer close(held); _ = turn.Await(ctx, 1) }()
			letGo = func() { cancel(); <-held; turn.End(); c.Close() }
		}
		select {
		case <-over:
			letGo()
			stop()
			return
		case <-time.After(time.Duration(rng.Int64N(int64(length)))):
		}
		if rng.IntN(2) == 0 {
			stop()
			letGo()
		} else {
			letGo()
			select {
			case <-over:
			case <-time.After(time.Duration(rng.Int64N(int64(length)))):
			}
			stop()
		}
	}
}

// A victimJob is a job that failures of all kinds meet.
type victimJob struct {
	rng                      *rand.Rand
	app, name, dir           string
	iterations               int
	length                   time.Duration
	failures, waited, passed int
}

// spec chooses how the job runs.
func (v *victimJob) spec(t *testing.T) job.Spec {
	s := newSpec(t, v.app, 2)
	s.Iterations = v.iterations
	s.Schedule.Every = max(1, s.Iterations/10+v.rng.IntN(s.Iterations/4))
	s.AutoRestart, s.StorageTurns = v.rng.IntN(4) > 0, job.UseTurns
	switch v.rng.IntN(5) {
	case 0:
		s = tiered(t, v.app, 2, "partner", "behind")
		s.Iterations = v.iterations
		s.Schedule.Every, s.StorageTurns, s.AutoRestart = max(1, s.Iterations/8), job.UseTurns, true
		s.Async = v.rng.IntN(3) == 0
	case 1:
		s.Mode = job.Uncoordinated
		s.Codec, s.Async = "none", v.rng.IntN(2) == 0
	default:
		anyWritePath(v.rng, &s)
		s.Incremental = v.rng.IntN(2) == 0
	}
	return s
}

// run runs the job until it is completed, however often a user has to restart it, and
// returns its digest.
func (v *victimJob) run(t *testing.T) string {
	s := v.spec(t)
	rec := &recorder{t: t}
	opt := Options{Store: v.dir, Job: v.name, Observer: rec}
	for range 1 + v.rng.IntN(2) {
		f := launch.Failure{Rank: v.rng.IntN(s.NP), Node: -1}
		if v.rng.IntN(2) == 0 {
			f.After = time.Duration(v.rng.Int64N(int64(2 * v.length)))
		} else {
			f.Iter = 1 + v.rng.IntN(s.Iterations)
		}
		opt.Failures = append(opt.Failures, f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if v.rng.IntN(3) == 0 { // the whole job dies
		defer time.AfterFunc(time.Duration(v.rng.Int64N(int64(2*v.length))), cancel).Stop()
	}
	r, err := Launch(ctx, s, opt)
	for tries := 0; err != nil && tries < 20; tries++ {
		v.failures++
		opt.Failures = nil
		if r, err = Restart(t.Context(), RestartOptions{Options: opt}); err != nil && !restartable(err) {
			opt.Job += "x"
			r, err = Launch(t.Context(), s, opt)
		}
	}
	if err != nil {
		t.Errorf("%s: %v", v.app, err)
		return ""
	}
	v.failures += r.Failures
	for _, ev := range eventsOf[*job.CheckpointEvent](rec) {
		if ev.TurnWait > 0 {
			v.waited++
		}
	}
	for _, ev := range eventsOf[*TurnsEvent](rec) {
		if ev.Reason != "" {
			v.passed++
		}
	}
	verifyAll(t, opt)
	return r.Digest
}

// restartable reports whether a job that did not end can be restarted once more.
func restartable(err error) bool {
	var failed *JobFailedError
	return errors.As(err, &failed) && failed.Restartable
}

// BenchmarkTurnsAlone compares the time of a job that is alone on a storage with a controller
// with that of the same job without turns: lost is to be at most 0.02.
func BenchmarkTurnsAlone(b *testing.B) {
	s := newSpec(b, "bt.A.4", 2)
	s.Codec, s.Incremental, s.Iterations, s.Schedule.Every = "none", false, 40, 4
	var with, without []float64
	opt := Options{Store: b.TempDir()}
	startController(b, opt.Store)
	for i := range b.N {
		for k, taken := range []job.StorageTurns{job.UseTurns, job.NoTurns} {
			s.StorageTurns = taken
			opt.Job, opt.Observer = fmt.Sprintf("job%d-%d", i, k), &recorder{t: b}
			_, rec, _ := mustLaunch(b, s, opt)
			pause := 0.0
			for _, ev := range eventsOf[*job.CheckpointEvent](rec) {
				pause += ev.Latency.Total
			}
			if k == 0 {
				with = append(with, pause)
			} else {
				without = append(without, pause)
			}
			if err := os.RemoveAll(filepath.Join(opt.Store, "jobs", opt.Job)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				b.Fatal(err)
			}
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	b.ReportMetric(with[len(with)/2]/without[len(without)/2]-1, "lost")
	b.ReportMetric(with[len(with)/2], "with-s")
	b.ReportMetric(without[len(without)/2], "without-s")
}

// TestTurnsAbort: ranks that wait for their turn end when the checkpoint is aborted, although
// others keep the storage, and the job goes on.
func TestTurnsAbort(t *testing.T) {
	t.Parallel()
	for _, layout := range []plan.Layout{plan.PerRank, plan.Shared} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			opt := Options{Store: t.TempDir(), Job: "aborted-" + string(layout)}
			forRank(t, opt.Job, envFault, "1:1:1") // rank 1 cannot open its file
			s := newSpec(t, "bt.S.4", 2)
			s.Schedule.Count, s.StorageTurns, s.LibraryOnce, s.Codec = 2, job.UseTurns, false, "none"
			if layout == plan.Shared {
				s.WritePath = plan.Defaults()
				s.WritePath.Layout, s.WritePath.Strategy = layout, plan.Individual
			}
			want := undisturbed(t, s)
			startController(t, opt.Store)
			letGo := intruder(t, opt.Store)
			rec := &recorder{t: t, on: func(ev any) {
				if _, aborted := ev.(*AbortedEvent); aborted {
					letGo() // not before: else nothing would wait
				}
			}}
			opt.Observer = rec
			r, _, opt := mustLaunch(t, s, opt)
			if r.Digest != want.Digest || r.Lost != 1 || r.Checkpoints != 1 || r.Failures != 0 {
				t.Errorf("result %+v, want 1 checkpoint, 1 lost and digest %s", r, want.Digest)
			}
			verifyAll(t, opt)
		})
	}
}
