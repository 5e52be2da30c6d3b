package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ckpt/internal/testkit"
)

// TestCombinations draws command lines out of the whole grammar of launch, runs each on a small
// job with a random failure, and restarts what has stopped. Each ends with the digest of a run
// without failures, or is refused before anything has started, for a reason that
// ckpt help combinations has.
//
//	CKPT_COMBINATIONS=1000 go test -timeout 1h -run TestCombinations ./cmd/ckpt
//	CKPT_COMBINATION=17 CKPT_COMBINATIONS=1 go test -v -run TestCombinations ./cmd/ckpt
//
// are more command lines, and the one of seed 17.
func TestCombinations(t *testing.T) {
	t.Parallel()
	lines, seed := number(t, "CKPT_COMBINATIONS", 3), number(t, "CKPT_COMBINATION", 0)
	if testkit.Nightly() && os.Getenv("CKPT_COMBINATIONS") == "" {
		lines = 300
	}
	w := &combining{sandbox: newSandbox(t, nil), program: seamProgram(t), digests: map[string]string{}, tally: map[string]int{}, refusals: map[string]int{}}
	w.env = append(w.env, "PATH="+fakesOfDMTCP(t)+":"+os.Getenv("PATH"), "FAKE_DMTCP="+filepath.Join(w.dir, "faults"))
	var table struct {
		Reasons []struct{ Because string } `json:"reason_list"`
	}
	out, status := w.ckpt("help", "combinations", "--json")
	if err := json.Unmarshal([]byte(out), &table); err != nil || status != 0 {
		t.Fatal(err, status)
	}
	for _, r := range table.Reasons {
		w.reasons = append(w.reasons, r.Because)
	}
	for i := range lines {
		w.rng = rand.New(rand.NewPCG(uint64(seed+i), 38))
		w.line(seed + i)
	}
	t.Log(w.tally, w.refusals)
	if completed := w.tally["completed"]; completed*5 < lines {
		t.Errorf("%d of %d command lines completed: the others prove little", completed, lines)
	}
}

// A combining is a world of drawn command lines.
type combining struct {
	*sandbox
	rng      *rand.Rand
	program  string
	reasons  []string
	digests  map[string]string // of runs without failures
	tally    map[string]int
	refusals map[string]int // by reason
	runs     int
}

// combinedApps are the simulated jobs; half of them can change their number of ranks.
var combinedApps = []string{"ring.S", "bt.S", "heat.S", "cg.S", "minighost.S", "lu.S", "sp.S"}

// combinedSettings are lists of which one setting each is drawn, or none.
var combinedSettings = [][][]string{
	{{"--mode", "semi"}, {"--mode", "uncoordinated"}, {"--mode", "semi", "--log", "pessimistic-sender"}, {"--mode", "uncoordinated", "--log", "optimistic"},
		{"--mode", "uncoordinated", "--log", "none"}, {"--mode", "semi", "--group-size", "2"}, {"--mode", "semi", "--stagger", "random", "--seed", "3"}},
	{{"--layout", "aggregated"}, {"--layout", "shared"}, {"--layout", "shared", "--aggregators", "2"}, {"--layout", "shared", "--strategy", "individual"},
		{"--layout", "shared", "--p4", "--stripe-count", "2"}, {"--aggregators", "2"}, {"--layout", "shared", "--buffer", "64KiB"}},
	{{"--strategy", "static"}, {"--layout", "shared", "--strategy", "dynamic"}, {"--layout", "shared", "--p1=false"}, {"--layout", "shared", "--p2=false", "--p3"},
		{"--layout", "aggregated", "--stripe-size", "64KiB", "--first-ost", "1"}},
	{{"--level", "application"}},
	{{"--codec", "none"}, {"--codec", "zstd"}, {"--codec", "gzip"}, {"--codec", "s2"}},
	{{"--async"}, {"--async", "--staging", "4MiB"}, {"--async=2"}, {"--async=4"}, {"--async=3", "--staging", "4MiB"}},
	{{"--storage-turns"}, {"--storage-turns=auto"}},
	{{"--keep", "1"}, {"--keep", "2"}},
	{{"--incremental=false"}},
	{{"--tune", "local-nvme"}, {"--tune", "local-nvme", "--objective", "bytes"}, {"--tune", "local-nvme", "--background", "10%"}},
	{{"--local", "n/{node}"}, {"--local", "n/{node}", "--protect", "partner"}, {"--local", "n/{node}", "--protect", "xor:2", "--drain", "every=2"},
		{"--local", "n/{node}", "--drain", "none"}, {"--local", "n/{node}", "--protect", "rs:2+1"}, {"--local", "n/{node}", "--protect", "partner", "--domains", "0,1"},
		{"--local", "n/{node}", "--drain-rate", "50MiB"}, {"--protect", "partner"}},
	{{"--nodes", "2"}, {"--nodes", "2"}, {"--nodes", "3"}, {"--map", "1,3"}, {"--nodes-from-launcher"}},
	{{"--shared-once=false"}, {"--library-once=false"}, {"--trace=false"}, {"--mpi", "openmpi"}, {"--jitter", "20%"}, {"--listen", "127.0.0.1:0"}, {"--launcher", "mpiexec"}},
}

// combinedDraws are how likely each list is, of 12.
var combinedDraws = []int{3, 3, 1, 2, 5, 4, 2, 1, 2, 1, 4, 8, 2}

// combinedSchedules are when checkpoints are taken, of jobs of 30 iterations.
var combinedSchedules = [][]string{{"--every", "6"}, {"--every", "6"}, {"--every", "6"}, {"--count", "3"}, {"--interval", "100ms"}, {"--every", "50ms"}, {"--overhead", "20%"},
	{"--every", "epoch"}, {"--every", "6", "--count", "3"}, {"--every", "15"}}

// line draws a command line, runs it, and restarts the job if it has stopped.
func (w *combining) line(seed int) {
	w.t.Helper()
	name := fmt.Sprint("j", seed)
	defer os.RemoveAll(filepath.Join(w.dir, "n"))
	args := []string{"launch", "--job", name}
	var command []string
	var settings [][]string
	want := ""
	np := 4
	switch k := w.rng.IntN(10); {
	case k == 0:
		command = []string{"--", "count", "30", "10ms"}
		args = append(args, "--engine", "dmtcp")
	case k < 3 && w.program != "":
		command = []string{"--", "mpiexec.mpich", "-n", "4", w.program, "60", "7"}
		want = w.clean("program", command)
		if w.rng.IntN(4) == 0 {
			settings = append(settings, []string{"--iterations", "60"})
		}
	default:
		app := draw(w.rng, combinedApps)
		np = draw(w.rng, []int{4, 4, 4, 4, 3, 6, 2, 1})
		args = append(args, fmt.Sprintf("%s.%d", app, np), "--iterations", "30")
		want = w.clean(args[3], []string{args[3], "--iterations", "30"})
	}
	settings = append(settings, draw(w.rng, combinedSchedules))
	local := false
	for i, list := range combinedSettings {
		if w.rng.IntN(12) < combinedDraws[i] {
			drawn := draw(w.rng, list)
			settings, local = append(settings, drawn), local || drawn[0] == "--local"
		}
	}
	switch k := w.rng.IntN(8); {
	case k < 2:
	case k == 2 || k < 6 && local:
		settings = append(settings, []string{"--fail", fmt.Sprintf("node=%d,lose-local@iter=%d", w.rng.IntN(2), 1+w.rng.IntN(30))})
	default:
		settings = append(settings, []string{"--fail", draw(w.rng, []string{
			fmt.Sprintf("rank=%d@iter=%d", w.rng.IntN(np), 1+w.rng.IntN(30)), fmt.Sprintf("node=%d@iter=%d", w.rng.IntN(8)/7, 1+w.rng.IntN(30)),
			"mtbf=150ms,seed=2"})})
	}
	if w.rng.IntN(3) > 0 {
		settings = append(settings, []string{"--auto-restart"})
	}
	// A refused line is tried with fewer settings, until it runs.
	status := w.judge(name, want, slices.Concat(args, slices.Concat(settings...), command))
	for status == 1 && len(settings) > 0 {
		i := w.rng.IntN(len(settings))
		settings = slices.Delete(settings, i, i+1)
		status = w.judge(name, want, slices.Concat(args, slices.Concat(settings...), command))
	}
	if status == 5 {
		w.restart(name, want)
	}
}

// restart restarts a job that has failed, perhaps otherwise than it was launched; a refusal is
// followed by a plain restart.
func (w *combining) restart(name, want string) {
	w.t.Helper()
	ways := [][]string{nil, nil, {"--np", "6"}, {"--np", "2"}, {"--np", "4", "--nodes", "2"}, {"--nodes", "2"}, {"--map", "1,3"}, {"--checkpoint", "1"}, {"--without-log"},
		{"--exact"}, {"--storage-turns"}}
	for _, way := range [][]string{draw(w.rng, ways), nil} {
		status := w.judge(name, want, slices.Concat([]string{"restart", name, "--auto-restart"}, way))
		if status != 1 {
			return
		}
	}
	w.t.Errorf("%s: a plain restart is refused", name)
}

// judge runs a command, and checks how it ends.
func (w *combining) judge(name, want string, args []string) int {
	w.t.Helper()
	began := time.Now()
	out, status := w.ckpt(args...)
	wrong := func(why string) {
		w.t.Helper()
		w.t.Errorf("%s (%v)\nckpt %s\n%s", why, time.Since(began).Round(time.Millisecond), strings.Join(args, " "), out)
	}
	_, err := os.Stat(filepath.Join(w.store, "jobs", name))
	switch {
	case strings.Contains(out, "no effect") || strings.Contains(out, "panic:"):
		wrong("a setting has no effect, or a panic")
	case status == 0 && want != "" && digestIn(out) != want:
		wrong("another digest than " + want)
	case status == 0 && !strings.Contains(out, ": completed "):
		wrong("status 0, and the job has not completed")
	case status == 0:
		w.tally["completed"]++
	case status == 1 && args[0] == "launch" && err == nil:
		wrong("a job stays of a launch that was refused")
	case status == 1 && !slices.ContainsFunc(w.reasons, func(r string) bool { return strings.Contains(out, r) }):
		wrong("a refusal without a reason of the table")
	case status == 1:
		w.tally["refused "+args[0]]++
		w.refusals[w.reasons[slices.IndexFunc(w.reasons, func(r string) bool { return strings.Contains(out, r) })]]++
	case status == 5 && args[0] == "launch" && slices.Contains(args, "--fail"):
		w.tally["failed"]++
	case status == 4 && args[0] == "restart" && slices.ContainsFunc([]string{"no checkpoint", "checkpoint not found", "is lost with its nodes", "which was not in the store yet"}, func(s string) bool { return strings.Contains(out, s) }):
		w.tally["without a checkpoint"]++
	default:
		wrong(fmt.Sprint("status ", status))
	}
	return status
}

// clean returns the digest of a run without failures.
func (w *combining) clean(key string, args []string) string {
	w.t.Helper()
	if w.digests[key] == "" {
		out, status := w.ckpt(slices.Concat([]string{"launch", "--job", "clean-" + key}, args)...)
		if strings.Contains(out, "processes are not possible") {
			return ""
		}
		if w.digests[key] = digestIn(out); status != 0 || w.digests[key] == "" {
			w.t.Fatalf("%v: status %d\n%s", args, status, out)
		}
	}
	return w.digests[key]
}

// ckpt runs a command.
func (w *combining) ckpt(args ...string) (out string, status int) {
	w.t.Helper()
	w.runs++
	output := fmt.Sprint("output-", w.runs)
	c := w.command(output, append([]string{"ckpt"}, args...)...)
	watched, err := watch(c, filepath.Join(w.dir, output), seamPatience)
	if err != nil {
		w.t.Fatal(err)
	}
	out, _, _ = watched.until(func(string) bool { return false })
	return out, c.ProcessState.ExitCode()
}
