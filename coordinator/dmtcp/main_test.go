package dmtcp_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ckpt/coordinator"
	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	imagedmtcp "ckpt/image/dmtcp"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/zones/dmtcptest"
)

// realPath has no fake.
var realPath = os.Getenv("PATH")

func TestMain(m *testing.M) {
	dmtcptest.Serve()
	serveCoordinator()
	// Programs with the race detector take a second to exit otherwise.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	// Beside the test: go removes that also if the test is ended.
	bin, err := os.MkdirTemp(filepath.Dir(os.Args[0]), "dmtcp")
	if err != nil {
		bin, err = os.MkdirTemp("", "dmtcp")
	}
	if err == nil {
		err = dmtcptest.Install(bin)
	}
	if err == nil {
		err = os.Setenv("PATH", bin+":"+realPath)
	}
	if err != nil {
		panic(err)
	}
	testkit.Parallel()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(bin)
		os.Exit(code)
	}))
}

// recorder keeps the events of a job, and tells of each.
type recorder struct {
	mu     sync.Mutex
	events []any
	warned []string
	on     func(any) // may be nil
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

// of returns the recorded events of one type.
func of[E any](r *recorder) []E {
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

// a scene is a program under a faked DMTCP, in a store of its own.
type scene struct {
	t      *testing.T
	rec    *recorder
	opt    coordinator.Options
	spec   job.Spec
	out    string // file with the output of the program
	faults string // file with the faults of DMTCP
}

// newScene sets up a program that counts.
func newScene(t *testing.T, steps int, pause time.Duration) *scene {
	t.Helper()
	testkit.Costly(t)
	dir := t.TempDir()
	s := &scene{t: t, rec: &recorder{}, out: filepath.Join(dir, "out"), faults: filepath.Join(dir, "faults")}
	s.spec = job.Spec{ID: image.NewID(), App: "count", Mode: job.Coordinated, Created: time.Now(),
		Program: &job.Program{Command: []string{"count", fmt.Sprint(steps), pause.String()}, Dir: dir}}
	out, err := os.Create(s.out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	s.opt = coordinator.Options{Store: filepath.Join(dir, "store"), Job: "job", Observer: s.rec,
		Streams: launch.Streams{Out: out, Err: os.Stderr}, DMTCP: dmtcp.Options{Settle: 20 * time.Millisecond, Environ: s.environ}}
	s.opt.Limits = protocol.Limits{Silence: 10 * time.Second, Patience: 20 * time.Second, Restarts: 10}
	return s
}

// environ is the environment of the program.
func (s *scene) environ() []string {
	return append(os.Environ(), "FAKE_DMTCP="+s.faults,
		"DMTCP_CHECKPOINT_INTERVAL=1", "DMTCP_COORD_PORT=7779") // of the user's shell: to be cleared
}

// show has DMTCP show faults from now on.
func (s *scene) show(faults ...string) {
	s.t.Helper()
	tmp := s.faults + ".new"
	if err := os.WriteFile(tmp, []byte(strings.Join(faults, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(tmp, s.faults); err != nil {
		s.t.Fatal(err)
	}
}

// job returns the job of the store.
func (s *scene) job() *image.Job {
	s.t.Helper()
	store, err := image.OpenStore(vfs.OS{}, s.opt.Store)
	if err != nil {
		s.t.Fatal(err)
	}
	j, err := store.Job("job")
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// hold keeps the program from counting.
func (s *scene) hold() {
	s.t.Helper()
	if err := os.WriteFile(s.faults+dmtcptest.Hold, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// letGo has the program count again.
func (s *scene) letGo() {
	s.t.Helper()
	if err := os.Remove(s.faults + dmtcptest.Hold); err != nil {
		s.t.Error(err)
	}
}

// onFailure calls f when the program has failed. The program counts once it was seen to compute: one
// that fails before is not restarted.
func (s *scene) onFailure(f func()) {
	s.hold()
	first := true
	s.rec.on = func(ev any) {
		switch ev.(type) {
		case *coordinator.StartEvent:
			if first {
				s.letGo()
			}
			first = false
		case *coordinator.FailureEvent:
			f()
		}
	}
}

// atStart calls f in a goroutine once the program has started, with a client of the job.
// The program counts when f is done.
func (s *scene) atStart(f func(c *wire.Client)) (wait func()) {
	s.hold()
	over, once := make(chan struct{}), sync.Once{}
	var started atomic.Bool
	s.rec.on = func(ev any) {
		if _, ok := ev.(*coordinator.StartEvent); ok {
			once.Do(func() {
				started.Store(true)
				go func() {
					defer close(over)
					defer s.letGo()
					c, err := wire.Contact(context.Background(), s.job())
					if err != nil {
						s.t.Error(err)
						return
					}
					defer c.Close()
					f(c)
				}()
			})
		}
	}
	return func() {
		s.t.Helper()
		if !started.Load() {
			s.t.Fatal("the job ended before it had started")
		}
		<-over
	}
}

// counted checks what the program printed: each number once more than the one before,
// back to where it was restarted from, and the last one at the end.
func (s *scene) counted(last int) (restarts int) {
	s.t.Helper()
	b, err := os.ReadFile(s.out)
	if err != nil {
		s.t.Fatal(err)
	}
	was, n := 0, 0
	for line := range strings.Lines(string(b)) {
		if _, err := fmt.Sscan(line, &n); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		if n > was+1 {
			s.t.Fatalf("%d follows %d", n, was)
		}
		if n <= was {
			restarts++
		}
		was = n
	}
	if was != last {
		s.t.Errorf("it counted to %d, not %d", was, last)
	}
	return restarts
}

// sound checks that all checkpoints are, and that nothing of the engine is left.
func (s *scene) sound(want int) {
	s.t.Helper()
	j := s.job()
	numbers, err := j.Checkpoints()
	if err != nil || len(numbers) != want {
		s.t.Errorf("checkpoints %v, %v; want %d", numbers, err, want)
	}
	for _, n := range numbers {
		if r, err := j.Verify(s.t.Context(), n, nil); err != nil || len(r.Damage) > 0 {
			s.t.Errorf("checkpoint %d: %v, %v", n, r.Damage, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(j.Dir(), dmtcp.EngineName))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			s.t.Errorf("%s is left", e.Name())
		}
	}
}

// launched and restarted run the job of a scene.
func launched(ctx context.Context, spec job.Spec, opt coordinator.Options) (*coordinator.Result, error) {
	spec.Origin = imagedmtcp.Origin
	return coordinator.Launch(ctx, spec, opt)
}

func restarted(ctx context.Context, opt coordinator.Options, checkpoint int, again bool) (*coordinator.Result, error) {
	return coordinator.Restart(ctx, coordinator.RestartOptions{Options: opt, Checkpoint: checkpoint, AutoRestart: again})
}
