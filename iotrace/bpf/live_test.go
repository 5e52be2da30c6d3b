//go:build linux && amd64

package bpf

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/strace"
)

// acting has this test binary act as a recorded program.
const acting = "CKPT_BPF_PROGRAM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(acting); dir != "" {
		if err := act(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// act makes calls of many kinds on files of a directory.
func act(dir string) (err error) {
	must := func(e error) {
		if err == nil && e != nil {
			err = e
		}
	}
	fd := func(n int, e error) int { must(e); return n }
	must(os.Chdir(dir))
	must(os.Mkdir("sub", 0o700))
	must(os.Symlink("sub", "link"))
	page := make([]byte, 4096)

	a := fd(unix.Open("link/a", unix.O_CREAT|unix.O_RDWR|unix.O_TRUNC, 0o600))
	fd(unix.Write(a, page))
	fd(unix.Pwrite(a, page, 8192))
	fd(unix.Writev(a, [][]byte{page[:10], page[:20]}))
	fd(unix.Pwritev(a, [][]byte{page[:30]}, 100))
	fd(unix.Pwritev2(a, [][]byte{page[:40]}, -1, 0))
	fd(unix.Pread(a, page[:7], 5))
	fd(unix.Preadv2(a, [][]byte{page[:8]}, 6, 0))
	_, e := unix.Seek(a, -10, io.SeekEnd)
	must(e)
	fd(unix.Read(a, page[:100]))
	must(unix.Fsync(a))
	must(unix.Fdatasync(a))
	must(unix.Ftruncate(a, 20000))
	must(unix.Fallocate(a, 0, 0, 30000))
	var st unix.Stat_t
	must(unix.Fstat(a, &st))
	must(unix.Stat("sub/a", &st))
	var sx unix.Statx_t
	must(unix.Statx(unix.AT_FDCWD, "sub/a", 0, unix.STATX_ALL, &sx))
	must(unix.Access("sub/a", unix.R_OK))
	if _, e := unix.Open("sub/none", unix.O_RDONLY, 0); e == nil {
		must(os.ErrExist)
	}

	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 4096, Len: 512}
	for _, how := range []int{unix.F_SETLK, unix.F_SETLKW} {
		must(unix.FcntlFlock(uintptr(a), how, &lock))
	}
	lock.Type, lock.Start = unix.F_UNLCK, 0
	must(unix.FcntlFlock(uintptr(a), unix.F_SETLKW, &lock))
	lock.Type, lock.Whence, lock.Start = unix.F_RDLCK, io.SeekCurrent, 9
	must(unix.FcntlFlock(uintptr(a), unix.F_OFD_SETLKW, &lock))
	must(unix.Flock(a, unix.LOCK_EX))
	must(unix.Flock(a, unix.LOCK_UN))

	shared, e := unix.Mmap(a, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(e)
	if err != nil {
		return err
	}
	must(unix.Msync(shared[4096:], unix.MS_SYNC))
	must(unix.Munmap(shared))

	b := fd(unix.Openat2(unix.AT_FDCWD, "b", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0o600}))
	from, to := int64(100), int64(50)
	fd(unix.CopyFileRange(a, &from, b, &to, 500, 0))
	from = 7
	fd(unix.Sendfile(b, a, &from, 60))
	d := fd(unix.Dup(b))
	fd(unix.Write(d, page[:11]))
	must(unix.Dup3(a, d, unix.O_CLOEXEC))
	fd(unix.Pwrite(d, page[:12], 0))
	e2 := fd(unix.FcntlInt(uintptr(b), unix.F_DUPFD_CLOEXEC, 50))
	fd(unix.Pwrite(e2, page[:13], 1))
	must(unix.CloseRange(50, 60, 0))

	for _, flags := range []int{unix.O_SYNC, unix.O_DSYNC} {
		s := fd(unix.Open("synced", unix.O_CREAT|unix.O_WRONLY|flags, 0o600))
		fd(unix.Write(s, page[:21]))
		must(unix.Close(s))
	}
	fd(unix.Pwritev2(a, [][]byte{page[:22]}, 0, unix.RWF_DSYNC))
	fd(unix.Pwritev2(a, [][]byte{page[:23]}, 0, unix.RWF_SYNC))

	log := fd(unix.Open("log", unix.O_CREAT|unix.O_WRONLY|unix.O_APPEND, 0o600))
	fd(unix.Write(log, page[:5]))
	fd(unix.Write(log, page[:6]))
	must(unix.Rename("log", "old log \"<1>\""))
	fd(unix.Write(log, page[:7]))
	must(unix.Truncate("b", 9))
	must(unix.Link("b", "c"))
	must(unix.Unlink("b"))
	must(unix.Renameat2(unix.AT_FDCWD, "c", unix.AT_FDCWD, "link", unix.RENAME_EXCHANGE))

	var p [2]int
	must(unix.Pipe2(p[:], unix.O_CLOEXEC))
	fd(unix.Write(p[1], page[:100]))
	_, e = unix.Splice(p[0], nil, a, nil, 10, 0)
	must(e)
	m := fd(unix.MemfdCreate("memory", unix.MFD_CLOEXEC))
	fd(unix.Write(m, page[:3]))

	// Threads share descriptors.
	var threads sync.WaitGroup
	for i := range 4 {
		threads.Go(func() {
			for j := range 20 {
				unix.Pwrite(a, page[:64], int64(i*20+j)*64)
			}
		})
	}
	threads.Wait()

	child := exec.Command("/bin/sh", "-c", "cat sub/a > copied; echo x >> copied; (cd sub; echo y > z)")
	must(child.Run())
	must(unix.Close(log))
	return err
}

// recorder opens a recorder, or skips the test.
func recorder(t *testing.T) *Recorder {
	t.Helper()
	r, err := Open()
	if err != nil {
		testkit.Skip(t, fmt.Sprintf("eBPF: %v", err))
	}
	t.Cleanup(r.Close)
	return r
}

// recordCommand records a command.
func recordCommand(t *testing.T, cmd *exec.Cmd) (*iotrace.Trace, *iotrace.Report) {
	t.Helper()
	r := recorder(t)
	var b bytes.Buffer
	x, err := r.Start(cmd, &b)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() >= 0 {
		t.Error(err)
	}
	x.Wait()
	if err := x.Finish(); err != nil {
		t.Fatal(err)
	}
	tr, rep, err := x.Import(&b, iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Unknown > 0 {
		t.Errorf("%d records were not understood: %v", rep.Unknown, rep.Notes)
	}
	return tr, rep
}

// operations are the events on the files below a directory, in an order of their own.
func operations(tr *iotrace.Trace, dir string) (out []string) {
	for _, e := range tr.Events {
		if e.File < 0 || !strings.HasPrefix(tr.Files[e.File], dir+"/") && e.Op != iotrace.Sync {
			continue
		}
		out = append(out, fmt.Sprint(e.Op, " ", strings.TrimPrefix(tr.Files[e.File], dir), " ", e.Offset, " ", e.Bytes))
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}

// TestBesideStrace records a program both ways.
func TestBesideStrace(t *testing.T) {
	testkit.All(t, "strace")
	var got [2][]string
	var warnings [2][]iotrace.Warning
	for i := range got {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var tr *iotrace.Trace
		command := []string{os.Args[0]}
		if i == 0 {
			text := filepath.Join(t.TempDir(), "text")
			command = slices.Concat([]string{"strace"}, strace.Flags(false), []string{"-o", text, "--"}, command)
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Env = append(os.Environ(), acting+"="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			f, err := os.Open(text)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if tr, _, err = strace.Read(f, iotrace.Options{}); err != nil {
				t.Fatal(err)
			}
		} else {
			cmd := exec.Command(command[0])
			cmd.Env, cmd.Stderr = append(os.Environ(), acting+"="+dir), os.Stderr
			tr, _ = recordCommand(t, cmd)
		}
		got[i], warnings[i] = operations(tr, dir), tr.Warnings
	}
	if len(got[0]) < 100 {
		t.Errorf("strace recorded only %d operations", len(got[0]))
	}
	if !slices.Equal(got[0], got[1]) {
		t.Errorf("strace\n%s\neBPF\n%s", without(got[0], got[1]), without(got[1], got[0]))
	}
	told := func(list []iotrace.Warning) (out []string) {
		for _, w := range list {
			out = append(out, fmt.Sprint(w.Code, " ", w.Count, " ", w.Bytes))
		}
		return out
	}
	if a, b := told(warnings[0]), told(warnings[1]); !slices.Equal(a, b) || !slices.Contains(a, "sync-writes 4 87") {
		t.Errorf("strace %q, eBPF %q", a, b)
	}
}

// without returns the lines of a that b lacks.
func without(a, b []string) string {
	count := make(map[string]int)
	for _, s := range b {
		count[s]++
	}
	var out []string
	for _, s := range a {
		if count[s]--; count[s] < 0 {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n")
}

// TestKilled keeps what a program did before SIGKILL. The kernel ends the call that it is
// in: it has moved nothing.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "echo x > "+dir+"/before; echo $$ > "+dir+"/pid; exec 3<>"+fifo+"; read y <&3")
	go func() {
		for {
			b, _ := os.ReadFile(filepath.Join(dir, "pid"))
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err == nil && inCall(pid, unix.SYS_READ) {
				unix.Kill(pid, unix.SIGKILL)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	tr, rep := recordCommand(t, cmd)
	if got := strings.Join(operations(tr, dir), "\n"); !strings.Contains(got, "write /before 0 2") {
		t.Error(got)
	}
	if rep.Failed == 0 {
		t.Error("the read that was interrupted is not counted")
	}
}

// inCall says whether a process is in a system call.
func inCall(pid, number int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
	return err == nil && strings.HasPrefix(string(b), fmt.Sprintf("%d ", number))
}

// TestOthers records nobody else.
func TestOthers(t *testing.T) {
	other := exec.Command("/bin/sh", "-c", "while :; do echo x > "+t.TempDir()+"/other; done")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	dir := t.TempDir()
	tr, _ := recordCommand(t, exec.Command("/bin/sh", "-c", "echo x > "+dir+"/mine; sleep 0.1"))
	for _, f := range tr.Files {
		if strings.HasSuffix(f, "/other") {
			t.Errorf("%s is of another program", f)
		}
	}
	if got := operations(tr, dir); !slices.Contains(got, "write /mine 0 2") {
		t.Errorf("the write of the command is missing: %q", got)
	}
}

// TestLost counts the records that are lost while a slow writer leaves the ring full.
func TestLost(t *testing.T) {
	was := ringSize
	ringSize = 1 << 20
	defer func() { ringSize = was }()
	r := recorder(t)
	cmd := exec.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=50000")
	w := &slowWriter{until: make(chan struct{})}
	x, err := r.Start(cmd, w)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	close(w.until)
	x.Wait()
	if err := x.Finish(); err != nil {
		t.Fatal(err)
	}
	tr, _, err := x.Import(&w.Buffer, iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range tr.Warnings {
		if warning.Code == "lost" && warning.Count > 0 {
			return
		}
	}
	t.Errorf("no warning of lost records: %v", tr.Warnings)
}

// A slowWriter takes nothing before a channel is closed.
type slowWriter struct {
	bytes.Buffer
	until chan struct{}
}

func (w *slowWriter) Write(b []byte) (int, error) {
	<-w.until
	return w.Buffer.Write(b)
}

// TestNumbers needs a number for each call.
func TestNumbers(t *testing.T) {
	for _, s := range syscalls {
		if _, ok := numbers[s.name]; !ok {
			t.Errorf("%s has no number", s.name)
		}
	}
	if len(numbers) != len(syscalls) {
		t.Errorf("%d numbers for %d calls", len(numbers), len(syscalls))
	}
}
