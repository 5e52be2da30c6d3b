package coordinator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/rank"
	"ckpt/coordinator/wire"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/zones/dmtcptest"
)

// TestMain makes the test binary serve as the process of a rank, too: ranks
// are started from the executable of their coordinator.
func TestMain(m *testing.M) {
	dmtcptest.Serve()
	if len(os.Args) > 2 && os.Args[1] == "rank" && os.Getenv(wire.EnvSocket) != "" {
		rank.Pace = testkit.Pace
		if err := rank.Run(context.Background(), rankFS(os.Args[2]), os.Getenv); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == controllerWord {
		if err := serveTurns(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "program" {
		os.Exit(runFakeProgram(os.Args[2]))
	}
	// The library zone is a small file in the place of the test binary, which
	// each job would read, hash and store.
	small, err := filepath.Abs(filepath.Join(goldenDir, "program"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	LibraryFile = small
	// Ranks end at once under the race detector too, which else sleeps for a second.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	remove := testkit.InMemory()
	fakes, err := fakesOfDMTCP()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !testkit.Nightly() { // ranks live too short for their garbage to matter
		mpi.Fallocate = func(int, uint32, int64, int64) error { return nil }
		if err := testkit.Frugal(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	testkit.Parallel()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	fakes()
	remove()
	os.Exit(code)
}

// recorder keeps the events of a job.
type recorder struct {
	t  testing.TB
	on func(any) // may be nil

	mu     sync.Mutex
	events []any
	warned []string
}

func (r *recorder) Event(ev any) {
	r.mu.Lock()
	r.events = append(r.events, ev)
	r.mu.Unlock()
	if r.on != nil {
		r.on(ev)
	}
}

func (r *recorder) Warn(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warned = append(r.warned, text)
}

// eventsOf returns the recorded events of one type.
func eventsOf[E any](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []E
	for _, ev := range r.events {
		if e, ok := ev.(E); ok {
			list = append(list, e)
		}
	}
	return list
}

// newSpec describes a run of an application for a test.
func newSpec(t testing.TB, app string, nodes int) job.Spec {
	t.Helper()
	testkit.Costly(t)
	return specOf(t, app, nodes)
}

// specOf is newSpec without its skips: other tests wait for the run of a test that has begun.
func specOf(t testing.TB, app string, nodes int) job.Spec {
	t.Helper()
	inst, err := dataset.ParseApp(app, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := job.NewSpec(inst)
	if s.Mapping, err = job.EvenMapping(s.NP, nodes); err != nil {
		t.Fatal(err)
	}
	return s
}

// resolved resolves a description; one that says little is of a coordinated job on one
// node.
func resolved(t testing.TB, s job.Spec) *job.Resolved {
	t.Helper()
	if s.MPI == "" {
		s.MPI, s.Mode, s.Mapping = "mpich", job.Coordinated, job.Mapping{s.NP}
	}
	r, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// notRaced skips a test of what is stored under the race detector, in which a process
// takes several times as long to start: all that its jobs do at the same time other tests
// have too. .ci/run names it among those that run without.
func notRaced(t *testing.T) {
	if testkit.Enabled {
		t.Skip("runs without the race detector")
	}
}

// emptyJob makes a job that has nothing yet, in a store of its own.
func emptyJob(t testing.TB, dir string) (*image.Store, *image.Job) {
	t.Helper()
	store, err := image.CreateStore(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Unlock() })
	return store, j
}

// An undisturbedRun is one that tests share.
type undisturbedRun struct {
	once   sync.Once
	result *Result
}

var undisturbedRuns sync.Map // by application, iterations and workload

// undisturbed returns the result of the same application on one node, without checkpoints
// and failures. No other setting changes its digest.
func undisturbed(t testing.TB, s job.Spec) *Result {
	t.Helper()
	entry, _ := undisturbedRuns.LoadOrStore(fmt.Sprint(s.App, s.Iterations, s.Workload), &undisturbedRun{})
	run := entry.(*undisturbedRun)
	run.once.Do(func() {
		plain := specOf(t, s.App, 1)
		plain.Iterations, plain.Workload = s.Iterations, s.Workload
		run.result, _, _ = mustLaunch(t, plain, Options{})
		if run.result.Digest == "" || run.result.Failures != 0 {
			t.Errorf("undisturbed: %+v", run.result)
		}
	})
	if run.result == nil {
		t.Fatalf("%s did not run undisturbed", s.App)
	}
	return run.result
}

// forRank has the ranks of a job find a variable in their environment.
func forRank(t testing.TB, job, name, value string) {
	t.Helper()
	name = rankVariable(job, name)
	if err := os.Setenv(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Unsetenv(name) })
}

// rankVariable is apart from those of the other tests that run.
func rankVariable(job, name string) string { return name + "_" + job }

// mustLaunch runs a job in a store of its own, or in that of opt.
func mustLaunch(t testing.TB, s job.Spec, opt Options) (*Result, *recorder, Options) {
	t.Helper()
	rec, ok := opt.Observer.(*recorder)
	if !ok {
		rec = &recorder{t: t}
		opt.Observer = rec
	}
	if opt.Store == "" {
		opt.Store = t.TempDir()
	}
	if opt.Job == "" {
		opt.Job = "job"
	}
	r, err := Launch(t.Context(), s, opt)
	if err != nil {
		t.Fatalf("launch %s: %v", s.App, err)
	}
	return r, rec, opt
}
