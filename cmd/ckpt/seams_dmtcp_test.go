package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ckpt/zones/dmtcptest"
)

// fakesOfDMTCP makes a directory of programs that answer as DMTCP does.
func fakesOfDMTCP(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := dmtcptest.Install(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// underDMTCP has the commands of this world find DMTCP.
func (w *seams) underDMTCP(fakes string) {
	w.fakes = fakes
	w.env = append(w.env, "PATH="+fakes+":"+os.Getenv("PATH"), "FAKE_DMTCP="+w.faults())
}

// faults is the file with what the programs of DMTCP get wrong.
func (w *seams) faults() string { return filepath.Join(w.dir, "faults") }

// launchDMTCP launches a program under DMTCP, which counts to a number of its own.
func (w *seams) launchDMTCP(p jobPlace) string {
	steps := 250 + len(w.commands)
	if w.rng.IntN(3) == 0 {
		fault := fmt.Sprintf("once exit at %d with 9", 1+w.rng.IntN(steps))
		w.note("fault", fault)
		if err := os.WriteFile(w.faults(), []byte(fault+"\n"), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	args := []string{"launch", "--engine", "dmtcp", "--interval", "300ms", "--job", p.job}
	if w.rng.IntN(3) > 0 {
		args = append(args, "--auto-restart")
	}
	return w.expect(p, fmt.Sprintf("count %d", steps), append(args, "--", "count", fmt.Sprint(steps), "5ms"))
}

// endByStranger has somebody else end the program of a job, as any user of the machine can. It
// reports whether the job has one.
func (w *seams) endByStranger(p jobPlace) bool {
	port, err := os.ReadFile(filepath.Join(w.dir, p.store, "jobs", p.job, "dmtcp", "port"))
	if err == nil {
		_ = w.command("stranger", filepath.Join(w.fakes, "dmtcp_command"), "-h", "127.0.0.1", "-p", strings.TrimSpace(string(port)), "-k").Run() // it may have ended
	}
	return err == nil
}

var countLine = regexp.MustCompile(`(?m)^[0-9]+$`)

// counts checks what a program under DMTCP has printed: each number is one more than that
// before, or the program was restarted at an earlier one. It returns the last number, which an
// earlier command may have printed.
func (w *seams) counts(p jobPlace, out string) int {
	w.t.Helper()
	last := w.counted[p]
	for _, text := range countLine.FindAllString(out, -1) {
		n, err := strconv.Atoi(text)
		if err != nil || n > last+1 {
			w.wrong("the program of job %s in store %s prints %s after %d", p.job, p.store, text, last)
		}
		last = n
		w.counted[p] = max(w.counted[p], n)
	}
	return last
}
