package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
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

// hostileKinds are the flags of launch. The first three are in the sample.
var hostileKinds = []struct{ name, app, flags string }{
	{"per-rank", "ring.S.2", "--codec none --incremental=false"},
	{"receiver", "ring.S.3", "--map 2,1 --mode semi --residual-every 2"},
	{"optimistic", "ring.S.2", "--mode uncoordinated --log optimistic"},
	{"aggregated", "ring.S.2", "--layout aggregated --aggregators 2"},
	{"shared", "ring.S.2", "--layout shared"},
	{"packed", "bt.S.4", "--codec s2"},
	{"sender", "ring.S.3", "--map 2,1 --mode semi --log pessimistic-sender"},
	{"alone", "ring.S.2", "--mode uncoordinated"},
	{"none", "ring.S.2", "--mode uncoordinated --log none"},
}

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
}

func (tr *trial) String() string { return tr.of.name + "/" + tr.file + ": " + tr.what }

// TestHostile runs commands on stores whose files hold what nobody has written there,
// under right checksums, and on damaged ones: no panic, no hang, no wrong digest, an
// error that names the file. It draws some of all trials; the nightly form does all,
// and 2,000 flips and cuts. CKPT_HOSTILE_ONLY=REGEXP chooses trials by their names.
func TestHostile(t *testing.T) {
	nightly := os.Getenv("CKPT_NIGHTLY") != ""
	kinds, drawn, flips := hostileKinds[:3], 16, 4
	if nightly {
		kinds, drawn, flips = hostileKinds, math.MaxInt, 2000/len(hostileKinds)+1
	}
	for i, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(12, uint64(i)))
			s := newHostileStore(t, k.name, k.app, strings.Fields(k.flags))
			trials := s.fieldTrials(t, rng)
			if k.name == "per-rank" || k.name == "receiver" {
				trials = append(trials, s.olden(t).fieldTrials(t, rng)...)
			}
			if n := len(trials); n > drawn {
				rng.Shuffle(n, func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
				trials = trials[:drawn]
			}
			for range flips {
				trials = append(trials, s.flipTrial(t, rng))
			}
			only := os.Getenv("CKPT_HOSTILE_ONLY")
			if only != "" {
				trials = matching(trials, regexp.MustCompile(only))
			}
			h := &hostileRun{t: t, dir: t.TempDir()}
			h.run(trials)
			t.Logf("%d trials: %d restarts to the right digest, %d errors", len(trials), h.right, h.refused)
			if only == "" && (h.right == 0 || h.refused == 0) {
				t.Error("nothing was refused, or all: the trials prove nothing")
			}
		})
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
func newHostileStore(t *testing.T, name, app string, flags []string) *hostileStore {
	t.Helper()
	s := &hostileStore{name: name, dir: t.TempDir()}
	launch := func(want int, more ...string) string {
		t.Helper()
		args := append([]string{"launch", "--quiet", "--store", s.dir, app, "--iterations", "12"}, flags...)
		code, out, err := command(context.Background(), append(args, more...)...)
		if code != want {
			t.Fatalf("launch %s: exit status %d\n%s", name, code, err)
		}
		return out
	}
	s.want = digestIn(launch(exitDone, "--job", "whole", "--trace=false", "--every", "100"))
	launch(exitJobFailed, "--job", "job", "--every", "4", "--fail", "rank=1@iter=11")
	launch(exitJobFailed, "--job", "other", "--every", "3", "--fail", "rank=0@iter=8", "--iterations", "10")
	if err := os.RemoveAll(filepath.Join(s.dir, "jobs", "whole")); err != nil || s.want == "" {
		t.Fatalf("digest %q, %v", s.want, err)
	}
	return s
}

func (s *hostileStore) job() string   { return filepath.Join(s.dir, "jobs", "job") }
func (s *hostileStore) other() string { return filepath.Join(s.dir, "jobs", "other") }

// command runs a command line in this process. Ranks are processes.
func command(ctx context.Context, args ...string) (code int, out, stderr string) {
	var o, e bytes.Buffer
	defer func() {
		if r := recover(); r != nil {
			code, out, stderr = -1, o.String(), fmt.Sprintf("%spanic: %v\n%s", e.String(), r, debug.Stack())
		}
	}()
	code = run(ctx, args, streams{strings.NewReader(""), &o, &e})
	return code, o.String(), e.String()
}

var digestLine = regexp.MustCompile(`(?m)^digest ([0-9a-f]{64})$`)

func digestIn(out string) string {
	if m := digestLine.FindStringSubmatch(out); m != nil {
		return m[1]
	}
	return ""
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
	verify := "job"
	if filepath.Base(tr.file) == "manifest" { // the others are as they were
		verify += "@" + strings.TrimLeft(filepath.Dir(tr.file), "0")
	}
	for _, args := range [][]string{{"list"}, {"list", "job"}, {"show", "job"}, {"show", "job", "--recovery-line"}, {"verify", verify}, {"restart", "job", "--quiet"}} {
		if !h.command(tr, dir, args) {
			return
		}
	}
}

// command runs one command of a trial and reports whether the trial goes on.
func (h *hostileRun) command(tr *trial, dir string, args []string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), hostileBound)
	defer cancel()
	type end struct {
		code     int
		out, err string
	}
	ended := make(chan end, 1)
	go func() {
		var e end
		e.code, e.out, e.err = command(ctx, append(args, "--store", dir)...)
		ended <- e
	}()
	var e end
	grace := time.NewTimer(hostileBound + 30*time.Second)
	defer grace.Stop()
	select {
	case e = <-ended:
	case <-grace.C:
		h.t.Errorf("%v: %v does not end", tr, args)
		return false
	}
	switch {
	case strings.Contains(e.err, "panic") || strings.Contains(e.err, "goroutine "):
		h.t.Errorf("%v: %v panics:\n%s", tr, args, e.err)
	case ctx.Err() != nil:
		h.t.Errorf("%v: %v hangs:\n%s", tr, args, e.err)
	case e.code != exitDone && !names(e.err, dir):
		h.t.Errorf("%v: %v: exit status %d, and no file is named:\n%s", tr, args, e.code, e.err)
	case args[0] == "restart" && e.code == exitDone && digestIn(e.out) != tr.of.want && !tr.other:
		h.t.Errorf("%v: digest %s, want %s\n%s", tr, digestIn(e.out), tr.of.want, e.err)
	default:
		h.count(args, e.code)
		return true
	}
	return false
}

// names reports whether an error names a file of the store, or a checkpoint or the job
// whose it is.
func names(err, dir string) bool {
	return strings.Contains(err, dir) || regexp.MustCompile(`checkpoint \d+|job job|region "|workload|the job needs`).MatchString(err)
}

func (h *hostileRun) count(args []string, code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case args[0] != "restart":
	case code == exitDone:
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
