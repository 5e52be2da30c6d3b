package turns

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ckpt/image/iosched"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

func TestConform(t *testing.T) {
	turn := NewClient(t.TempDir(), Who{}, ClientOptions{}).Begin(Burst{})
	defer turn.End()
	testkit.Conform(t, turn.FS(vfs.OS{}), t.TempDir())
	testkit.Conform(t, turn.FS(memfs.New()), "/")
	if fsys := (*Turn)(nil).FS(vfs.OS{}); fsys != (vfs.OS{}) {
		t.Errorf("no turn makes a %T", fsys)
	}
}

// TestAbilities finds what the machine can do in the wrapped one, and ErrUnsupported where
// it cannot.
func TestAbilities(t *testing.T) {
	turn := NewClient(t.TempDir(), Who{}, ClientOptions{}).Begin(Burst{})
	defer turn.End()
	name := filepath.Join(t.TempDir(), "f")
	for fsys, want := range map[vfs.FS]error{vfs.OS{}: nil, plainFS{vfs.Through(vfs.OS{})}: errors.ErrUnsupported} {
		wrapped := turn.FS(fsys)
		f, err := wrapped.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		for ability, err := range map[string]error{
			"preallocate": f.Preallocate(4096), "truncate": f.Truncate(100),
			"forget": f.Forget(),
			"reopen": opened(f.ReopenDirect()), "create": opened(wrapped.CreateDirect(name + "d")),
			"open": opened(wrapped.OpenDirect(name)), "write": opened(wrapped.OpenWriteDirect(name)),
		} {
			if !errors.Is(err, want) {
				t.Errorf("%T: %s returned %v, want %v", fsys, ability, err, want)
			}
		}
		if err := errors.Join(f.Close(), fsys.Remove(name)); err != nil {
			t.Error(err)
		}
	}
}

// opened closes a file, and returns the error of its opening unless it is that of a file system
// without direct I/O.
func opened(f vfs.File, err error) error {
	if err == nil {
		if _, waits := f.(*file); !waits {
			return errors.New("the file does not wait for the turn")
		}
		return f.Close()
	}
	return ignore(err, syscall.EINVAL)
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// TestFileMoves moves bytes in each way, with and without the abilities of the machine.
func TestFileMoves(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"os": vfs.OS{}, "plain": plainFS{vfs.Through(vfs.OS{})}} {
		turn := NewClient(t.TempDir(), Who{}, ClientOptions{}).Begin(Burst{})
		f, err := turn.FS(fsys).Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		long := bytes.Repeat([]byte("0123456789abcdef"), Threshold/16)
		bufs := [][]byte{long[:10], long[10:20], long[20:]}
		v := f
		if n, err := v.WriteV(bufs, 0); n != Threshold || err != nil {
			t.Errorf("%s: wrote %d, %v", name, n, err)
		}
		if n, err := f.WriteAt(long, Threshold); n != Threshold || err != nil {
			t.Errorf("%s: wrote %d, %v", name, n, err)
		}
		if err := f.Sync(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		into := [][]byte{make([]byte, 1000), make([]byte, Threshold), make([]byte, Threshold)}
		if n, err := v.ReadV(into, 0); n != 2*Threshold || err != nil {
			t.Errorf("%s: read %d, %v", name, n, err)
		}
		if got := bytes.Join(into, nil)[:2*Threshold]; !bytes.Equal(got, append(bytes.Clone(long), long...)) {
			t.Errorf("%s: other bytes came back", name)
		}
		if n, err := v.ReadV(into, 2*Threshold); n != 0 || err != nil {
			t.Errorf("%s: read %d, %v at the end", name, n, err)
		}
		if n, err := f.ReadAt(into[0], 2*Threshold-10); n != 10 || err != io.EOF {
			t.Errorf("%s: read %d, %v across the end", name, n, err)
		}
		f.Close()
		if r := turn.End(); r.Bytes != 4*Threshold+10 {
			t.Errorf("%s: %d bytes moved, want %d", name, r.Bytes, 4*Threshold+10)
		}
		if _, err := turn.FS(fsys).Open("/no/file"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// plainFS hides what a file system can do beyond vfs.FS.
type plainFS struct{ vfs.Buffered }

func (p plainFS) Create(name string) (vfs.File, error) {
	f, err := p.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return vfs.Only(f), nil
}

// TestFileWaits holds long operations and the Sync after them back, and lets short ones
// pass. After End nothing waits.
func TestFileWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnit(t, ServeOptions{Arbiter: iosched.TurnOptions{Policy: "fifo"}})
		first := u.client("a", ClientOptions{}).Begin(Burst{Bytes: part})
		hold(t, first)
		turn := u.client("b", ClientOptions{}).Begin(Burst{Bytes: part})
		f, err := turn.FS(u.fs).Create("/unit/f")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := f.WriteAt(make([]byte, Threshold-1), 0); err != nil || f.Sync() != nil || time.Since(began) > 0 {
			t.Errorf("a short write took %v, %v", time.Since(began), err)
		}
		time.AfterFunc(second, func() { first.End() })
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := f.WriteAt(make([]byte, Threshold), 0); err != nil || time.Since(began) != second {
				t.Errorf("a write took %v, %v", time.Since(began), err)
			}
		})
		both.Go(func() {
			if _, err := f.ReadAt(make([]byte, Threshold), 0); err != nil && err != io.EOF || time.Since(began) != second {
				t.Errorf("a read took %v, %v", time.Since(began), err)
			}
		})
		both.Wait()
		// The Sync of the long write waits, too; then comes the end.
		next := u.client("c", ClientOptions{}).Begin(Burst{Bytes: part})
		time.Sleep(second)
		hold(t, next)
		began = time.Now()
		var syncing sync.WaitGroup
		syncing.Go(func() {
			if err := f.Sync(); err != nil || time.Since(began) != second {
				t.Errorf("a sync took %v, %v", time.Since(began), err)
			}
		})
		time.Sleep(second)
		if r := turn.End(); r.Waited != 2*second || r.Times != 2 {
			t.Errorf("report %+v", r)
		}
		syncing.Wait()
		if _, err := f.WriteAt(make([]byte, Threshold), 0); err != nil || time.Since(began) != second {
			t.Error("a write waits after the end")
		}
		next.End()
	})
}
