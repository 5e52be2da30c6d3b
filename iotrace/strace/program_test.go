package strace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary is also the programs that are traced. Each says what it did,
// a line of JSON for each process.
const (
	programEnv = "CKPT_STRACE_PROGRAM"
	dirEnv     = "CKPT_STRACE_DIR"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(programEnv); name != "" {
		p := &program{dir: os.Getenv(dirEnv), Files: make(map[string]*tally)}
		programs[name](p)
		b, err := json.Marshal(p.Files)
		p.must(err)
		_, err = os.Stdout.Write(append(b, '\n'))
		p.must(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A tally is what was done to a file.
type tally struct {
	Opens     int   `json:",omitempty"`
	Closes    int   `json:",omitempty"`
	Reads     int   `json:",omitempty"`
	ReadBytes int64 `json:",omitempty"`
	Writes    int   `json:",omitempty"`
	Bytes     int64 `json:",omitempty"`
	Seeks     int   `json:",omitempty"`
	Syncs     int   `json:",omitempty"`
	Truncates int   `json:",omitempty"`
	Mmaps     int   `json:",omitempty"`
	Renames   int   `json:",omitempty"`
	Unlinks   int   `json:",omitempty"`
	// Checked: each write is of one letter, and none goes over another, so that
	// the contents of the file show where it went.
	Checked bool `json:",omitempty"`
}

type program struct {
	dir   string
	mu    sync.Mutex
	Files map[string]*tally
}

func (p *program) must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(3)
	}
}

func (p *program) path(name string) string { return filepath.Join(p.dir, name) }

// of counts something done to a file, once it is done.
func (p *program) of(name string, count func(*tally)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Files[name] == nil {
		p.Files[name] = &tally{}
	}
	count(p.Files[name])
}

// A handle is a descriptor of a file of that name.
type handle struct {
	*program
	fd   int
	name string
}

func (p *program) open(name string, flags int) handle {
	fd, err := unix.Open(p.path(name), flags, 0o644)
	p.must(err)
	p.of(name, func(t *tally) { t.Opens++ })
	return handle{p, fd, name}
}

// moved counts a read or write.
func (h handle) moved(write bool, n int, err error) {
	h.must(err)
	h.of(h.name, func(t *tally) {
		if write {
			t.Writes++
			t.Bytes += int64(n)
		} else {
			t.Reads++
			t.ReadBytes += int64(n)
		}
	})
}

func run(letter byte, n int) []byte { return bytes.Repeat([]byte{letter}, n) }

func (h handle) write(letter byte, n int) {
	n, err := unix.Write(h.fd, run(letter, n))
	h.moved(true, n, err)
}

func (h handle) pwrite(letter byte, n int, off int64) {
	n, err := unix.Pwrite(h.fd, run(letter, n), off)
	h.moved(true, n, err)
}

func (h handle) read(n int) {
	n, err := unix.Read(h.fd, make([]byte, n))
	h.moved(false, n, err)
}

func (h handle) pread(n int, off int64) {
	n, err := unix.Pread(h.fd, make([]byte, n), off)
	h.moved(false, n, err)
}

func (h handle) seek(off int64, whence int) {
	_, err := unix.Seek(h.fd, off, whence)
	h.must(err)
	h.of(h.name, func(t *tally) { t.Seeks++ })
}

func (h handle) sync() {
	h.must(unix.Fsync(h.fd))
	h.of(h.name, func(t *tally) { t.Syncs++ })
}

func (h handle) close() {
	h.must(unix.Close(h.fd))
	h.of(h.name, func(t *tally) { t.Closes++ })
}

func (h handle) checked() { h.of(h.name, func(t *tally) { t.Checked = true }) }

var programs map[string]func(*program)

func init() {
	programs = map[string]func(*program){"plain": plain, "append": appending, "threads": threads, "children": children, "child": child, "vectors": vectors,
		"drawn": drawnProgram, "drawnchild": drawnChild}
}

// plain is one process with one descriptor at a time.
func plain(p *program) {
	h := p.open("a file, \"quoted\" <1>", unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	h.write('a', 100)
	h.write('b', 200)
	h.pwrite('c', 50, 1000)
	h.write('d', 300)
	h.seek(0, io.SeekStart)
	h.read(70)
	h.pread(30, 10)
	h.read(5000) // as much as there is
	h.read(10)   // nothing
	h.sync()
	h.close()
	tmp := p.open("image.tmp", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC)
	tmp.write('e', 8192)
	p.must(unix.Ftruncate(tmp.fd, 4096))
	p.of(tmp.name, func(t *tally) { t.Truncates++ })
	tmp.sync()
	tmp.close()
	p.must(unix.Rename(p.path("image.tmp"), p.path("image")))
	p.of("image.tmp", func(t *tally) { t.Renames++ })
	h = p.open("image", unix.O_RDONLY)
	h.seek(-10, io.SeekEnd)
	h.read(100)
	h.close()
	if _, err := unix.Open(p.path("missing"), unix.O_RDONLY, 0); err == nil {
		p.must(fmt.Errorf("there is a missing file"))
	}
	p.must(unix.Unlink(p.path("image")))
	p.of("image", func(t *tally) { t.Unlinks++ })
}

// appending writes through descriptors that append.
func appending(p *program) {
	h := p.open("log", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_APPEND)
	h.checked()
	other := p.open("log", unix.O_WRONLY|unix.O_APPEND)
	h.write('a', 10)
	other.write('b', 20)
	h.write('c', 30)
	fd, err := unix.Dup(other.fd)
	p.must(err)
	dup := handle{p, fd, "log"}
	dup.write('d', 40)
	other.close()
	dup.write('e', 50)
	h.pwrite('f', 60, 0) // appends, on Linux
	h.write('g', 70)
	h.close()
	dup.close()
	in := p.open("log", unix.O_RDONLY)
	in.read(1000)
	in.close()
}

// threads work at the same time, each in a thread of its own.
func threads(p *program) {
	const workers, rounds = 4, 6
	shared := p.open("shared", unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	shared.checked()
	turns := p.open("turns", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC)
	turns.checked()
	var turn sync.Mutex
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			runtime.LockOSThread()
			own := p.open(fmt.Sprint("own", w), unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
			for r := range rounds {
				letter := byte('a' + w*rounds + r)
				own.write(letter, 100*(w+1)+r)
				shared.pwrite(letter, 512, int64(r*workers+w)*512)
				turn.Lock() // whose bytes come first is else decided after the call began
				turns.write(letter, 10*(w+1)+r)
				turn.Unlock()
				own.sync()
			}
			own.seek(0, io.SeekStart)
			own.read(1 << 20)
			own.close()
		})
	}
	wg.Wait()
	shared.sync()
	shared.close()
	turns.close()
}

// children share a descriptor with their parent, and close or keep others.
func children(p *program) {
	h := p.open("shared", unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	h.checked()
	h.write('a', 1000)
	for i := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), programEnv+"=child", fmt.Sprintf("CHILD=%d", i))
		cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(h.fd), "shared")}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Dir = p.dir
		p.must(cmd.Run())
		runtime.KeepAlive(cmd)
		cmd.ExtraFiles[0] = nil
		h.write(byte('b'+i), 10+i)
	}
}

// child has its parent's file as descriptor 3, at its parent's position.
func child(p *program) {
	var n int
	_, err := fmt.Sscan(os.Getenv("CHILD"), &n)
	p.must(err)
	h := handle{p, 3, "shared"}
	h.write(byte('A'+n), 100+n)
	h.checked()
	// A relative path, in the directory that the parent has set.
	name := fmt.Sprint("own", n)
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o644)
	p.must(err)
	p.of(name, func(t *tally) { t.Opens++ })
	own := handle{p, fd, name}
	own.write('x', 7)
	own.close()
	h.close()
}

// vectors uses the rarer calls.
func vectors(p *program) {
	h := p.open("v", unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
	n, err := unix.Writev(h.fd, [][]byte{run('a', 100), run('b', 200)})
	h.moved(true, n, err)
	n, err = unix.Pwritev(h.fd, [][]byte{run('c', 50), run('d', 60)}, 5000)
	h.moved(true, n, err)
	n, err = unix.Pwritev2(h.fd, [][]byte{run('e', 40)}, -1, 0) // at the position
	h.moved(true, n, err)
	h.seek(0, io.SeekStart)
	n, err = unix.Readv(h.fd, [][]byte{make([]byte, 10), make([]byte, 20)})
	h.moved(false, n, err)
	n, err = unix.Preadv(h.fd, [][]byte{make([]byte, 30)}, 100)
	h.moved(false, n, err)

	out := p.open("out", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	out.checked()
	n, err = unix.Sendfile(out.fd, h.fd, nil, 60) // from position 30
	h.moved(false, n, err)
	out.moved(true, n, err)
	off := int64(300)
	n, err = unix.Sendfile(out.fd, h.fd, &off, 25)
	h.moved(false, n, err)
	out.moved(true, n, err)
	in := int64(5000)
	n, err = unix.CopyFileRange(h.fd, &in, out.fd, nil, 50, 0)
	h.moved(false, n, err)
	out.moved(true, n, err)

	var pipe [2]int
	p.must(unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	long, err := unix.Splice(h.fd, nil, pipe[1], nil, 10, 0) // from position 90
	h.moved(false, int(long), err)
	long, err = unix.Splice(pipe[0], nil, out.fd, nil, 10, 0)
	out.moved(true, int(long), err)
	p.must(unix.Close(pipe[0]))
	p.must(unix.Close(pipe[1]))

	fd, err := unix.FcntlInt(uintptr(out.fd), unix.F_DUPFD_CLOEXEC, 50)
	p.must(err)
	p.must(unix.Dup3(h.fd, 60, 0))
	dup, third := handle{p, fd, "out"}, handle{p, 60, "v"}
	dup.write('f', 5) // behind what out has written
	third.read(8)     // behind position 100
	p.must(unix.Fallocate(out.fd, 0, 0, 1<<16))
	p.of("out", func(t *tally) { t.Truncates++ })
	p.must(unix.Fdatasync(out.fd))
	p.of("out", func(t *tally) { t.Syncs++ })
	mem, err := unix.Mmap(out.fd, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	p.must(err)
	p.of("out", func(t *tally) { t.Mmaps++ })
	p.must(unix.Munmap(mem))
	p.must(unix.CloseRange(50, 60, 0))
	p.of("out", func(t *tally) { t.Closes++ })
	p.of("v", func(t *tally) { t.Closes++ })
	// By a descriptor of the directory, and by another working directory.
	dir, err := unix.Open(p.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	p.must(err)
	fd, err = unix.Openat(dir, "at", unix.O_WRONLY|unix.O_CREAT, 0o600)
	p.must(err)
	p.of("at", func(t *tally) { t.Opens++ })
	at := handle{p, fd, "at"}
	at.write('y', 11)
	at.close()
	p.must(unix.Fchdir(dir))
	p.must(unix.Renameat(dir, "at", unix.AT_FDCWD, "moved"))
	p.of("at", func(t *tally) { t.Renames++ })
	p.must(unix.Unlinkat(dir, "moved", 0))
	p.of("moved", func(t *tally) { t.Unlinks++ })
	out.close()
	h.close()
}
