package dmtcp_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/durable"
)

// TestCopyOfRunning: a copy of a store, made while a job of it runs, ends no process of the
// original and touches no file that its program uses. It continues once the original has
// ended.
func TestCopyOfRunning(t *testing.T) {
	t.Parallel()
	s := newScene(t, 100, time.Millisecond)
	copied := s.opt
	copied.Store = filepath.Join(t.TempDir(), "copy")
	tried := s.atStart(func(c *wire.Client) {
		if err := os.CopyFS(copied.Store, os.DirFS(s.opt.Store)); err != nil {
			t.Error(err)
		}
		if _, err := launched(t.Context(), s.spec, copied); !errors.Is(err, image.ErrInUse) {
			t.Errorf("over a job without a checkpoint: %v", err)
		}
		if _, err := c.Checkpoint(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(copied.Store); err != nil {
			t.Error(err)
		}
		if err := os.CopyFS(copied.Store, os.DirFS(s.opt.Store)); err != nil {
			t.Error(err)
		}
		if _, err := restarted(t.Context(), copied, 0, false); !errors.Is(err, image.ErrInUse) {
			t.Errorf("from a checkpoint: %v", err)
		}
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	tried()
	if err != nil || r.Outcome != job.StateCompleted || r.Failures != 0 {
		t.Fatalf("the original: %+v, %v", r, err)
	}
	if r, err = restarted(t.Context(), copied, 0, false); err != nil || r.Outcome != job.StateCompleted {
		t.Errorf("the copy: %+v, %v", r, err)
	}
	s.counted(100)
}

// TestStateOfAnother: the state of a job that had the same name names neither its processes
// nor its images.
func TestStateOfAnother(t *testing.T) {
	t.Parallel()
	s := newScene(t, 50, time.Millisecond)
	asked := s.atStart(func(c *wire.Client) {
		if _, err := c.Checkpoint(); err != nil {
			t.Error(err)
		}
	})
	_, err := launched(t.Context(), s.spec, s.opt)
	asked()
	if err != nil {
		t.Fatal(err)
	}
	other := s.spec
	other.ID = image.NewID()
	j := s.job()
	text, err := other.Encode()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := j.Store().CreateJob("other", text)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Dir(job.StatePath(theirs)), 0o700), dmtcp.WriteState(theirs, other.ID), theirs.Unlock()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(job.StatePath(theirs), job.StatePath(j)); err != nil {
		t.Fatal(err)
	}
	if _, err := restarted(t.Context(), s.opt, 0, false); !errors.Is(err, durable.ErrOtherJob) {
		t.Error(err)
	}
}
