package rank

import (
	"os/exec"
	"testing"

	"ckpt/internal/family"
	"ckpt/internal/testkit"
)

// TestBrokenOutput kills the second of two launchers, which is then dead, whether it has been reaped or not.
func TestBrokenOutput(t *testing.T) {
	var launchers []family.Process
	var last *exec.Cmd
	for range 2 {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		p, ok := family.Find(cmd.Process.Pid)
		if !ok {
			t.Fatal("it is not found")
		}
		launchers, last = append(launchers, p), cmd
	}
	if brokenOutput(nil) || brokenOutput(launchers) {
		t.Error("launchers that live count as dead")
	}
	if err := last.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !family.Await(launchers[1:], testkit.Patience) || !brokenOutput(launchers) {
		t.Error("one that has died counts as alive")
	}
	_ = last.Wait()
	if !brokenOutput(launchers) {
		t.Error("one that was reaped counts as alive")
	}
}
