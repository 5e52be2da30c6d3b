package dmtcp_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/family"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// fullFS is a file system on which files of a name do not fit while it is full.
type fullFS struct {
	vfs.OS
	full *atomic.Bool
	name string // they begin with it
}

func (f fullFS) Create(name string) (vfs.File, error) { return f.create(name, f.OS.Create) }

func (f fullFS) CreateDirect(name string) (vfs.File, error) {
	return f.create(name, f.OS.CreateDirect)
}

func (f fullFS) create(name string, create func(string) (vfs.File, error)) (vfs.File, error) {
	if f.full.Load() && strings.HasPrefix(filepath.Base(name), f.name) {
		return nil, &os.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	return create(name)
}

// TestPending: a last checkpoint that does not fit into the store stays as DMTCP wrote it.
// The next run stores it, and continues from it.
func TestPending(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rank-", "manifest"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); pending(t, name) })
	}
}

func pending(t *testing.T, name string) {
	s := newScene(t, 100, time.Millisecond)
	var full atomic.Bool
	full.Store(true)
	s.opt.FS = fullFS{full: &full, name: name}
	stopped := s.atStart(func(c *wire.Client) {
		if _, err := c.Stop(false); err == nil {
			t.Error("a checkpoint was stored on a full disk")
		}
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	stopped()
	if err == nil || r.Outcome != job.StateStopped || r.Checkpoints != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	// Nobody may launch over it.
	if _, err := launched(t.Context(), s.spec, s.opt); err == nil || !strings.Contains(err.Error(), "not stored yet") {
		t.Error(err)
	}
	full.Store(false)
	if r, err = restarted(t.Context(), s.opt, 0, false); err != nil || r.Outcome != job.StateCompleted || r.Checkpoints != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	s.counted(100)
	s.sound(1)
}

// storeName is set in the process of a coordinator that is to be killed.
const storeName = "CKPT_TEST_STORE"

// serveCoordinator runs a job, for TestKilled.
func serveCoordinator() {
	store := os.Getenv(storeName)
	if store == "" {
		return
	}
	spec := job.Spec{App: "count", Mode: job.Coordinated, Created: time.Now(), Schedule: job.Schedule{Interval: 100 * time.Millisecond},
		Program: &job.Program{Command: []string{"count", "500", "1ms"}, Dir: filepath.Dir(store)}}
	_, err := launched(context.Background(), spec, coordinator.Options{Store: store, Job: "job", Observer: &recorder{},
		Streams: launch.Streams{Out: os.Stdout, Err: os.Stderr}, DMTCP: dmtcp.Options{Settle: 20 * time.Millisecond}})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

// TestKilled: after SIGKILL of its coordinator a program ends, and the next coordinator
// continues it.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t, 500, time.Millisecond)
	s.hold()
	out, err := os.OpenFile(s.out, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s.opt.Streams.Out = out
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(s.environ(), storeName+"="+s.opt.Store)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var was []family.Process
	for number := 0; number == 0 || len(was) < 3; time.Sleep(10 * time.Millisecond) {
		if store, err := image.OpenStore(vfs.OS{}, s.opt.Store); err == nil {
			if j, err := store.Job("job"); err == nil {
				number, _ = j.Latest()
				was = dmtcp.Running(j)
			}
		}
		if t.Context().Err() != nil {
			t.Fatal("no checkpoint was taken")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !family.Await(was, testkit.Patience) {
		t.Errorf("of %v some live on", was)
	}
	s.letGo()
	r, err := restarted(t.Context(), s.opt, 0, false)
	if err != nil || r.Outcome != job.StateCompleted {
		t.Fatalf("%+v, %v", r, err)
	}
	s.counted(500)
	if starts := of[*coordinator.StartEvent](s.rec); len(starts) != 1 || starts[0].From == 0 {
		t.Errorf("it did not continue from a checkpoint: %+v", starts)
	}
}
