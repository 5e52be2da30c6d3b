package launch

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/internal/family"
	"ckpt/internal/testkit"
)

// TestHangs: a launcher that goes on after its process that looked after ranks was killed is found,
// and no launcher before.
func TestHangs(t *testing.T) {
	dir := t.TempDir()
	// The launcher waits without a child that is not a proxy.
	if err := syscall.Mkfifo(filepath.Join(dir, "never"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"mpiexec": "./hydra_proxy &\nread line <never", "hydra_proxy": "sh -c 'echo $PPID; exec sleep 60' &\nwait"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	input, err := NewInput(nil)
	if err != nil {
		t.Fatal(err)
	}
	said, out := io.Pipe()
	program, err := NewProgram(job.Program{Command: []string{"./mpiexec"}, Dir: dir}, input, Streams{Out: out})
	if err != nil {
		t.Fatal(err)
	}
	run, err := program.Run(Rank{Incarnation: 1, Token: "TestHangs"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { run.End(); run.Sweep() }()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	proxy, _ := family.Find(pid)
	noted := func() bool {
		run.mu.Lock()
		defer run.mu.Unlock()
		return slices.Contains(run.after, proxy)
	}
	for run.Look(); !noted(); run.Look() { // a process that becomes another program cannot be seen for a moment
	}
	if hangs := run.Hangs(); hangs != "" {
		t.Error(hangs)
	}
	family.Signal([]family.Process{proxy}, syscall.SIGKILL)
	if !family.Await([]family.Process{proxy}, testkit.Patience) {
		t.Fatal("the proxy lives")
	}
	if hangs := run.Hangs(); !strings.Contains(hangs, "waits for process "+strconv.Itoa(pid)+", which looked after ranks and has died") {
		t.Errorf("it is said %q", hangs)
	}
}
