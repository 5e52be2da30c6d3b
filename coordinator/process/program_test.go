package process

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/internal/testkit"
)

// programs compiles each program of the tests once.
var programs struct {
	dir  string
	mu   sync.Mutex
	done map[string]error
}

// compiled returns the program that a compiler makes from files of testdata.
func compiled(t testing.TB, name, compiler string, args ...string) string {
	t.Helper()
	testkit.All(t, compiler)
	path := filepath.Join(programs.dir, name)
	programs.mu.Lock()
	defer programs.mu.Unlock()
	err, done := programs.done[name]
	if !done {
		args = append(args, "-pedantic", "-Wall", "-Wextra", "-Werror", "-I", "client/c", "-I", "testdata", "-o", path, "-lpthread")
		var out []byte
		if out, err = exec.Command(compiler, args...).CombinedOutput(); err != nil {
			err = fmt.Errorf("%s %s: %w\n%s", compiler, strings.Join(args, " "), err, out)
		}
		if programs.done == nil {
			programs.done = map[string]error{}
		}
		programs.done[name] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func plainProgram(t testing.TB) string {
	return compiled(t, "program", "cc", "-O2", "-std=c99", "testdata/program.c", "testdata/other.c")
}

// A program is a running testdata/program.c.
type program struct {
	number int64 // of the last capture
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	listen *net.UnixListener
	about  string // the agent, as beAgent says
}

// startProgram starts a program whose agent hands the link to this test.
func startProgram(t testing.TB, command ...string) *program {
	t.Helper()
	dir, err := os.MkdirTemp(programs.dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	pr := &program{t: t, cmd: exec.Command(command[0], command[1:]...)}
	if pr.listen, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket}); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pr.cmd.Env = append(os.Environ(), "CKPT_SOCKET="+socket, EnvAgent+"="+self,
		"GORACE=atexit_sleep_ms=0") // the agent ends at once under the race detector too
	pr.start()
	t.Cleanup(func() {
		pr.in.Close()
		_ = pr.cmd.Wait()
		pr.listen.Close()
	})
	return pr
}

func (pr *program) start() {
	pr.t.Helper()
	out, err := pr.cmd.StdoutPipe()
	if err != nil {
		pr.t.Fatal(err)
	}
	if pr.in, err = pr.cmd.StdinPipe(); err != nil {
		pr.t.Fatal(err)
	}
	pr.cmd.Stderr = &pr.stderr
	if err := pr.cmd.Start(); err != nil {
		pr.t.Fatal(err)
	}
	pr.out = bufio.NewReader(out)
}

// tell gives a command to the program; answer returns what it says to it.
func (pr *program) tell(format string, args ...any) {
	pr.t.Helper()
	if _, err := fmt.Fprintf(pr.in, format+"\n", args...); err != nil {
		pr.t.Fatal(err)
	}
}

func (pr *program) answer() string {
	pr.t.Helper()
	line, err := pr.out.ReadString('\n')
	if err != nil {
		pr.t.Fatalf("the program said nothing: %v\n%s", err, pr.stderr.String())
	}
	return strings.TrimSpace(line)
}

// expect compares the answer to the command before.
func (pr *program) expect(want string) {
	pr.t.Helper()
	if got := pr.answer(); got != want {
		pr.t.Fatalf("the program answered %q, want %q", got, want)
	}
}

// do gives a command that calls no agent, and wants the answer 0.
func (pr *program) do(format string, args ...any) {
	pr.t.Helper()
	pr.tell(format, args...)
	pr.expect("0")
}

// link waits for the agent of the program, which hands over the link.
func (pr *program) link() *Process {
	pr.t.Helper()
	_ = pr.listen.SetDeadline(time.Now().Add(testkit.Patience)) // the program may have failed
	c, err := pr.listen.AcceptUnix()
	if err != nil {
		pr.t.Fatalf("no agent: %v\n%s", err, pr.stderr.String())
	}
	defer c.Close()
	about, oob := make([]byte, 100), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(about, oob)
	if err != nil {
		pr.t.Fatal(err)
	}
	pr.about = string(about[:n])
	fds := received(oob[:oobn])
	if len(fds) != 1 {
		pr.t.Fatalf("the agent sent %d descriptors", len(fds))
	}
	fd, err := unix.Dup(int(fds[0].Fd()))
	closeAll(fds)
	if err != nil {
		pr.t.Fatal(err)
	}
	p, err := Open(fd)
	if err != nil {
		pr.t.Fatal(err)
	}
	pr.t.Cleanup(p.Close)
	return p
}

// connect runs ckpt_init as rank 0 of 1.
func (pr *program) connect() *Process {
	pr.t.Helper()
	pr.tell("init x 0 1")
	p := pr.link()
	pr.must(p.Welcome(nil))
	pr.expect("0")
	return p
}

func (pr *program) must(err error) {
	pr.t.Helper()
	if err != nil {
		pr.t.Fatal(err)
	}
}

// call returns the next call, which must be of the kind.
func (pr *program) call(p *Process, kind Kind) Call {
	pr.t.Helper()
	call, ok := <-p.Calls()
	if !ok {
		pr.t.Fatalf("the link ended: %v\n%s", p.Err(), pr.stderr.String())
	}
	if call.Kind != kind {
		pr.t.Fatalf("the program called %v, want %v", call.Kind, kind)
	}
	return call
}

// atBoundary takes a program through a boundary, at which it waits while do runs.
func (pr *program) atBoundary(p *Process, do func()) {
	pr.t.Helper()
	pr.tell("boundary x 1")
	pr.call(p, Boundary)
	do()
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
}

// capture takes the memory of a program at a boundary.
func (pr *program) capture(p *Process) (c Capture) {
	pr.t.Helper()
	pr.atBoundary(p, func() {
		var err error
		pr.number++
		c, err = p.Capture(context.Background(), pr.number, 0)
		pr.must(err)
	})
	pr.must(c.Ready(context.Background()))
	c.Release() // the next may take its place
	return c
}
