package machine

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/internal/family"
	"ckpt/internal/testkit"
)

// patience is how long tests wait for things that must come: no test asserts a time.
const patience = 5 * time.Minute

// eventually fails a test whose condition never comes.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// stands reports whether all processes of a command are stopped.
func stands(g *group) bool {
	for _, p := range g.family() {
		if !p.Suspended() {
			return false
		}
	}
	return true
}

// TestGroupSuspends: suspend stops all processes, also those that left the process group,
// resume continues them, and a signal reaches a suspended command.
func TestGroupSuspends(t *testing.T) {
	var out bytes.Buffer
	// setsid is how launchers of MPI programs start theirs.
	cmd := exec.Command("sh", "-c", "setsid -w sh -c 'while :; do :; done' & while :; do :; done")
	cmd.Stdout, cmd.Stderr = &out, &out
	g, err := newGroup(cmd, false)
	if err != nil {
		t.Fatal(err)
	}
	defer g.release()
	defer func() { _ = cmd.Process.Kill() }()
	eventually(t, "both processes", func() bool { return len(g.family()) >= 2 })
	for range 3 {
		if g.suspend(); !stands(g) {
			t.Error("a process runs though its group is suspended")
		}
		if g.resume(); stands(g) {
			t.Error("no process runs though its group was resumed")
		}
	}
	all := g.family()
	defer family.Signal(all, syscall.SIGKILL)
	g.suspend()
	g.signal(syscall.SIGTERM)
	<-g.cmd.Over()
	if got := g.cmd.Status(); got != 128+int(syscall.SIGTERM) {
		t.Errorf("status %d, want that of SIGTERM", got)
	}
}

// TestGroupLaunches: a shell that is just starting a program stands still, too.
func TestGroupLaunches(t *testing.T) {
	g, err := newGroup(exec.Command("sh", "-c", "while :; do /bin/true; done"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer g.release()
	for range 100 {
		if g.suspend(); !stands(g) {
			t.Fatal("a process runs though its group is suspended")
		}
		g.resume()
	}
	g.signal(syscall.SIGKILL)
	<-g.cmd.Over()
}

// TestGroupStatus: the status of the command is passed on.
func TestGroupStatus(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 128 + 9} {
		g, err := newGroup(exec.Command("sh", "-c", script), false)
		if err != nil {
			t.Fatal(err)
		}
		if <-g.cmd.Over(); g.cmd.Status() != want {
			t.Errorf("%s: status %d, want %d", script, g.cmd.Status(), want)
		}
	}
	if _, err := newGroup(exec.Command(filepath.Join(t.TempDir(), "none")), false); err == nil {
		t.Error("a command was started that is not there")
	}
}

// TestGroupProgress: bytes count once, also those of processes that have ended.
func TestGroupProgress(t *testing.T) {
	const size = 1 << 20
	file := filepath.Join(t.TempDir(), "file")
	if m, err := MediumOf(filepath.Dir(file)); err != nil || m.Class == Memory {
		testkit.Skip(t, "temporary files on a disk")
	}
	g, err := newGroup(exec.Command("sh", "-c", "dd if=/dev/zero of="+file+" bs=64k count=16 status=none; true"), false)
	if err != nil {
		t.Fatal(err)
	}
	<-g.cmd.Over()
	got := g.progress(false)
	if b, err := os.ReadFile("/proc/self/io"); err != nil || !strings.Contains(string(b), "write_bytes") || got == 0 {
		testkit.Skip(t, "a kernel that counts bytes")
	}
	if got < size {
		t.Errorf("%d bytes moved, want at least %d", got, size)
	}
	if again := g.progress(false); again > size/2 {
		t.Errorf("%d bytes more after the end", again)
	}
}

// The guard of the groups that tests suspend is this binary: they start themselves as one.
func init() {
	if slices.Equal(os.Args[1:], []string{"storage", "guard"}) {
		guardUntilEnd(os.Stdin)
		os.Exit(0)
	}
}

// TestGroupDeath: no process of a command stays suspended when ckpt is killed, not even one
// that left the process group; nor where the kernel resumes none, because they ignore SIGHUP
// (nohup), or because those whose parent ended belong to a process of the same session, as
// in a container.
func TestGroupDeath(t *testing.T) {
	if file := os.Getenv("CKPT_TEST_GROUP"); file != "" {
		suspendedGroup(t, file)
		return
	}
	t.Run("plain", func(t *testing.T) { groupDeath(t, os.Args[0]) })
	t.Run("nohup", func(t *testing.T) { groupDeath(t, "sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0]) })
	t.Run("container", func(t *testing.T) {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
		groupDeath(t, os.Args[0])
	})
}

// suspendedGroup suspends a command, writes its number to a file, and waits to be killed.
func suspendedGroup(t *testing.T, file string) {
	g, err := newGroup(exec.Command("sh", "-c", "setsid sleep 1000 & sleep 1000 & while :; do sleep 0.1; done"), false)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its children, one of them in a group of its own", func() bool {
		all := g.family()
		return len(all) >= 4 && slices.ContainsFunc(all, func(p family.Process) bool {
			of, err := syscall.Getpgid(p.PID)
			return err == nil && of == p.PID && of != g.cmd.PID()
		})
	})
	g.suspend()
	if err := os.WriteFile(file+".new", []byte(strconv.Itoa(g.cmd.PID())), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	<-g.cmd.Over()
}

// groupDeath kills a process that has suspended a command.
func groupDeath(t *testing.T, program ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	self := exec.Command(program[0], append(program[1:], "-test.run=^TestGroupDeath$")...)
	self.Env = append(os.Environ(), "CKPT_TEST_GROUP="+file)
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	eventually(t, "the suspended command", func() bool {
		b, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(b))
		return pid > 0
	})
	all := family.Descendants(pid)
	defer family.Signal(all, syscall.SIGKILL)
	if err := self.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = self.Wait()
	if !family.Await(all, patience) {
		all = slices.DeleteFunc(all, func(p family.Process) bool { return !p.Alive() })
		t.Errorf("processes of the command live on: %v", all)
	}
}
