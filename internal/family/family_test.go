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
