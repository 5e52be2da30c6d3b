package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/cmd/ckpt/internal/scripttest"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/testkit"
)

// TestErrorJSON: with --json the last line of standard error is the error as JSON,
// under every exit status.
func TestErrorJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut.trace")
	sample, err := filepath.Abs("../../testdata/traces/minighost.events")
	if err != nil {
		t.Fatal(err)
	}
	if text, status := complaint(t, dir, nil, "ckpt trace export "+sample+" --format csv -o a.csv && ckpt trace export a.csv -o cut.trace --json"); status != 0 {
		t.Fatal(text)
	}
	if err := os.Truncate(cut, 700); err != nil {
		t.Fatal(err)
	}
	signal := func(job string, s os.Signal) func(*os.Process) {
		return func(p *os.Process) {
			awaitFile(t, filepath.Join(dir, "store/jobs", job, "run.json"))
			if err := p.Signal(s); err != nil {
				t.Error(err)
			}
		}
	}
	statuses := map[int]bool{ui.ExitDone: true}
	for _, test := range []struct {
		command string
		status  int
		while   func(*os.Process)
	}{
		{"ckpt launch bt.S.5 --json", ui.ExitUsage, nil},
		{"ckpt dataset -o /dev/null/here --json", ui.ExitRuntime, nil},
		{"ckpt trace show cut.trace --json", ui.ExitDamage, nil},
		{"ckpt show nosuch --json", ui.ExitNotFound, nil},
		{"ckpt launch ring.S.4 --fail rank=1@iter=3 --job short --json", ui.ExitJobFailed, nil},
		{"flock store/jobs/short/lock ckpt rm short --json", ui.ExitInUse, nil},
		{"ckpt dataset 4.3 --json > /dev/full", ui.ExitStorageFull, nil},
		{"exec ckpt launch cg.S.4 --iterations 100000000 --job long --json", ui.ExitInterrupted, signal("long", os.Interrupt)},
		{"exec ckpt launch cg.S.4 --iterations 100000000 --job night --json", ui.ExitRequeue, signal("night", syscall.SIGTERM)},
	} {
		statuses[test.status] = true
		if strings.HasPrefix(test.command, "flock ") && testkit.Left(t, test.command, "flock") {
			continue
		}
		text, status := complaint(t, dir, test.while, test.command)
		if status != test.status {
			t.Errorf("%s: exit status %d, want %d:\n%s", test.command, status, test.status, text)
			continue
		}
		checkError(t, test.command, text, status)
	}
	for line := range strings.Lines(ui.ExitHelp) {
		if n, err := strconv.Atoi(strings.Fields(line)[0]); err == nil && !statuses[n] {
			t.Errorf("exit status %d is not tested", n)
		}
	}
}

// checkError checks the last line of what a command printed on standard error.
func checkError(t *testing.T, command, text string, status int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := lines[len(lines)-1]
	var doc any
	if err := json.Unmarshal([]byte(last), &doc); err != nil {
		t.Errorf("%s: %v: %s", command, err, last)
		return
	}
	if err := scripttest.MatchSchema("error", doc); err != nil {
		t.Errorf("%s: %v", command, err)
		return
	}
	fields := doc.(map[string]any)
	if fields["code"] != float64(status) {
		t.Errorf("%s: exit status %d in %s", command, status, last)
	}
	for key, prefix := range map[string]string{"error": "ckpt: ", "hint": "hint: "} {
		if s := fields[key].(string); s != "" && !strings.Contains(text, prefix+s+"\n") {
			t.Errorf("%s: no line %q in\n%s", command, prefix+s, text)
		}
	}
}

// complaint runs a command in a shell, and returns what it prints on standard error.
func complaint(t *testing.T, dir string, while func(*os.Process), command string) (string, int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CKPT_STORE="+filepath.Join(dir, "store"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if while != nil {
		while(cmd.Process)
	}
	err := cmd.Wait()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return errs.String(), cmd.ProcessState.ExitCode()
}

// awaitFile waits until a file exists.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(testkit.Patience); ; {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", path)
		}
		<-time.NewTimer(10 * time.Millisecond).C
	}
}
