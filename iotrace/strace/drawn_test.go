package strace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
)

// A drawn program does what its seed says. Each read and write has a length of its own, so
// that an event tells which one it is.
type drawn struct {
	*rand.Rand
	dir   string
	next  int
	Moved map[string]moved // by the number of bytes
	kept  []*os.File       // whose end would close their descriptors
}

// moved is a read or write: the names that its file had, from its open to its end.
type moved struct {
	Write bool
	Names []string // by now; the file is the last one
	file  *drawnFile
}

type drawnFile struct{ names []string }

type drawnFD struct {
	fd   int
	file *drawnFile
}

const drawnEnv = "CKPT_STRACE_SEED"

func drawnProgram(*program) {
	runtime.LockOSThread()
	seed, _ := strconv.ParseUint(os.Getenv(drawnEnv), 10, 64)
	p := &drawn{Rand: rand.New(rand.NewPCG(seed, 7)), dir: os.Getenv(dirEnv), Moved: make(map[string]moved)}
	must := (*program)(nil).must
	if p.IntN(2) == 0 {
		must(os.Chdir(p.dir))
	}
	names := []string{"a", "b b", "c<1>", "d, \"q\"", "e (deleted)", "f\n\xc3\xa9", "sub/g"}
	must(os.MkdirAll(filepath.Join(p.dir, "sub"), 0o755))
	at := make(map[string]*drawnFile)
	var fds []drawnFD
	pathOf := func(name string) string {
		if wd, _ := os.Getwd(); wd == p.dir && p.IntN(2) == 0 {
			return name
		}
		return filepath.Join(p.dir, name)
	}
	step := func() {
		name := names[p.IntN(len(names))]
		switch k := p.IntN(12); {
		case k < 3 || len(fds) == 0:
			flags := unix.O_RDWR | unix.O_CREAT
			if p.IntN(3) == 0 {
				flags |= unix.O_TRUNC
			}
			if p.IntN(4) == 0 {
				flags |= unix.O_APPEND
			}
			fd, err := unix.Open(pathOf(name), flags, 0o644)
			must(err)
			if at[name] == nil {
				at[name] = &drawnFile{names: []string{name}}
			}
			fds = append(fds, drawnFD{fd, at[name]})
		case k < 8:
			p.move(fds[p.IntN(len(fds))])
		case k == 8:
			i := p.IntN(len(fds))
			must(unix.Close(fds[i].fd))
			fds = slices.Delete(fds, i, i+1)
		case k == 9:
			d := fds[p.IntN(len(fds))]
			fd, err := unix.Dup(d.fd)
			must(err)
			fds = append(fds, drawnFD{fd, d.file})
		case at[name] == nil:
		case k == 10:
			to := names[p.IntN(len(names))]
			if to == name {
				return
			}
			must(unix.Rename(pathOf(name), pathOf(to)))
			at[name].names = append(at[name].names, to)
			at[to] = at[name]
			delete(at, name)
		default:
			must(unix.Unlink(pathOf(name)))
			delete(at, name)
		}
	}
	for range 8 + p.IntN(25) {
		switch p.IntN(10) {
		case 0: // a thread, which shares the descriptors
			var wg sync.WaitGroup
			wg.Go(func() {
				runtime.LockOSThread()
				for range 1 + p.IntN(4) {
					step()
				}
			})
			wg.Wait()
		case 1: // a child, which inherits them
			if len(fds) > 0 {
				p.child(fds[p.IntN(len(fds))])
			}
		default:
			step()
		}
	}
	for n, m := range p.Moved {
		m.Names = m.file.names
		p.Moved[n] = m
	}
	b, err := json.Marshal(p.Moved)
	must(err)
	must(os.WriteFile(os.Getenv("CKPT_STRACE_SAID"), b, 0o600))
}

// length is one that no other request has.
func (p *drawn) length() int { p.next++; return 10 + p.next }

func (p *drawn) said(n int, write bool, f *drawnFile) {
	if n > 10 {
		p.Moved[strconv.Itoa(n)] = moved{Write: write, file: f}
	}
}

func (p *drawn) move(d drawnFD) {
	n := p.length()
	b := make([]byte, n)
	var err error
	write := true
	switch p.IntN(5) {
	case 0:
		n, err = unix.Write(d.fd, b)
	case 1:
		n, err = unix.Pwrite(d.fd, b, int64(p.IntN(5000)))
	case 2:
		n, err = unix.Writev(d.fd, [][]byte{b[:3], b[3:]})
	case 3:
		write = false
		if _, err = unix.Seek(d.fd, 0, 0); err == nil {
			n, err = unix.Read(d.fd, b)
		}
	default:
		write = false
		n, err = unix.Pread(d.fd, b, int64(p.IntN(30)))
	}
	(*program)(nil).must(err)
	if !write && n != len(b) { // the length of another request, perhaps
		n = -n
	}
	p.said(n, write, d.file)
}

// child has a child write to a descriptor.
func (p *drawn) child(d drawnFD) {
	n := p.length()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programEnv+"=drawnchild", fmt.Sprint("CHILD=", n))
	p.kept = append(p.kept, os.NewFile(uintptr(d.fd), "x"))
	cmd.ExtraFiles = p.kept[len(p.kept)-1:]
	(*program)(nil).must(cmd.Run())
	p.said(n, true, d.file)
}

func drawnChild(*program) {
	n, err := strconv.Atoi(os.Getenv("CHILD"))
	(*program)(nil).must(err)
	_, err = unix.Write(3, make([]byte, n))
	(*program)(nil).must(err)
}

// anyCall reports whether strace has written a call.
func anyCall(t *testing.T, out string) bool {
	t.Helper()
	files, err := filepath.Glob(out + "*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(f string) bool {
		b, err := os.ReadFile(f)
		return err != nil || bytes.Contains(b, []byte("("))
	})
}

// drawOptions draws options of strace from those in its manual.
func drawOptions(r *rand.Rand) (args []string) {
	pick := func(n int, list ...string) {
		if r.IntN(n) == 0 {
			args = append(args, strings.Fields(list[r.IntN(len(list))])...)
		}
	}
	args = append(args, []string{"-f", "-f", "-ff"}[r.IntN(3)], []string{"-tt", "-ttt", "--absolute-timestamps=format:unix,precision:ns"}[r.IntN(3)])
	pick(1, "-T", "-T", "--syscall-times=ns", "")
	pick(1, "-y", "-y", "-yy", "")
	pick(4, "-Y")
	pick(4, "-n")
	pick(4, "-i")
	pick(4, "-r")
	pick(4, "-X raw", "-X verbose")
	pick(5, "-x", "-xx")
	pick(5, "-C", "-C -U name,count")
	pick(6, "-s 0", "-s 5", "-v")
	pick(8, "-e raw=openat", "-e raw=write,read,pwrite64", "-e raw=rename,renameat,renameat2", "-e raw=clone,clone3", "-e raw=all", "-e verbose=none")
	pick(12, "-e read=all", "-e write=all")
	pick(8, "-q", "-qq", "-qqq")
	pick(3, "-e trace=write,unlink,unlinkat", "-e trace=%desc", "-e trace=%file", "-e trace=write,pwrite64,rename,renameat,renameat2",
		"-e trace=openat,write,pwrite64,read,pread64,writev", "-e trace=!close", "-e trace=!openat", "-e trace=!rename,renameat,renameat2", "-e signal=none")
	if args[0] == "-ff" { // which excludes a summary
		args = slices.DeleteFunc(args, func(a string) bool { return a == "-C" || a == "-U" || a == "name,count" })
	}
	return args
}

// TestDrawn traces drawn programs with drawn options, and compares the bytes of each file
// with those that the program moved. A request that the trace has is on its file; one that
// it lacks is in a warning, or filtered; no time is made up.
func TestDrawn(t *testing.T) {
	needStrace(t)
	first, n := uint64(1), 12
	if testkit.Nightly() {
		n = 2000
	}
	if s := os.Getenv(drawnEnv); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		n = 1
	}
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			drawnRun(t, seed)
		})
	}
}

func drawnRun(t *testing.T, seed uint64) {
	options := drawOptions(rand.New(rand.NewPCG(seed, 8)))
	dir := t.TempDir()
	work, out, said := filepath.Join(dir, "work"), filepath.Join(dir, "strace"), filepath.Join(dir, "said")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("strace", append(append(options, "-o", out), self)...)
	cmd.Env = append(os.Environ(), programEnv+"=drawn", dirEnv+"="+work, drawnEnv+"="+fmt.Sprint(seed), "CKPT_STRACE_SAID="+said, "GOMAXPROCS=2")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%.500s", options, err, b)
	}
	text, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	truth := make(map[string]moved)
	if err := json.Unmarshal(text, &truth); err != nil {
		t.Fatal(err)
	}
	insertForms(t, out, rand.New(rand.NewPCG(seed, 9)))
	tr, err := drawnTrace(out)
	var fe *iotrace.FormatError
	if errors.As(err, &fe) && fe.Err == iotrace.ErrWrongFormat && !anyCall(t, out) {
		return
	}
	if err != nil {
		t.Fatalf("%q: %v", options, err)
	}
	for _, wrong := range drawnCompare(tr, truth, work, options) {
		t.Errorf("seed %d, %q: %s", seed, options, wrong)
	}
	if t.Failed() && testing.Verbose() {
		all, _ := filepath.Glob(out + "*")
		for _, f := range all {
			b, _ := os.ReadFile(f)
			for l := range bytes.Lines(b) {
				if bytes.Contains(l, []byte(work)) || !bytes.Contains(l, []byte("/")) && len(b) < 1<<16 {
					t.Logf("%s: %s", filepath.Base(f), bytes.TrimSpace(l[:min(len(l), 300)]))
				}
			}
		}
	}
}

// insertForms adds to a text what strace would with -k, which takes minutes for a Go
// program, and with --secontext, which needs SELinux.
func insertForms(t *testing.T, out string, r *rand.Rand) {
	b, err := os.ReadFile(out)
	stack, context := r.IntN(6) == 0, r.IntN(6) == 0
	if err != nil || !stack && !context { // each process has a text of its own
		return
	}
	var text []byte
	for l := range bytes.Lines(b) {
		pid, rest, ok := bytes.Cut(l, []byte(" "))
		if ok && context && len(bytes.Trim(pid, "0123456789")) == 0 && len(pid) > 0 {
			l = fmt.Appendf(nil, "%s [user_u:system_r:t:s0] %s", pid, bytes.TrimLeft(rest, " "))
		}
		text = append(text, l...)
		if stack && bytes.Contains(l, []byte(" = ")) {
			text = append(text, " > /usr/lib/libc.so.6(write+0x45) [0x10e5a5]\n > unexpected_backtracing_error [0x0]\n"...)
		}
	}
	if err := os.WriteFile(out, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func drawnTrace(out string) (*iotrace.Trace, error) {
	names, err := filepath.Glob(out + ".*")
	if err != nil || len(names) == 0 {
		f, err := os.Open(out)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		tr, _, err := Read(f, iotrace.Options{})
		return tr, err
	}
	var files []TaskFile
	for _, name := range names {
		pid, err := strconv.ParseInt(filepath.Ext(name)[1:], 10, 64)
		if err != nil {
			return nil, err
		}
		files = append(files, TaskFile{name, pid})
	}
	tr, _, err := ReadTasks(files, iotrace.Options{})
	return tr, err
}

func drawnCompare(tr *iotrace.Trace, truth map[string]moved, work string, options []string) (wrong []string) {
	warned := make(map[string]iotrace.Warning)
	for _, w := range tr.Warnings {
		warned[w.Code] = w
	}
	filtered := slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "trace=") })
	_, raw := warned["raw-arguments"]
	_, taken := warned["name-taken"]
	// Without -y, a text that leaves out unlinks or closes has the names of opens only.
	noted := slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "-y") })
	raw = raw || taken || filtered && !noted
	tr.FollowRenames()
	seen, right, reads := make(map[string]bool), make(map[string]bool), make(map[string]string)
	timed := false
	for _, e := range tr.Events {
		if e.Op != iotrace.Write && e.Op != iotrace.Read || e.File == iotrace.None {
			continue
		}
		timed = timed || e.End > e.Start
		n := strconv.FormatInt(e.Bytes, 10)
		m, ok := truth[n]
		if !ok || m.Write != (e.Op == iotrace.Write) {
			continue // of the loader and the Go runtime
		}
		name, in := strings.CutPrefix(tr.Files[e.File], work+"/")
		if !in && !strings.HasPrefix(tr.Files[e.File], "/") {
			name, in = tr.Files[e.File], true // relative to a directory that is not known
		}
		if !in {
			continue
		}
		seen[n] = true
		ok = slices.Contains(m.Names, name) || slices.Contains(m.Names, strings.TrimSuffix(name, " (deleted)")) || raw
		switch right[n] = right[n] || ok; {
		case ok:
		case !m.Write: // it may be the end of a longer one
			reads[n] = name
		default:
			wrong = append(wrong, fmt.Sprintf("%v of %s bytes is on %q, not on %q", e.Op, n, name, m.Names))
		}
	}
	for n, name := range reads {
		if !right[n] {
			wrong = append(wrong, fmt.Sprintf("read of %s bytes is on %q, not on %q", n, name, truth[n].Names))
		}
	}
	if slices.Contains(options, "-T") || slices.Contains(options, "--syscall-times=ns") {
		if _, ok := warned[iotrace.WarnNoDurations]; ok {
			wrong = append(wrong, "durations are said to be unknown")
		}
	} else if timed {
		wrong = append(wrong, "there are durations")
	}
	missing := 0
	for n := range truth {
		if !seen[n] {
			missing++
		}
	}
	lacking := warned["unknown-descriptor"].Count + warned["raw-arguments"].Count + warned["not-understood"].Count
	if missing > 0 && lacking == 0 && !filtered {
		wrong = append(wrong, fmt.Sprintf("%d of %d requests are missing, without a word", missing, len(truth)))
	}
	return wrong
}
