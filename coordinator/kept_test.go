package coordinator

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// fill has a job keep so many checkpoints: copies of its second one, which share the
// files of that.
func fill(t testing.TB, dir string, kept int) (newest int) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := image.OpenStore(lazyDisk{}, dir)
	must(err)
	job, err := store.Job("job")
	must(err)
	must(job.Lock())
	defer job.Unlock()
	all, err := job.Checkpoints()
	must(err)
	second, err := job.Manifest(all[1])
	must(err)
	newest = all[len(all)-1] + kept - len(all)
	for n := all[len(all)-1] + 1; n <= newest; n++ {
		m := *second
		m.Number = n
		tx, err := job.Begin(n)
		must(err)
		must(tx.Commit(t.Context(), &m))
	}
	_, err = job.Sweep()
	must(err)
	return newest
}

// A lazyDisk does not wait for its directories.
type lazyDisk struct{ vfs.OS }

func (lazyDisk) SyncDir(string) error { return nil }

// keptRun is a job that keeps so many checkpoints and is restarted from the newest.
func keptRun(t testing.TB, kept int) RestartOptions {
	t.Helper()
	s := newSpec(t, "ring.S.2", 1)
	s.Schedule.Every, s.Incremental = s.Iterations/4, false
	_, _, opt := mustLaunch(t, s, Options{})
	return RestartOptions{Options: opt, Checkpoint: fill(t, opt.Store, kept)}
}

// restartKept restarts it, and returns how long it took to compute and to commit a
// checkpoint.
func restartKept(t testing.TB, opt RestartOptions) (start, commit time.Duration) {
	t.Helper()
	rec := &clock{recorder: recorder{t: t}, begin: time.Now()}
	opt.Observer = rec
	if _, err := Restart(t.Context(), opt); err != nil {
		t.Fatal(err)
	}
	taken := eventsOf[*job.CheckpointEvent](&rec.recorder)
	if len(taken) == 0 {
		t.Fatal("no checkpoint was taken")
	}
	for _, ev := range taken {
		commit += time.Duration(ev.Latency.Total * float64(time.Second) / float64(len(taken)))
	}
	return rec.started, commit
}

// A clock notes when ranks compute.
type clock struct {
	recorder
	begin   time.Time
	started time.Duration
}

func (c *clock) Event(ev any) {
	if _, ok := ev.(*StartEvent); ok {
		c.started = time.Since(c.begin)
	}
	c.recorder.Event(ev)
}

// TestCostOfKept counts what a restart with its checkpoints, and a prune of one, ask of
// the file system, with few checkpoints kept and with many.
func TestCostOfKept(t *testing.T) {
	t.Parallel()
	costs := func(kept int) map[string]map[string]int {
		opt := keptRun(t, kept)
		all := make(map[string]map[string]int)
		count := func(name string, do func(fsys vfs.FS)) {
			disk := memfs.WithFault(vfs.OS{}, memfs.Fault{})
			do(disk)
			all[name] = make(map[string]int)
			for _, op := range disk.Ops() {
				all[name][op.Name]++
			}
		}
		count("restart", func(disk vfs.FS) {
			opt := opt
			opt.FS = disk
			restartKept(t, opt)
		})
		count("prune", func(disk vfs.FS) {
			store, err := image.OpenStore(disk, opt.Store)
			if err != nil {
				t.Fatal(err)
			}
			job, err := store.Job("job")
			if err != nil {
				t.Fatal(err)
			}
			numbers, err := job.Checkpoints()
			if err != nil {
				t.Fatal(err)
			}
			if p, err := levels.Prune(t.Context(), job, levels.PruneOptions{Retention: image.Retention{Last: len(numbers) - 1}}); err != nil || len(p.Removed) != 1 {
				t.Fatalf("removed %+v, %v", p, err)
			}
		})
		count("describe", func(disk vfs.FS) {
			store, err := image.OpenStore(disk, opt.Store)
			if err == nil {
				_, err = job.Describe(store, "job")
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		return all
	}
	few, many := costs(20), costs(400)
	for name := range maps.Keys(few) {
		t.Logf("%s: %v", name, few[name])
		if diff := cmp.Diff(few[name], many[name]); diff != "" {
			t.Errorf("%s: operations with 20 checkpoints (-) and with 400 (+):\n%s", name, diff)
		}
	}
}

// TestFirstFree asks few times which number is free, however many are taken.
func TestFirstFree(t *testing.T) {
	t.Parallel()
	for _, taken := range []int{0, 1, 2, 3, 7, 8, 9, 100, 10_000} {
		asked := 0
		got, err := firstFree(func(i int) (bool, error) {
			asked++
			return i > taken, nil
		})
		if err != nil || got != taken+1 || asked > 30 {
			t.Errorf("%d taken: %d after %d questions, %v", taken, got, asked, err)
		}
	}
	// Some have gone: it is one of those, or behind them.
	got, err := firstFree(func(i int) (bool, error) { return i == 3 || i == 50 || i > 90, nil })
	if err != nil || got != 3 && got != 50 && got != 91 {
		t.Errorf("%d is not free, %v", got, err)
	}
}

// counts are how many checkpoints or jobs there are. To make the most takes minutes.
func counts() []int {
	if !testkit.Nightly() {
		return []int{10, 1000}
	}
	return []int{10, 1000, 10_000}
}

// BenchmarkKept measures what a job pays for the checkpoints that it keeps.
func BenchmarkKept(b *testing.B) {
	for _, kept := range counts() {
		b.Run(fmt.Sprintf("kept=%d", kept), func(b *testing.B) {
			opt := keptRun(b, kept)
			b.Run("restart", func(b *testing.B) {
				var start, commit time.Duration
				for b.Loop() {
					s, c := restartKept(b, opt)
					start, commit = start+s, commit+c
				}
				b.ReportMetric(float64(start.Milliseconds())/float64(b.N), "ms/start")
				b.ReportMetric(float64(commit.Milliseconds())/float64(b.N), "ms/commit")
			})
		})
	}
}

// BenchmarkJobs measures how long a launch takes until it computes, in a store with
// many jobs of the same application.
func BenchmarkJobs(b *testing.B) {
	for _, jobs := range counts() {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "store")
			store, err := image.CreateStore(lazyDisk{}, dir)
			if err != nil {
				b.Fatal(err)
			}
			s := newSpec(b, "ring.S.2", 1)
			text, err := s.Encode()
			if err != nil {
				b.Fatal(err)
			}
			for i := range jobs {
				j, err := store.CreateJob(fmt.Sprintf("%s-%d", s.App, i+1), text)
				if err == nil {
					err = j.Unlock()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			var start time.Duration
			for b.Loop() {
				rec := &clock{recorder: recorder{t: b}, begin: time.Now()}
				if _, err := Launch(context.Background(), s, Options{Store: dir, Observer: rec}); err != nil {
					b.Fatal(err)
				}
				start += rec.started
			}
			b.ReportMetric(float64(start.Milliseconds())/float64(b.N), "ms/start")
		})
	}
}
