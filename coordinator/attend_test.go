package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// A hangingFS blocks who makes a file or directory until it is released, as a disk
// that has gone away does.
type hangingFS struct {
	vfs.Buffered
	name    string        // how its path ends
	entered chan struct{} // closed when the first one blocks
	release chan struct{}
	once    sync.Once
}

func newHangingFS(name string) *hangingFS {
	return &hangingFS{Buffered: vfs.Through(vfs.OS{}), name: name, entered: make(chan struct{}), release: make(chan struct{})}
}

func (h *hangingFS) wait(name string) {
	if strings.HasSuffix(name, h.name) {
		h.once.Do(func() { close(h.entered) })
		<-h.release
	}
}

func (h *hangingFS) Create(name string) (vfs.File, error) {
	h.wait(name)
	return h.FS.Create(name)
}

func (h *hangingFS) Mkdir(name string) error {
	h.wait(name)
	return h.FS.Mkdir(name)
}

// TestInterruptsOfBlockedRun blocks the coordinator in an operation of its store:
// before the job is there, in its loop, and in the goroutine that commits. Two
// interrupts end the launch while the operation is still blocked. No rank is left, and
// when the storage answers again the job goes on.
func TestInterruptsOfBlockedRun(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for i, name := range []string{"job.tmp", "0002", "0002/manifest.tmp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, "ring.S.4", 2)
			want := undisturbed(t, s)
			s.Schedule.Every = 7
			disk, interrupts := newHangingFS(name), make(chan struct{})
			opt := Options{Store: t.TempDir(), Job: fmt.Sprintf("blocked-%d", i), Observer: &recorder{t: t}, FS: disk, Interrupts: interrupts}
			over := make(chan error, 1)
			go func() {
				_, err := Launch(t.Context(), s, opt)
				over <- err
			}()
			<-disk.entered
			interrupts <- struct{}{}
			interrupts <- struct{}{}
			var left *LeftError
			if err := <-over; !errors.As(err, &left) {
				t.Errorf("the launch ended with %v", err)
			}
			for rank := range s.NP {
				for len(children(opt.Job, rank)) > 0 { // killed, and gone when the kernel has come to it
				}
			}
			close(disk.release)
			opt.FS, opt.Interrupts = nil, nil
			r, err := Restart(t.Context(), RestartOptions{Options: opt})
			for errors.Is(err, image.ErrInUse) || errors.Is(err, image.ErrJobNotFound) { // by the run that was left
				r, err = Restart(t.Context(), RestartOptions{Options: opt})
			}
			switch {
			case i == 0 && errors.Is(err, image.ErrCheckpointNotFound):
			case err != nil || r.Digest != want.Digest:
				t.Errorf("%+v, %v, want digest %s", r, err, want.Digest)
			}
		})
	}
}

// TestInterruptsOfBlockedCopy blocks a copy into a next store: two interrupts end the run with its
// result, for the job's own store answers.
func TestInterruptsOfBlockedCopy(t *testing.T) {
	notRaced(t)
	t.Parallel()
	s := newSpec(t, "ring.S.4", 2)
	s.Schedule.Every, s.Next = 7, []image.Next{{Store: t.TempDir()}}
	disk, interrupts := newHangingFS(s.Next[0].Store+"/jobs/hanging-copy/0001"), make(chan struct{})
	opt := Options{Store: t.TempDir(), Job: "hanging-copy", Observer: &recorder{t: t}, FS: disk, Interrupts: interrupts, grace: testkit.Patience}
	over := make(chan error, 1)
	go func() {
		_, err := Launch(t.Context(), s, opt)
		over <- err
	}()
	<-disk.entered
	interrupts <- struct{}{}
	interrupts <- struct{}{}
	if err := <-over; err != nil {
		t.Error(err)
	}
	close(disk.release)
	store, err := image.OpenStore(vfs.OS{}, s.Next[0].Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	for errors.Is(j.Lock(), image.ErrInUse) { // by the copy that was left
	}
	if err := j.Unlock(); err != nil {
		t.Error(err)
	}
}
