package coordinator

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// belowBase lists the checkpoints of a job that are older than its groups need.
func belowBase(t *testing.T, j *image.Job) (below []int, base []int) {
	t.Helper()
	line, err := job.ReadBaseline(j, 4)
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := j.Checkpoints()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		if n < line.Base[(n-1)%len(line.Base)] {
			below = append(below, n)
		}
	}
	for g, n := range line.Base {
		if n > 0 && !slices.Contains(numbers, n) {
			t.Errorf("checkpoint %d, which group %d needs, has gone", n, g)
		}
	}
	return below, line.Base
}

// TestCollectAll has a checkpoint left behind that is not needed any more, and one
// that cannot be read: the first goes with the next run, and both in the end. All
// that is needed stays.
func TestCollectAll(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "ring.S.4", 2)
	s.Mode, s.Iterations, s.Schedule.Every = job.Uncoordinated, 40, 4
	var left string
	opt := Options{Store: t.TempDir(), Job: "job"}
	run := func(fail int) error {
		opt.Observer, opt.Failures = &recorder{t: t}, nil
		if fail == 0 {
			_, err := Restart(t.Context(), RestartOptions{Options: opt})
			return err
		}
		opt.Failures = []launch.Failure{{Rank: 0, Node: -1, Iter: fail}}
		if left == "" {
			_, err := Launch(t.Context(), s, opt)
			return err
		}
		_, err := Restart(t.Context(), RestartOptions{Options: opt})
		return err
	}
	if err := run(11); err == nil {
		t.Fatal("the job did not fail")
	}
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job("job")
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := j.Checkpoints()
	if err != nil || len(numbers) == 0 {
		t.Fatalf("checkpoints %v, %v", numbers, err)
	}
	left = filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(filepath.Dir(job.ManifestPath(j, numbers[0])))); err != nil {
		t.Fatal(err)
	}
	if err := run(31); err == nil {
		t.Fatal("the job did not fail again")
	}
	_, base := belowBase(t, j)
	if numbers[0] >= base[(numbers[0]-1)%4] {
		t.Fatalf("checkpoint %d is needed, the oldest are %v", numbers[0], base)
	}
	if err := os.RemoveAll(filepath.Dir(job.ManifestPath(j, numbers[0]))); err != nil { // files that later ones refer to
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Dir(job.ManifestPath(j, numbers[0])), os.DirFS(left)); err != nil {
		t.Fatal(err)
	}
	newest, err := j.Latest()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job.ManifestPath(j, newest), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(32); err == nil { // no further checkpoint, or hardly
		t.Fatal("the job did not fail a third time")
	}
	if below, base := belowBase(t, j); len(below) > 0 {
		t.Errorf("checkpoints %v are left, the oldest needed are %v", below, base)
	}
	if err := run(0); err != nil {
		t.Fatal(err)
	}
	if below, base := belowBase(t, j); len(below) > 0 || base[(newest-1)%4] <= newest {
		t.Errorf("checkpoints %v are left, %d is damaged, the oldest needed are %v", below, newest, base)
	}
	verifyAll(t, opt)
}

// TestCollectOnFullDisk removes nothing as long as it cannot be noted, goes back all
// the same, and ends the job where the note has to come first.
func TestCollectOnFullDisk(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "ring.S.4", 1)
	s.Mode = job.Uncoordinated
	d, rec, fill, empty := fullStore(t, s)
	var all []int
	for n := 1; n <= 12; n++ {
		all = append(all, n)
		if err := os.MkdirAll(filepath.Dir(job.ManifestPath(d.job, n)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(job.ManifestPath(d.job, n), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	relock(t, d.job)
	there := func(what string, want ...int) {
		t.Helper()
		if numbers, err := d.job.Checkpoints(); err != nil || !slices.Equal(numbers, want) {
			t.Errorf("%s: checkpoints %v, %v; want %v", what, numbers, err, want)
		}
		if _, err := os.Stat(filepath.Join(d.job.Dir(), "line.json.new")); err == nil {
			t.Errorf("%s: a new line.json is left", what)
		}
	}
	d.baseline.Taken = []int{9, 10, 11, 12}
	fill()
	d.does(protocol.Collect{Base: []int{5, 0, 0, 0}, Remove: []int{1}})
	d.does(protocol.Collect{Base: []int{5, 6, 0, 0}, Remove: []int{2}})
	there("full", all...)
	d.perform([]supervisor.Action{{Group: 0, Action: protocol.Forget{After: 5}}})
	there("gone back", 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12)
	if n := len(rec.warned); n != 1 || !strings.Contains(rec.warned[0], "kept until") || !strings.Contains(rec.warned[0], "storage is full") {
		t.Errorf("warned %q", rec.warned)
	}
	empty()
	d.backlog.tried = 0
	d.does(protocol.Answer{})
	there("room", 3, 4, 5, 6, 7, 8, 10, 11, 12)
	if line, err := job.ReadBaseline(d.job, 4); err != nil || !slices.Equal(line.Base, []int{5, 6, 0, 0}) || line.Taken[0] != 5 {
		t.Errorf("noted %+v, %v", line, err)
	}
	if d.outcome != nil || d.broken != nil || d.backlog.owed != nil {
		t.Fatalf("ended %v, %v; owes %v", d.outcome, d.broken, d.backlog.owed)
	}

	fill()
	d.perform([]supervisor.Action{{Group: supervisor.Job, Action: protocol.Collect{Base: []int{-1, -1, -1, -1}}}, {Group: 0, Action: protocol.Forget{}}})
	there("ended", 3, 4, 5, 6, 7, 8, 10, 11, 12)
	if r, err := d.verdict(); r == nil || r.Outcome != "stopped" || !errors.Is(err, durable.ErrStorageFull) || !errors.As(err, new(*fullError)) {
		t.Errorf("result %+v, %v", r, err)
	}
}

// relock has a job look at what was put into its directory behind its back.
func relock(t *testing.T, j *image.Job) {
	t.Helper()
	if err := errors.Join(j.Unlock(), j.Lock()); err != nil {
		t.Fatal(err)
	}
}

// TestTakeOverOnFullDisk makes room with files that the job needs no more. It runs alone: a child
// that another test starts would hold such a file open for a moment, and its space.
func TestTakeOverOnFullDisk(t *testing.T) {
	s := newSpec(t, "ring.S.4", 1)
	s.Mode = job.Uncoordinated
	d, _, fill, _ := fullStore(t, s)
	if err := job.WriteBaseline(d.job, d.baseline); err != nil {
		t.Fatal(err)
	}
	d.baseline.Base[0] = 5
	if err := os.MkdirAll(filepath.Dir(job.ManifestPath(d.job, 1)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job.ManifestPath(d.job, 1), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(job.LogsDir(d.job), 0o700); err != nil {
		t.Fatal(err)
	}
	relock(t, d.job)
	fill()
	if err := d.takeOver(); err != nil {
		t.Errorf("there was room for the note: %v", err)
	}
	before, err := job.ReadBaseline(d.job, 4)
	if err != nil {
		t.Fatal(err)
	}
	// The note had the page of the one before and one more.
	f, err := os.Create(filepath.Join(d.job.Dir(), "fill"))
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if err := d.takeOver(); !errors.Is(err, durable.ErrStorageFull) || !errors.As(err, new(*fullError)) {
		t.Errorf("error %v, want that the storage is full", err)
	}
	if after, err := job.ReadBaseline(d.job, 4); err != nil || after.Incarnation != before.Incarnation {
		t.Errorf("noted %+v, %v; before %+v", after, err, before)
	}
}

// TestFailureOfNodes: node-mtbf is of each node, mtbf of the job.
func TestFailureOfNodes(t *testing.T) {
	for text, want := range map[string]launch.Failure{
		"mtbf=4s":             {Rank: -1, Node: -1, MTBF: 4e9},
		"node-mtbf=8s,seed=3": {Rank: -1, Node: -1, MTBF: 8e9, OfNode: true, Seed: 3},
	} {
		if got, err := launch.ParseFailure(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"node-mtbf=0s", "node-mtbf=1s,3", "node-rank=1@iter=2"} {
		if f, err := launch.ParseFailure(text); err == nil {
			t.Errorf("%s: %+v", text, f)
		}
	}
}
