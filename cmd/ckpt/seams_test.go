package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ckpt/cmd/ckpt/internal/scripttest"
	"ckpt/internal/testkit"
)

// TestSeams runs commands on stores, copies of them and directories of nodes that jobs of
// equal names share, kills coordinators and ranks, breaks node directories and copies stores
// at random moments. The jobs are simulated in all modes, layouts, levels and codecs, are
// programs whose command hides how its ranks ended, or programs under DMTCP, which strangers
// end. No command that says a job is complete has another result than a run without failures,
// no command changes a job that it was not asked to change, each command ends, and no process
// outlives its coordinator.
//
//	CKPT_SEAM_RUNS=1000 go test -timeout 5h -run TestSeams ./cmd/ckpt
//	CKPT_SEAM_SEED=17 CKPT_SEAM_RUNS=1 go test -v -run TestSeams ./cmd/ckpt
//
// are more runs, and run 17 alone.
func TestSeams(t *testing.T) {
	t.Parallel()
	runs, seed := number(t, "CKPT_SEAM_RUNS", 1), number(t, "CKPT_SEAM_SEED", 0)
	if testkit.Nightly() && os.Getenv("CKPT_SEAM_RUNS") == "" {
		runs = 100
	}
	digests, program, fakes := make(map[string]string), seamProgram(t), fakesOfDMTCP(t)
	all := seamTally{did: map[string]int{}}
	for i := range runs {
		t.Run(fmt.Sprint(seed+i), func(t *testing.T) {
			w := &seams{sandbox: newSandbox(t, nil), rng: rand.New(rand.NewPCG(uint64(seed+i), 34)), tally: &all, digests: digests, program: program,
				want: map[jobPlace]string{}, done: map[jobPlace]bool{}, counted: map[jobPlace]int{}, stores: []string{"A", "B"}}
			w.underDMTCP(fakes)
			for range 8 {
				w.step()
			}
			if t.Failed() {
				all.wrong++
			}
		})
	}
	t.Logf("%d jobs completed, %d of them under DMTCP, %d of %d runs wrong; the longest command took %v (%s), the longest time without output was %v (%s); %v",
		all.completed, all.underDMTCP, all.wrong, runs, all.longest, all.longestCommand, all.still, all.stillCommand, all.did)
	for _, what := range []string{"launch", "restart", "copy", "kill ckpt", "kill a process", "lose a node", "stranger"} {
		if all.did[what] == 0 && runs >= 50 {
			t.Errorf("%s: no run did so", what)
		}
	}
	if all.completed == 0 && runs > 1 {
		t.Error("no job completed: the runs prove nothing")
	}
}

// A seamTally counts what all runs have seen.
type seamTally struct {
	completed, underDMTCP, wrong int
	longest, still               time.Duration
	longestCommand, stillCommand string
	did                          map[string]int
}

// seamPatience is how long a command may stand still.
const seamPatience = 30 * time.Second

// seamApps are the jobs, with the iterations between checkpoints.
var seamApps = []struct {
	app               string
	iterations, every int
}{{"ring.S.4", 240, 40}, {"bt.S.4", 40, 10}, {"heat.S.4", 120, 30}}

// seamSettings and seamModes are the ways to write, of which one of each list is drawn: codecs,
// how many are kept; and modes, layouts and levels, which ckpt takes with few directories of
// nodes.
var (
	seamSettings = [][][]string{
		{nil, {"--async"}},
		{nil, nil, {"--codec", "none"}, {"--codec", "zstd"}, {"--incremental=false"}},
		{nil, nil, {"--keep", "2"}},
	}
	seamModes = [][][]string{
		{nil, nil, nil, nil, {"--layout", "aggregated"}, {"--layout", "shared"}, {"--mode", "semi"}, {"--mode", "uncoordinated"},
			{"--mode", "uncoordinated", "--log", "optimistic"}, {"--mode", "uncoordinated", "--log", "none"}},
		{nil, nil, nil, nil, {"--level", "application"}},
	}
)

// seamTiers are schemes of protection; half of the jobs have directories of nodes.
var seamTiers = []string{"none", "partner", "xor:4", "rs:2+2"}

// A jobPlace is a name of a job in a store.
type jobPlace struct{ store, job string }

// seams is a random world.
type seams struct {
	*sandbox
	rng      *rand.Rand
	tally    *seamTally
	program  string              // an MPI program; empty without MPI
	fakes    string              // programs that answer as DMTCP does
	digests  map[string]string   // of runs without failures
	want     map[jobPlace]string // result of each job
	done     map[jobPlace]bool   // jobs that have told it, or whose output was lost
	counted  map[jobPlace]int    // how far programs under DMTCP have come
	stores   []string
	commands []string // so far
}

func draw[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// step runs one command, or two at once, and checks what they have done.
func (w *seams) step() {
	w.t.Helper()
	p := jobPlace{draw(w.rng, w.stores), draw(w.rng, []string{"a", "b"})}
	before := w.prints()
	touched := []jobPlace{p}
	var broken string
	k, other := w.rng.IntN(10), w.rng.IntN(4) > 0
	switch is := w.identity(p) != ""; {
	case is && k < 4 && other:
		k = 4 // a job of this name is there: it continues
	case !is && k > 3 && k != 6 && other:
		k = 0
	}
	switch {
	case k < 4:
		broken = w.launch(p)
	case k < 6:
		broken = w.run(p, draw(w.rng, [][]string{{"restart", p.job, "--auto-restart"}, {"restart", p.job, "--auto-restart", "--again"}, {"restart", p.job + "@1", "--again"}})...)
	case k == 6 && len(w.stores) < 4:
		w.copyStore(p.store)
	case k == 7:
		w.ask(p, draw(w.rng, [][]string{{"rm", p.job, "--yes"}, {"prune", p.job, "--keep", "1", "--force"}, {"scrub", p.job}}))
	case k == 8:
		touched = nil
		w.ask(p, draw(w.rng, [][]string{{"list"}, {"list", p.job}, {"status", p.job}, {"verify", p.job}, {"show", p.job}, {"prune", p.job, "--keep", "0", "--dry-run"}}))
	default:
		touched = append(touched, w.together(p))
	}
	after := w.prints()
	for place, print := range before {
		if !slices.Contains(touched, place.jobPlace) && (broken == "" || !strings.HasPrefix(place.dir, broken)) && after[place] != print {
			w.wrong("%s of job %s in store %s has changed", place.dir, place.job, place.store)
		}
	}
	w.forget()
}

// note notes what is done next, and of which kind that is.
func (w *seams) note(kind, what string) {
	w.tally.did[kind]++
	w.commands = append(w.commands, what)
}

// wrong reports a fault, with all commands so far.
func (w *seams) wrong(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s\n%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.commands, "\n"), w.said("output"))
}

// launch launches a job that may fail. It returns the directory that was broken meanwhile.
func (w *seams) launch(p jobPlace) string {
	switch k := w.rng.IntN(8); {
	case k < 2 && w.program != "":
		return w.launchProgram(p)
	case k == 2:
		return w.launchDMTCP(p)
	}
	a := draw(w.rng, seamApps)
	args := []string{"launch", a.app, "--nodes", draw(w.rng, []string{"4", "4", "2"}), "--iterations", fmt.Sprint(a.iterations), "--every", fmt.Sprint(a.every), "--job", p.job}
	lists := slices.Concat(seamSettings, seamModes)
	if w.rng.IntN(2) == 0 {
		args = append(args, w.tier(seamTiers)...)
		if w.rng.IntN(3) > 0 {
			lists = seamSettings
		}
	}
	for _, list := range lists {
		args = append(args, draw(w.rng, list)...)
	}
	args = append(args, w.failures(a.iterations)...)
	key := fmt.Sprint(a.app, a.iterations)
	if w.digests[key] == "" {
		clean := jobPlace{"clean", "clean"}
		out, err := w.start(clean, "launch", a.app, "--iterations", fmt.Sprint(a.iterations), "--job", "clean").wait()
		if w.digests[key] = digestIn(out); err != nil || w.digests[key] == "" {
			w.t.Fatalf("%v\n%s", err, out)
		}
		w.ask(clean, []string{"rm", "clean", "--yes"})
	}
	return w.expect(p, w.digests[key], args)
}

// expect runs a launch, which makes a job with a result unless it is refused.
func (w *seams) expect(p jobPlace, result string, args []string) string {
	was, made := w.identity(p), false
	c := w.start(p, args...)
	c.accept = func() {
		if is := w.identity(p); is != was && !made {
			w.want[p], w.done[p], w.counted[p], made = result, false, 0, true
		}
	}
	defer func() {
		if made && c.cmd.ProcessState.ExitCode() == 1 {
			w.wrong("%s: a job stays of a launch that was refused", c.cmd)
		}
	}()
	return w.disturbAndJudge(c)
}

// tier draws directories of the nodes, with what protects them.
func (w *seams) tier(schemes []string) []string {
	return []string{"--local", filepath.Join(w.dir, draw(w.rng, []string{"n1", "n2"}), "{node}"), "--protect", draw(w.rng, schemes), "--drain", draw(w.rng, []string{"none", "behind", "every=2"})}
}

// failures draws a death, and whether it is followed by a restart.
func (w *seams) failures(iterations int) (args []string) {
	if w.rng.IntN(2) == 0 {
		args = append(args, "--fail", fmt.Sprintf("rank=%d@iter=%d", w.rng.IntN(4), 1+w.rng.IntN(iterations)))
	}
	if w.rng.IntN(3) == 0 {
		args = append(args, "--auto-restart")
	}
	return args
}

// launchProgram launches a program, whose command may hide how its ranks ended.
func (w *seams) launchProgram(p jobPlace) string {
	seed := 1 + w.rng.IntN(3)
	run := fmt.Sprintf("mpiexec.mpich -n 4 %s 200 %d", w.program, seed)
	key := fmt.Sprint("program ", seed)
	if w.digests[key] == "" {
		out, err := exec.Command("sh", "-c", run).CombinedOutput()
		if w.digests[key] = digestIn(string(out)); err != nil || w.digests[key] == "" {
			w.t.Fatalf("%v\n%s", err, out)
		}
	}
	args := []string{"launch", "--every", "25", "--job", p.job}
	if w.rng.IntN(2) == 0 {
		args = append(args, w.tier([]string{"none"})...)
	}
	args = append(append(args, draw(w.rng, killSettings)...), w.failures(200)...)
	hidden := draw(w.rng, []string{run, run + " || true", run + " | cat", run + "; exit 0"})
	return w.expect(p, w.digests[key], append(args, "--", "sh", "-c", hidden))
}

// seamProgram compiles a small MPI program; its path is empty without MPICH.
func seamProgram(t *testing.T) string {
	t.Helper()
	if testkit.Left(t, "programs", "mpicc.mpich", "mpiexec.mpich") {
		return ""
	}
	dir := t.TempDir()
	source, err := os.ReadFile(filepath.Join("testdata", "seams.c"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "seams.c"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	sdk(t, "c", filepath.Join(dir, "ckpt.h"))
	build(t, dir, "mpicc.mpich", "-O1", "-I"+dir, "seams.c", "-o", "seams")
	return filepath.Join(dir, "seams")
}

// run runs a command that continues a job.
func (w *seams) run(p jobPlace, args ...string) string {
	return w.disturbAndJudge(w.start(p, args...))
}

// together has two commands begin at the same time, on the same job or on another one.
func (w *seams) together(p jobPlace) jobPlace {
	q := jobPlace{draw(w.rng, w.stores), draw(w.rng, []string{"a", "b"})}
	first := w.start(p, "restart", p.job, "--auto-restart")
	second := w.start(q, draw(w.rng, [][]string{{"restart", q.job}, {"rm", q.job, "--yes"}, {"prune", q.job, "--keep", "1"}, {"stop", q.job}, {"scrub", q.job}})...)
	w.judge(first)
	w.judge(second)
	return q
}

// ask runs a command that ends by itself.
func (w *seams) ask(p jobPlace, args []string) {
	w.judge(w.start(p, args...))
}

// A seamCommand is one that runs on a job.
type seamCommand struct {
	*watched
	jobPlace
	accept func() // notes the job that it has made
	muted  bool   // its output may be lost
}

func (w *seams) start(p jobPlace, args ...string) *seamCommand {
	w.t.Helper()
	args = slices.Insert(args, 1, "--store", p.store)
	w.note(args[0], "ckpt "+strings.Join(args, " "))
	output := fmt.Sprint("output-", len(w.commands))
	c, err := watch(w.command(output, append([]string{"ckpt"}, args...)...), filepath.Join(w.dir, output), seamPatience)
	if err != nil {
		w.t.Fatal(err)
	}
	return &seamCommand{watched: c, jobPlace: p, accept: func() {}}
}

// wait waits for the end of a command.
func (c *seamCommand) wait() (string, error) {
	out, _, err := c.until(func(string) bool { return false })
	return out, err
}

func (w *seams) disturbAndJudge(c *seamCommand) (broken string) {
	broken = w.disturb(c)
	w.judge(c)
	return broken
}

// judge checks what a command says at its end.
func (w *seams) judge(c *seamCommand) {
	w.t.Helper()
	out, err := c.wait()
	c.accept()
	p, verb, status, counted := c.jobPlace, c.cmd.Args[1], (*exec.ExitError)(nil), w.counts(c.jobPlace, out)
	if took := time.Since(c.began); took > w.tally.longest {
		w.tally.longest, w.tally.longestCommand = took.Round(time.Millisecond), strings.Join(c.cmd.Args[1:], " ")
	}
	if c.longest > w.tally.still {
		w.tally.still, w.tally.stillCommand = c.longest.Round(time.Millisecond), strings.Join(c.cmd.Args[1:], " ")
	}
	w.tally.did[fmt.Sprintf("%s=%d", verb, c.cmd.ProcessState.ExitCode())]++
	result := digestIn(out)
	if counted > 0 && strings.Contains(out, p.job+": completed in ") {
		result = fmt.Sprint("count ", counted)
	}
	switch {
	case err != nil && !errors.As(err, &status) || strings.Contains(out, "panic:") || strings.Contains(out, "goroutine "):
		w.wrong("%s: %v\n%s", c.cmd, err, out)
	case result != "" && w.want[p] != "" && result != w.want[p]:
		w.wrong("%s: result %s, want %s\n%s", c.cmd, result, w.want[p], out)
	case result != "":
		w.done[p] = true
	}
	if err != nil || verb != "launch" && verb != "restart" {
		return
	}
	if c.muted && strings.Contains(out, p.job+": completed in ") {
		w.done[p] = true // Its ranks called ckpt_finalize: the result went with the launcher.
	}
	stays := w.done[p] && strings.Contains(out, "has completed, and stays as it is")
	if result == "" && !stays && !c.muted && !strings.Contains(out, "stopped") {
		w.wrong("%s ends with status 0 and no result\n%s", c.cmd, out)
	}
	w.tally.completed++
	if strings.HasPrefix(result, "count ") {
		w.tally.underDMTCP++
	}
}

var digestLine = scripttest.Lazily(`(?m)^digest ([0-9a-f]{64})$`)

func digestIn(out string) string {
	if m := digestLine().FindStringSubmatch(out); m != nil {
		return m[1]
	}
	return ""
}
