package image

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"ckpt/internal/vfs"
)

// silly is a file system that keeps a removed file under a hidden name as long as it is open,
// as NFS does, or as some more calls find it so, as FUSE does.
type silly struct {
	vfs.OS
	open   map[string]*sillyLock // by the present name
	hidden []string
	late   int // how many calls find a file open that was closed
}

type sillyLock struct {
	io.Closer
	closed bool
}

func (l *sillyLock) Close() error {
	l.closed = true
	return l.Closer.Close()
}

func (s *silly) Lock(name string) (io.Closer, error) {
	l, err := s.OS.Lock(name)
	if err != nil {
		return nil, err
	}
	s.open[name] = &sillyLock{Closer: l}
	return s.open[name], nil
}

func (s *silly) Rename(from, to string) error {
	s.open[to] = s.open[from]
	delete(s.open, from)
	return s.OS.Rename(from, to)
}

func (s *silly) Remove(name string) error {
	if l := s.open[name]; l != nil && (!l.closed || s.late > 0) {
		hidden := filepath.Join(filepath.Dir(name), ".nfs0001")
		s.open[hidden], s.hidden = l, append(s.hidden, hidden)
		return s.OS.Rename(name, hidden)
	}
	for _, hidden := range s.hidden {
		if s.late--; s.late < 0 && s.open[hidden].closed {
			os.Remove(hidden)
		}
	}
	return s.OS.Remove(name)
}

// TestRemoveSilly: a job goes from a file system that keeps removed files while they are open.
func TestRemoveSilly(t *testing.T) {
	t.Parallel()
	for _, late := range []int{0, 3} {
		fsys := &silly{open: map[string]*sillyLock{}, late: late}
		k := newJob(t, fsys, filepath.Join(t.TempDir(), "store"))
		if _, err := k.take(1); err != nil {
			t.Fatal(err)
		}
		if _, _, err := k.job.Remove(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(k.job.Dir()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d late: left %v, %v", late, left, err)
		}
	}
}
