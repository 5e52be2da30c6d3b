package levels

import (
	"errors"
	"slices"
	"testing"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

// quietGroup is a group whose loop does nothing.
type quietGroup struct {
	Group
	over bool
}

func (g quietGroup) Over() bool { return g.over }
func (quietGroup) Warn(string)  {}
func (quietGroup) Post(func())  {}

// TestNextFailed gives a version up where it is damaged in the job's own store, or again and again in the
// next one. After any other error the store keeps it.
func TestNextFailed(t *testing.T) {
	t.Parallel()
	store, err := image.CreateStore(memfs.New(), "/store")
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	damage := func(name string) error { return durable.Damaged(name, 0, "damaged") }
	for _, c := range []struct {
		err     error
		met     int // before
		aborted bool
		of      string
	}{
		{damage(j.Dir() + "/0002/rank-0.img"), 0, true, "damage in the store"},
		{damage("/next/jobs/job/0002/rank-0.img"), 0, false, "damage in the next store"},
		{damage("/next/jobs/job/0002/rank-0.img"), damagePatience, true, "damage that stays"},
		{errors.New("no answer"), 100, false, "another error"},
	} {
		b := &Beyond{Setting: Setting{Job: j}, g: quietGroup{}}
		o := &onward{waiting: []int{4}, failures: c.met, newest: 1}
		b.failed(o, 2, c.err)
		if held := slices.Equal(o.waiting, []int{2, 4}); held == c.aborted || (o.newest == 2) != c.aborted || o.failures != c.met+1 {
			t.Errorf("%s: waiting %v, newest %d, %d failures", c.of, o.waiting, o.newest, o.failures)
		}
	}
	// A copy that has gone its own way stops the copies, also at the end of a run.
	b, o := &Beyond{Setting: Setting{Job: j}, g: quietGroup{over: true}}, &onward{}
	if b.failed(o, 2, image.ErrParted); !o.stopped || len(o.waiting) > 0 {
		t.Errorf("parted at the end: %+v", o)
	}
}
