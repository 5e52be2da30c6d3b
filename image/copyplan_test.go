package image

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"ckpt/internal/vfs/memfs"
)

// TestCopyKeeps copies drawn jobs, of which the other store has some checkpoints and keeps some. It
// then has those that a copy of all would have after a Prune there, Plan has said so before, and what
// is not to stay is not copied.
func TestCopyKeeps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 44))
		var times []string
		for at := 0; len(times) < 10; at += rng.IntN(20) * 23 {
			times = append(times, fmt.Sprintf("%02d %02d:%02d", 1+at/60/24, at/60%24, at%60))
		}
		k := takeAt(t, times...)
		rule := Retention{Last: 1 + rng.IntN(3), Hourly: rng.IntN(4), Daily: rng.IntN(4)}
		var some []int
		for n := 1; n <= 10; n++ {
			if rng.IntN(3) == 0 {
				some = append(some, n)
			}
		}
		damaged := rng.IntN(3) == 0 && len(some) > 0
		copied := func(name string) *JobCopy {
			s, err := CreateStore(k.fs, name)
			if err == nil {
				err = (&JobCopy{From: k.job, To: s}).Run(context.Background(), some)
			}
			if err == nil && damaged {
				err = k.fs.Remove(filepath.Join(s.dir, jobsName, testJob, filepath.Base(k.job.NumberDir(some[len(some)-1])), "rank-0.img"))
			}
			if err != nil {
				t.Fatal(err)
			}
			return &JobCopy{From: k.job, To: s}
		}
		all, err := k.job.Checkpoints()
		if err != nil {
			t.Fatal(err)
		}
		whole, kept := copied("/whole"), copied("/kept")
		if err := whole.Run(context.Background(), all); err != nil {
			t.Fatal(err)
		}
		whole.Keep = rule
		if err := whole.Run(context.Background(), all); err != nil {
			t.Fatal(err)
		}
		kept.Keep = rule
		plan, err := kept.Plan(all)
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.Run(context.Background(), all); err != nil {
			t.Fatal(err)
		}
		numbers := func(c *JobCopy) (list []int) {
			for _, s := range c.There {
				list = append(list, s.Number)
			}
			return list
		}
		if got, want := numbers(kept), numbers(whole); !slices.Equal(got, want) {
			t.Errorf("seed %d, %+v of %v, %v there: the other store has %v, want %v", seed, rule, times, some, got, want)
		}
		got := kept.Copied
		got.There = nil
		if !reflect.DeepEqual(got, plan) {
			t.Errorf("seed %d, %+v of %v, %v there: planned %+v, did %+v", seed, rule, times, some, plan, got)
		}
		if n := len(got.Checkpoints) + len(some) - len(got.Removed); n != len(kept.There) {
			t.Errorf("seed %d: %+v: %d are there", seed, got, len(kept.There))
		}
	}
}

// TestCopyPlanOfNothing plans a copy into a store that is not made yet.
func TestCopyPlanOfNothing(t *testing.T) {
	t.Parallel()
	k := taken(t, 3)
	plan, err := (&JobCopy{From: k.job, Keep: Retention{Last: 2}}).Plan([]int{1, 2, 3})
	if err != nil || !slices.Equal(plan.Checkpoints, []int{2, 3}) || !slices.Equal(plan.LeftOut, []int{1}) {
		t.Errorf("%+v, %v", plan, err)
	}
	s, err := CreateStore(memfs.New(), "/empty")
	if err != nil {
		t.Fatal(err)
	}
	plan, err = (&JobCopy{From: k.job, To: s}).Plan([]int{1, 3})
	if _, jerr := s.Job(testJob); err != nil || jerr == nil || !slices.Equal(plan.Checkpoints, []int{1, 3}) {
		t.Errorf("%+v, %v; the plan made a job", plan, err)
	}
}

// TestCopyPlanWeighs: a plan counts the files that a copy writes.
func TestCopyPlanWeighs(t *testing.T) {
	t.Parallel()
	k := taken(t, 4)
	s, err := CreateStore(memfs.New(), "/copy")
	if err != nil {
		t.Fatal(err)
	}
	c := &JobCopy{From: k.job, To: s}
	for _, numbers := range [][]int{{3}, {1, 2, 3, 4}} {
		plan, err := c.Plan(numbers)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(context.Background(), numbers); err != nil {
			t.Fatal(err)
		}
		if plan.Files != c.Files || plan.Bytes != c.Bytes || c.Files == 0 {
			t.Errorf("%d files of %d bytes were planned, and %d of %d copied", plan.Files, plan.Bytes, c.Files, c.Bytes)
		}
	}
}
