package family

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestSignalSparesOthers: a process with the number of one that ended is not touched.
func TestSignalSparesOthers(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, ok := Find(cmd.Process.Pid)
	if !ok {
		t.Fatal("no process was found")
	}
	Signal([]Process{{p.PID, "0"}}, syscall.SIGKILL)
	if Await([]Process{p}, 20*time.Millisecond) {
		t.Error("it was killed")
	}
	Signal([]Process{p}, syscall.SIGKILL)
	if !Await([]Process{p}, time.Minute) {
		t.Error("it was not killed")
	}
	_ = cmd.Wait()
	if _, ok := Find(p.PID); ok {
		t.Error("it was found after its end")
	}
}

// TestIdle: a process that waits is idle, and one with something to do is not.
func TestIdle(t *testing.T) {
	for script, idle := range map[string]bool{"read line": true, "while :; do :; done": false} {
		cmd := exec.Command("sh", "-c", script)
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, _ := Find(cmd.Process.Pid)
		for limit := time.Now().Add(time.Minute); idle && !p.Idle() && time.Now().Before(limit); {
			time.Sleep(time.Millisecond)
		}
		if p.Idle() != idle {
			t.Errorf("%s: idle is %v", script, !idle)
		}
		_, _ = cmd.Process.Kill(), cmd.Wait()
	}
}
