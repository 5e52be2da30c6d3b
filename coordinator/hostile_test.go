package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// hostileBound is how long a command may take on a store, whatever is in it.
const hostileBound = 60 * time.Second

// A hostileStore is a store that trials begin with: a job that has failed, of which
// there are checkpoints and, with several groups, logs behind them; and another job of
// the same kind, whose values are put into the first one's files.
type hostileStore struct {
	name, dir, want string // want is the digest of the job
	// before has the digest of the description taken out of its manifests: that is
	// how stores were written once.
	before bool
}

// sampledKinds are the golden kinds of stores that TestHostile tries in its usual form.
var sampledKinds = []string{"per-rank", "receiver", "optimistic"}

// A trial changes one thing in a copy of a store.
type trial struct {
	of   *hostileStore
	what string
	file string // relative to the directory of the job
	// change returns the new content of the file.
	change func(b []byte) []byte
	// other says that the description says so of another job, and nothing in the
	// store contradicts it: its digest is another.
	other bool
	// content says that the change makes another message of one that is replayed. Nobody
	// can tell; ranks may wait for the first one for ever.
	content bool
}

func (tr *trial) String() string { return tr.of.name + "/" + tr.file + ": " + tr.what }

// TestHostile runs commands on stores whose files hold what nobody has written there,
// under right checksums, and on damaged ones: no panic, no hang, no wrong digest, an
// error that names the file. It draws some of all trials; the nightly form does all,
// and 2,000 flips and cuts. CKPT_HOSTILE_ONLY=REGEXP chooses trials by their names.
func TestHostile(t *testing.T) {
	notRaced(t)
	t.Parallel()
	specs := golden(t)
	kinds, drawn, flips := sampledKinds, 7, 2
	if testkit.Nightly() {
		kinds, drawn, flips = slices.Sorted(maps.Keys(specs)), math.MaxInt, 2000/len(specs)
	}
	right, refused, only := 0, 0, os.Getenv("CKPT_HOSTILE_ONLY")
	for i, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(12, uint64(i)))
			s := newHostileStore(t, kind, specs[kind])
			trials := append(s.fieldTrials(t, rng), s.olden(t).fieldTrials(t, rng)...)
			if n := len(trials); n > drawn {
				rng.Shuffle(n, func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
				trials = trials[:drawn]
			}
			for range flips {
				trials = append(trials, s.flipTrial(t, rng))
			}
			if only != "" {
				trials = matching(trials, regexp.MustCompile(only))
			}
			h := &hostileRun{t: t, dir: t.TempDir()}
			h.run(trials)
			t.Logf("%d trials: %d restarts to the right digest, %d errors", len(trials), h.right, h.refused)
			right, refused = right+h.right, refused+h.refused
		})
	}
	if only == "" && (right == 0 || refused == 0) {
		t.Error("nothing was refused, or all: the trials prove nothing")
	}
}

func matching(trials []*trial, only *regexp.Regexp) []*trial {
	var list []*trial
	for _, tr := range trials {
		if only.MatchString(tr.String()) {
			list = append(list, tr)
		}
	}
	return list
}

// newHostileStore makes the store.
func newHostileStore(t *testing.T, name string, spec job.Spec) *hostileStore {
	t.Helper()
	s := &hostileStore{name: name, dir: filepath.Join(t.TempDir(), "store")}
	spec.Iterations, spec.Schedule.Every = 12, 4
	whole := undisturbed(t, spec)
	s.want = whole.Digest
	fail := func(job string, spec job.Spec, rank, iter int) {
		opt := Options{Store: s.dir, Job: job, Observer: &recorder{t: t}, Failures: []launch.Failure{{Rank: rank, Node: -1, Iter: iter}}}
		if _, err := Launch(t.Context(), spec, opt); !errors.As(err, new(*JobFailedError)) {
			t.Fatalf("launch %s: %v, want it to fail", name, err)
		}
	}
	fail("job", spec, spec.NP-1, 11)
	spec.Iterations, spec.Schedule.Every, spec.Seed = 10, 3, 7
	fail("other", spec, 0, 8)
	return s
}

func (s *hostileStore) job() string   { return filepath.Join(s.dir, "jobs", "job") }
func (s *hostileStore) other() string { return filepath.Join(s.dir, "jobs", "other") }

// A look is what a command does with the job of a store; digest is that of a restart.
type look struct {
	name string
	do   func(ctx context.Context, store *image.Store, rec *recorder) (digest string, err error)
}

var looks = []look{
	{"list", lookAtList},
	{"show --recovery-line", func(ctx context.Context, store *image.Store, _ *recorder) (string, error) {
		_, err := wire.FindLine(ctx, store, "job")
		return "", err
	}},
	{"verify", lookAtAll},
	{"restart", func(ctx context.Context, store *image.Store, rec *recorder) (string, error) {
		r, err := Restart(ctx, RestartOptions{Options: Options{Store: store.Dir(), Job: "job", Observer: rec}})
		if err != nil {
			return "", err
		}
		return r.Digest, nil
	}},
}

// lookAtList does what list and show do.
func lookAtList(ctx context.Context, store *image.Store, _ *recorder) (string, error) {
	j, err := store.Job("job")
	if err != nil {
		return "", err
	}
	_, err = wire.Inspect(ctx, store, "job")
	list, lerr := j.Summaries(0)
	err = errors.Join(err, lerr)
	history := job.ReadEvents(j, 0)
	for _, sum := range list {
		_ = fmt.Sprintf("%+v", history.Describe(sum))
		_, merr := j.Manifest(sum.Number)
		err = errors.Join(err, merr)
	}
	_, serr := j.Stored()
	return "", errors.Join(err, serr)
}

// lookAtAll does what verify does.
func lookAtAll(ctx context.Context, store *image.Store, _ *recorder) (string, error) {
	j, err := store.Job("job")
	if err != nil {
		return "", err
	}
	numbers, err := j.Checkpoints()
	for _, n := range numbers {
		report, verr := j.Verify(ctx, n, nil)
		err = errors.Join(err, verr)
		for _, d := range report.Damage {
			err = errors.Join(err, &durable.DamageError{File: d.File, Offset: d.Offset, Reason: d.Reason})
		}
	}
	_, damage, lerr := job.VerifyLogs(j)
	for _, d := range damage {
		err = errors.Join(err, d)
	}
	return "", errors.Join(err, lerr)
}

// hostileRun carries trials out, some at the same time.
type hostileRun struct {
	t   *testing.T
	dir string

	mu             sync.Mutex
	right, refused int
}

func (h *hostileRun) run(trials []*trial) {
	var workers errgroup.Group
	next := make(chan int)
	for w := range runtime.GOMAXPROCS(0) {
		workers.Go(func() error {
			// Should the process panic in another goroutine, it tells of what.
			note := filepath.Join(h.dir, fmt.Sprintf("worker-%d", w))
			for i := range next {
				_ = os.WriteFile(note, []byte(trials[i].String()+"\n"), 0o600)
				h.try(trials[i], filepath.Join(h.dir, fmt.Sprint(i)))
			}
			return nil
		})
	}
	fmt.Fprintf(os.Stderr, "trials under way are noted in %s\n", h.dir)
	for i := range trials {
		next <- i
	}
	close(next)
	_ = workers.Wait()
}

// try carries out one, in a copy of the store at dir.
func (h *hostileRun) try(tr *trial, dir string) {
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "jobs", "job", tr.file)
	if tr.file == "../../format" {
		name = filepath.Join(dir, "format")
	}
	if err := cloneStore(tr.of.dir, dir, name); err != nil {
		h.t.Errorf("%v: %v", tr, err)
		return
	}
	b, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, tr.change(b), 0o600)
	}
	if err != nil {
		h.t.Errorf("%v: %v", tr, err)
		return
	}
	for _, l := range looks {
		if l.name == "restart" && tr.content {
			return
		}
		if !h.look(tr, dir, l) {
			return
		}
	}
}

// look does what one command does and reports whether the trial goes on.
func (h *hostileRun) look(tr *trial, dir string, l look) bool {
	ctx, cancel := context.WithTimeout(context.Background(), hostileBound)
	defer cancel()
	rec := &recorder{t: h.t}
	var digest string
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		var store *image.Store
		if store, err = image.OpenStore(vfs.OS{}, dir); err == nil {
			digest, err = l.do(ctx, store, rec)
		}
	}()
	grace := time.NewTimer(hostileBound + 30*time.Second)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		h.t.Errorf("%v: %s does not end", tr, l.name)
		return false
	}
	said := said(rec, err)
	switch {
	case strings.Contains(said, "panic") || strings.Contains(said, "goroutine "):
		h.t.Errorf("%v: %s panics:\n%s", tr, l.name, said)
	case ctx.Err() != nil:
		h.t.Errorf("%v: %s hangs:\n%s", tr, l.name, said)
	case err != nil && !names(err.Error(), dir):
		h.t.Errorf("%v: %s: no file is named:\n%s", tr, l.name, said)
	case l.name == "restart" && err == nil && digest != tr.of.want && !tr.other:
		h.t.Errorf("%v: digest %s, want %s\n%s", tr, digest, tr.of.want, said)
	default:
		h.count(l, err)
		return true
	}
	return false
}

// said is all that a user hears.
func said(rec *recorder, err error) string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	lines := slices.Clone(rec.warned)
	for _, ev := range rec.events {
		switch ev := ev.(type) {
		case *FailureEvent:
			lines = append(lines, fmt.Sprintf("rank %d at iteration %d: %s", ev.Rank, ev.Iteration, ev.Reason))
		case *AbortedEvent:
			lines = append(lines, fmt.Sprintf("checkpoint %d is lost: %s", ev.Number, ev.Reason))
		}
	}
	return strings.Join(append(lines, fmt.Sprint(err)), "\n")
}

// names reports whether an error names a file of the store, or a checkpoint of the job.
func names(err, dir string) bool {
	return strings.Contains(err, dir) || regexp.MustCompile(`checkpoint \d+|job job`).MatchString(err)
}

func (h *hostileRun) count(l look, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case l.name != "restart":
	case err == nil:
		h.right++
	default:
		h.refused++
	}
}

// cloneStore copies a store. Images are linked, for nobody changes one that is there,
// but for the file that is about to be changed.
func cloneStore(from, to, changed string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rel)
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel == filepath.Join("jobs", "other"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case filepath.Ext(path) == ".img" && target != changed:
			return os.Link(path, target)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o600)
	})
}
