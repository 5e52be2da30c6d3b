package coordinator

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ckpt/image"
	"ckpt/image/vfs"
)

// belowBase lists the checkpoints of a job that are older than its groups need.
func belowBase(t *testing.T, j *image.Job) (below []int, base []int) {
	t.Helper()
	line, err := readLine(j)
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
// that cannot be read: the first goes with the next run, and both in the end. What
// is needed stays.
func TestCollectAll(t *testing.T) {
	s := job(t, "ring.S.4", 2)
	s.Mode, s.Iterations, s.Schedule.Every = Uncoordinated, 40, 4
	var left string
	opt := Options{Store: t.TempDir(), Job: "job"}
	run := func(fail int) error {
		opt.Observer, opt.Failures = &recorder{t: t}, nil
		if fail == 0 {
			_, err := Restart(t.Context(), RestartOptions{Options: opt})
			return err
		}
		opt.Failures = []Failure{{Rank: 0, Node: -1, Iter: fail}}
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
	if err := os.CopyFS(left, os.DirFS(filepath.Dir(manifestPath(j, numbers[0])))); err != nil {
		t.Fatal(err)
	}
	if err := run(31); err == nil {
		t.Fatal("the job did not fail again")
	}
	_, base := belowBase(t, j)
	if numbers[0] >= base[(numbers[0]-1)%4] {
		t.Fatalf("checkpoint %d is needed, the oldest are %v", numbers[0], base)
	}
	if err := os.RemoveAll(filepath.Dir(manifestPath(j, numbers[0]))); err != nil { // files that later ones refer to
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Dir(manifestPath(j, numbers[0])), os.DirFS(left)); err != nil {
		t.Fatal(err)
	}
	newest, err := j.Latest()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifestPath(j, newest), []byte("x"), 0o600); err != nil {
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
