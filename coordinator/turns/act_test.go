package turns

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/testkit"
)

// actAs is this program as another process of a test.
func actAs(act string) int {
	what, dir, _ := strings.Cut(act, " ")
	var err error
	switch what {
	case "serve":
		err = Serve(context.Background(), dir, ServeOptions{Observer: printer{}})
	case "hold": // holds a turn until it is killed
		c := NewClient(dir, Who{App: "held"}, ClientOptions{})
		turn := c.Begin(Burst{Bytes: -1})
		if err = turn.Await(context.Background(), 1); err == nil {
			fmt.Println("ready")
			time.Sleep(time.Hour)
		}
	case "connect":
		_, err = Ask(context.Background(), dir)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A printer says when a controller serves.
type printer struct{}

func (printer) Observe(e Event) {
	if e.What == Serving {
		fmt.Println("ready")
	}
}

// An actor is this program as another process.
type actor struct {
	*exec.Cmd
	once sync.Once
}

// kill kills the process and returns when it is gone.
func (a *actor) kill() {
	a.once.Do(func() {
		_ = a.Process.Kill()
		_ = a.Wait()
	})
}

func (a *actor) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := a.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// stop stops the process, and returns when none of its threads runs.
func (a *actor) stop(t *testing.T) {
	t.Helper()
	a.signal(t, syscall.SIGSTOP)
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(b), ") "); ok && strings.HasPrefix(rest, "T") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// act starts this program as another process, and returns when it is ready. Any goroutine
// of a test may call it.
func act(t *testing.T, what, dir string) *actor {
	t.Helper()
	a := &actor{Cmd: exec.Command(os.Args[0])}
	a.Env = append(os.Environ(), "TURNS_TEST_ACT="+what+" "+dir)
	out, err := a.StdoutPipe()
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		t.Error(err)
		return a
	}
	t.Cleanup(a.kill)
	b := make([]byte, 200)
	if n, err := out.Read(b); err != nil || string(b[:n]) != "ready\n" {
		t.Errorf("%s: %q, %v", what, b[:n], err)
	}
	return a
}

// TestStoppedController stops a controller with SIGSTOP: clients wait for their patience,
// then not at all, and take turns again after SIGCONT.
func TestStoppedController(t *testing.T) {
	dir := t.TempDir()
	p := act(t, "serve", dir)
	works(t, dir)
	p.stop(t)
	c := NewClient(dir, Who{App: "a"}, ClientOptions{Patience: 100 * time.Millisecond})
	defer c.Close()
	for range 3 {
		turn := c.Begin(Burst{Bytes: part})
		move(t, turn, part, 0)
		if r := turn.End(); !strings.Contains(r.Passed, "does not answer") {
			t.Errorf("report %+v", r)
		}
	}
	p.signal(t, syscall.SIGCONT)
	works(t, dir)
}

// TestKilledController kills a controller and starts another.
func TestKilledController(t *testing.T) {
	dir := t.TempDir()
	c := NewClient(dir, Who{App: "a"}, ClientOptions{})
	defer c.Close()
	for range 3 {
		p := act(t, "serve", dir)
		for {
			turn := c.Begin(Burst{Bytes: part})
			move(t, turn, part, 0)
			if turn.End().Passed == "" {
				break
			}
		}
		p.kill()
		for {
			turn := c.Begin(Burst{Bytes: part})
			move(t, turn, part, 0)
			if turn.End().Passed != "" {
				break
			}
		}
	}
}

// TestStoppedClient stops a process that has the turn: it loses it after its lease. One
// that is killed loses it at once.
func TestStoppedClient(t *testing.T) {
	dir := t.TempDir()
	o := ServeOptions{}
	o.Arbiter.Lease, o.Arbiter.Grace = 300*time.Millisecond, time.Hour
	log, _ := serve(t, dir, o)
	p := act(t, "hold", dir)
	p.stop(t)
	works(t, dir)
	for len(log.of(Evicted)) == 0 { // events come a little later
		time.Sleep(time.Millisecond)
	}
	p.signal(t, syscall.SIGCONT)
	other := func(e Event) bool { return e.App != "held" }
	for len(slices.DeleteFunc(log.of(Granted), other)) < 2 { // it is back
		time.Sleep(time.Millisecond)
	}
	p.kill()
	works(t, dir)
}

// TestOtherUsers connects as a user without access. It needs root.
func TestOtherUsers(t *testing.T) {
	testkit.All(t, "root")
	base, err := os.MkdirTemp("/tmp", "turns")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	program := base + "/act"
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := base + "/unit"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const owner, group, stranger = 54321, 54322, 54323
	for _, path := range []string{base, dir} {
		if err := os.Chown(path, owner, group); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, dir, ServeOptions{})
	// The last pair, open, looks at the check of the controller, behind that of the file system.
	for _, c := range []struct {
		uid, gid uint32
		groups   []uint32
		open     bool
		want     bool
	}{
		{owner, stranger, nil, false, true},
		{stranger, group, nil, false, true},
		{stranger, stranger, []uint32{1, group}, false, true},
		{stranger, stranger, nil, false, false},
		{stranger, group, nil, true, true},
		{stranger, stranger, nil, true, false},
	} {
		if c.open {
			for _, name := range []string{"", infoName, socketName} {
				if err := os.Chmod(dir+"/"+dirName+"/"+name, 0o777); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), "TURNS_TEST_ACT=connect "+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.gid, Groups: c.groups}}
		if out, err := cmd.CombinedOutput(); (err == nil) != c.want {
			t.Errorf("%+v: %v, %s", c, err, out)
		}
	}
}
