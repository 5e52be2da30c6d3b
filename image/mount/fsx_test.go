package mount

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/image/iosched"
	"ckpt/image/iosched/live"
	"ckpt/internal/testkit"
)

// A door is a gate of one unit, for tests.
type door struct {
	unit     *live.Unit
	programs Programs
}

func (d *door) Move(r *Request, part func(off, bytes int64) error) error {
	p := d.programs.Of(r)
	q := &iosched.Request{App: p.App, Rank: p.Process, File: r.Name, Offset: r.Offset, Bytes: r.Bytes}
	if r.Op != Read {
		q.Op = iosched.Write
	}
	return d.unit.Move(q, part)
}

// watched counts requests.
type watched struct{}

func (watched) Done(*Request, time.Time, time.Time) {}

const fsxBytes = 1 << 18

// TestFSX does random operations through several open files, and memory that maps the file, and
// compares each read with a model: plain, with requests in order, and with each call seen.
func TestFSX(t *testing.T) {
	ops := 600
	if os.Getenv("CKPT_NIGHTLY") != "" {
		ops = 1_000_000
	}
	for _, mode := range []string{"plain", "ordered", "seen"} {
		t.Run(mode, func(t *testing.T) {
			testkit.All(t, "fuse")
			dir, at := t.TempDir(), t.TempDir()
			daemon := startDaemon(t, dir, at, mode)
			f := &fsx{t: t, rng: rand.New(rand.NewPCG(42, 1)), path: filepath.Join(at, "file"), under: filepath.Join(dir, "file")}
			for i := 0; i < ops && !t.Failed(); i++ {
				f.step(i)
			}
			f.close()
			if err := detach(at); err != nil {
				t.Error(err)
			}
			if err := daemon.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// startDaemon has a process of its own serve a mount: one that maps files which it serves itself
// waits for itself.
func startDaemon(t *testing.T, dir, at, mode string) *exec.Cmd {
	t.Helper()
	daemon := exec.Command(os.Args[0])
	daemon.Env = append(os.Environ(), "MOUNT_DIR="+dir, "MOUNT_AT="+at, "MOUNT_MODE="+mode)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "mounted\n" {
		t.Fatalf("the daemon says %q, %v", line, err)
	}
	return daemon
}

// TestMain is also the daemon of tests, and a process of an application.
func TestMain(m *testing.M) {
	if path := os.Getenv("MOUNT_STRIDE"); path != "" {
		if err := stride(path, os.Getenv("MOUNT_HOW")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir := os.Getenv("MOUNT_DIR")
	if dir == "" {
		os.Exit(m.Run())
	}
	o := StorageOptions{}
	switch os.Getenv("MOUNT_MODE") {
	case "ordered":
		u, err := live.New("disk", "mlf", live.Options{})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		o.Gate = &door{unit: u}
	case "seen":
		o.Watch = watched{}
	}
	mounted, err := Storage(dir, os.Getenv("MOUNT_AT"), o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("mounted")
	mounted.Wait()
}

// fsx is a file, a model of its bytes, and those who have it open.
type fsx struct {
	t           *testing.T
	rng         *rand.Rand
	path, under string
	open        []*os.File
	want        []byte
}

func (f *fsx) close() {
	for _, o := range f.open {
		o.Close()
	}
}

func (f *fsx) step(i int) {
	f.t.Helper()
	if len(f.open) < 3 {
		o, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			f.t.Fatal(err)
		}
		f.open = append(f.open, o)
	}
	at := f.rng.IntN(len(f.open))
	o := f.open[at]
	off, n := f.rng.IntN(fsxBytes), 1+f.rng.IntN(fsxBytes/4)
	what, err := "", error(nil)
	switch f.rng.IntN(10) {
	case 0, 1, 2:
		what = "write"
		b := make([]byte, n)
		for j := range b {
			b[j] = byte(i + j)
		}
		_, err = o.WriteAt(b, int64(off))
		f.put(b, off)
	case 3, 4, 5:
		what = "read"
		f.compare(i, o, off, n)
	case 6:
		what = "truncate"
		err = o.Truncate(int64(off))
		f.resize(off)
	case 7:
		what = "map"
		err = f.mapped(i, o, off, n)
	case 8:
		what = "sync, and look below"
		if err = o.Sync(); err == nil {
			var got []byte
			if got, err = os.ReadFile(f.under); err == nil && !bytes.Equal(got, f.want) {
				err = errors.New("the directory has other bytes")
			}
		}
	case 9:
		what = "close and rename"
		err = errors.Join(o.Close(), os.Rename(f.path, f.path+"2"), os.Rename(f.path+"2", f.path))
		f.open = append(f.open[:at], f.open[at+1:]...)
	}
	if err != nil {
		f.t.Fatalf("operation %d: %s %d bytes at %d: %v", i, what, n, off, err)
	}
}

func (f *fsx) resize(n int) {
	if n <= len(f.want) {
		f.want = f.want[:n]
		return
	}
	f.want = append(f.want, make([]byte, n-len(f.want))...)
}

func (f *fsx) put(b []byte, off int) {
	f.resize(max(len(f.want), off+len(b)))
	copy(f.want[off:], b)
}

func (f *fsx) compare(i int, o *os.File, off, n int) {
	b := make([]byte, n)
	got, _ := o.ReadAt(b, int64(off))
	want := f.want[min(off, len(f.want)):min(off+n, len(f.want))]
	if !bytes.Equal(b[:got], want) {
		f.t.Fatalf("operation %d: read %d bytes at %d of %d: other bytes", i, got, off, len(f.want))
	}
}

// mapped reads and writes through a mapping of the whole file.
func (f *fsx) mapped(i int, o *os.File, off, n int) error {
	if len(f.want) == 0 {
		return nil
	}
	m, err := unix.Mmap(int(o.Fd()), 0, len(f.want), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if !bytes.Equal(m, f.want) {
		err = errors.New("the mapping has other bytes")
	}
	off = min(off, len(m)-1)
	for j := off; j < min(off+n, len(m)); j++ {
		m[j] = byte(i * j)
		f.want[j] = m[j]
	}
	return errors.Join(err, unix.Msync(m, unix.MS_SYNC), unix.Munmap(m))
}

// TestKilledStorage kills the daemon while a program writes: bytes that fsync acknowledged are
// there, the program gets an error and does not hang, and the directory is mounted again.
func TestKilledStorage(t *testing.T) {
	testkit.All(t, "fuse")
	dir, at := t.TempDir(), t.TempDir()
	rounds := 3
	if os.Getenv("CKPT_NIGHTLY") != "" {
		rounds = 100
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for round := range rounds {
		daemon := startDaemon(t, dir, at, "seen")
		f, err := os.Create(filepath.Join(at, "file"))
		if err != nil {
			t.Fatal(err)
		}
		after, acknowledged := 1+rng.IntN(20), 0
		block := bytes.Repeat([]byte{byte(round + 1)}, 10_000)
		for err == nil {
			if _, err = f.WriteAt(block, int64(acknowledged*len(block))); err == nil {
				if err = f.Sync(); err == nil {
					acknowledged++
				}
			}
			if acknowledged == after {
				after = -1
				go daemon.Process.Kill()
			}
		}
		f.Close()
		daemon.Wait()
		if !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ECONNABORTED) {
			t.Errorf("the program got %v", err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "file"))
		if want := bytes.Repeat(block, acknowledged); err != nil || !bytes.HasPrefix(got, want) {
			t.Errorf("%d bytes of %d that were acknowledged, %v", len(got), len(want), err)
		}
	}
	if err := detach(at); err != nil {
		t.Error(err)
	}
}
