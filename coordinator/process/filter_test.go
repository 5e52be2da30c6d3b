package process

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"ckpt/internal/testkit"
)

// refusable are the calls that have a replacement, and how a note names them.
var refusable = []struct{ calls, note string }{
	{"process_vm_readv,process_vm_writev", "process_vm_readv"},
	{"userfaultfd", "userfaultfd"},
	{"PAGEMAP_SCAN", "PAGEMAP_SCAN"},
	{"memfd_create", "memfd_create"},
	{"membarrier", "membarrier"},
	{"pidfd_open", "pidfd_open"},
	{"close_range", "clone"},
	{"prctl", ""},
}

func filterProgram(t *testing.T) string {
	return compiled(t, "filtered", "cc", "-std=gnu11", "testdata/filtered.c")
}

// TestFilteredProgram refuses the calls of the program.
func TestFilteredProgram(t *testing.T) {
	t.Parallel()
	for _, r := range refusable {
		switch r.note {
		case "userfaultfd", "clone", "":
			t.Run(r.calls, func(t *testing.T) {
				takes(t, []string{filterProgram(t), r.calls, plainProgram(t)}, r.note)
			})
		}
	}
}

// TestFilteredAgent refuses the calls of the agent, which is this test in a process of its
// own: each alone, and all of them.
func TestFilteredAgent(t *testing.T) {
	t.Parallel()
	if calls := os.Getenv("TEST_REFUSED"); calls != "" {
		takes(t, []string{os.Getenv("TEST_PROGRAM")}, os.Getenv("TEST_NOTE"))
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := make([]string, len(refusable))
	for i, r := range refusable {
		all[i] = r.calls
	}
	list := append(slices.Clone(refusable), struct{ calls, note string }{strings.Join(all, ","), "userfaultfd"})
	if testkit.Enabled { // the filter is the same
		list = list[len(list)-1:]
	}
	for _, r := range list {
		t.Run(r.calls, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(filterProgram(t), r.calls, self, "-test.run", "^TestFilteredAgent$", "-test.v")
			cmd.Env = append(os.Environ(), "TEST_REFUSED="+r.calls, "TEST_NOTE="+r.note, "TEST_PROGRAM="+plainProgram(t))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestFilteredAgent") {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// takes runs patterns, orders and the end of a program, and looks for a note.
func takes(t *testing.T, command []string, note string) {
	t.Helper()
	s := &subject{program: startProgram(t, command...)}
	s.p = s.connect()
	s.p.hello.Language = "python" // whose client cannot order its reads and writes
	s.p.memory.forks.always = true
	s.p.SetLimit(100)
	s.p.SetLimit(0)
	for seed := range 4 {
		s.pattern(t, seed)
	}
	var notes []string
	for _, n := range s.p.Notes() {
		notes = append(notes, n.Call)
	}
	if note != "" && !slices.Contains(notes, note) || note == "" && len(notes) > 0 {
		t.Errorf("notes are %q, want %q", notes, note)
	}
	s.p.Kill()
	<-s.p.Done()
}
