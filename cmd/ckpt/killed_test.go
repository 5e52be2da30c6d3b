package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/testkit"
)

// TestProgramsKilled runs the heat programs of docs/examples, of each language and for VeloC, FTI
// and SCR, on each implementation of MPI, on one host or on two names of it, and under Slurm. It
// kills a rank, an agent, the launcher, its daemon on a host, its session with it or the
// coordinator at random times from the start on, in every fifth run when the result is written,
// about when the ranks call ckpt_finalize. Each time the final field and the set of lines printed
// equal the field and the lines of a run without failures and without ckpt, and nothing of the job is left behind.
// A killed coordinator is followed by ckpt restart, all else by the coordinator itself. A dozen
// runs have each language, launcher, role and way to write; there are 200 at night.
//
//	CKPT_KILL_RUNS=200 go test -run TestProgramsKilled ./cmd/ckpt
//	CKPT_KILL_SEED=17 CKPT_KILL_RUNS=1 go test -v -run TestProgramsKilled ./cmd/ckpt
//
// are more runs, and run 17 alone.
func TestProgramsKilled(t *testing.T) {
	t.Parallel()
	runs, seed := number(t, "CKPT_KILL_RUNS", 12), number(t, "CKPT_KILL_SEED", 0)
	if testkit.Nightly() && os.Getenv("CKPT_KILL_RUNS") == "" {
		runs = 200
	}
	programs, all := killedPrograms(), &kills{dir: t.TempDir(), of: make(map[string]int), references: make(map[string]*reference)}
	t.Run("run", func(t *testing.T) { // returns when all runs have ended
		for run := seed; run < seed+runs; run++ {
			p, ranks := programs[run%len(programs)], 4
			if run%7 == 2 && !p.mpi.slurm {
				ranks = 8
			}
			t.Run(fmt.Sprintf("%d,%s,%s,%d", run, p.language, p.mpi, ranks), func(t *testing.T) {
				t.Parallel()
				p.build(t, all.dir)
				k := newKiller(t, p, run, ranks)
				k.all = all
				k.survives()
			})
		}
	})
	t.Logf("killed: %v", all.of)
	for _, role := range killedRoles {
		if all.runs >= 2*len(killedRoles) && all.of[role] == 0 && !t.Failed() {
			t.Errorf("no %s was killed in %d runs", role, all.runs)
		}
	}
}

// kills are what all runs share.
type kills struct {
	dir        string // of compiled programs
	mu         sync.Mutex
	runs       int
	of         map[string]int        // of each role
	references map[string]*reference // by what is printed and the number of steps
}

// A reference is what a program has to leave. It is the same for all launchers and numbers of ranks.
type reference struct {
	sync.Once
	field []byte
	lines []string
}

// survives runs the job with kills, and compares what it leaves with the reference.
func (k *killer) survives() {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, "session"), []byte(session), 0o700); err != nil {
		k.t.Fatal(err)
	}
	want := k.reference()
	k.run()
	k.all.mu.Lock()
	k.all.runs++
	k.all.mu.Unlock()
	if k.t.Failed() {
		return
	}
	if got, err := os.ReadFile(filepath.Join(k.dir, "heat.out")); k.p.language != "c++" && err != nil || !bytes.Equal(got, want.field) {
		k.t.Errorf("the result is not that of a run without failures: %v, %d bytes of %d", err, len(got), len(want.field))
	}
	if got := k.lines("output"); !slices.Equal(got, want.lines) {
		k.t.Errorf("the program printed %q, without failures %q\n%s", got, want.lines, k.said("output"))
	}
	if err := k.command("output", "ckpt", "verify", "heat").Run(); err != nil {
		k.t.Errorf("ckpt verify: %v\n%s", err, k.said("output"))
	}
	k.nothingLeft()
}

// number returns a number of the environment.
func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// newKiller draws what is done to a program in a run.
func newKiller(t *testing.T, p *heatProgram, run, ranks int) *killer {
	turn := run / len(killedRoles)
	k := &killer{p: p, ranks: ranks, rng: rand.New(rand.NewPCG(uint64(run), 16)), next: killedRoles[(run+turn)%len(killedRoles)],
		settings: killSettings[(run+run/4)%len(killSettings)], late: run%5 == 4, sandbox: newSandbox(t, p.mpi.env)}
	k.hosts = !p.mpi.slurm && (k.next == aDaemon || k.next == aSession || turn%2 == 1)
	if !slices.Contains(k.roles(), k.next) {
		k.next = aDaemon
	}
	if p.mpi.slurm {
		k.cluster, _ = os.MkdirTemp("", "ckpt-slurm-") // Slurm's settings have no commas in paths
		t.Cleanup(func() { os.RemoveAll(k.cluster) })
	}
	return k
}

// roles are those that processes of the job have.
func (k *killer) roles() []string {
	switch {
	case k.hosts:
		return killedRoles
	case k.p.mpi.name == "openmpi": // mpiexec starts the ranks of this host itself
		return killedRoles[:4]
	}
	return killedRoles[:5]
}

// A killer runs a job and kills parts of it.
type killer struct {
	*sandbox
	p     *heatProgram
	ranks int
	rng   *rand.Rand
	all   *kills
	next  string // the role of the process to be killed next
	// settings are flags of the write path.
	settings []string
	kills    int  // that are still to come
	mine     int  // in the session
	total    int  // in all sessions
	hosts    bool // more than one
	late     bool // the first is killed when the result is written
	before   int  // bytes of output before the session
	cluster  string
}

// killSize is the length of the field.
const killSize = 256

var killedRoles = []string{aRank, anAgent, aLauncher, aCoordinator, aDaemon, aSession}

// killSettings are the ways to write that take turns.
var killSettings = [][]string{nil, {"--async"}, {"--layout", "aggregated"}, {"--async", "--layout", "shared", "--codec", "none"}}

// sized is the command of a program, whose result goes to a file.
func (k *killer) sized(program []string, file string) []string {
	steps := k.p.steps * 4 / k.ranks
	if !testkit.Nightly() {
		steps /= 2
	}
	return append(program[:len(program):len(program)], strconv.Itoa(killSize), strconv.Itoa(steps), file)
}

// arguments start the program.
func (k *killer) arguments() []string {
	m := *k.p.mpi
	if k.hosts {
		m = mpiLibrary{name: m.name, args: m.hosts}
	}
	return m.mpiexec(k.ranks, k.sized(k.p.command, "heat.out")...)
}

// lines returns the different lines of a program's output.
func (k *killer) lines(output string) []string {
	said, _ := os.ReadFile(filepath.Join(k.dir, output))
	list := strings.Split(string(said), "\n")
	list = slices.DeleteFunc(list, func(line string) bool {
		return !strings.HasPrefix(line, "step ") && !strings.Contains(line, " records, sum ")
	})
	slices.Sort(list)
	return slices.Compact(list)
}

// reference returns the result of a run without failures and without ckpt.
func (k *killer) reference() *reference {
	k.t.Helper()
	key := fmt.Sprint(k.p.language, k.sized(nil, ""))
	switch k.p.language {
	case "fti", "scr", "veloc": // heat_plain.c in each
		key = fmt.Sprint("c", k.sized(nil, ""))
	case "c++": // each rank has a rod
		key = fmt.Sprint(key, k.ranks)
	}
	k.all.mu.Lock()
	r := k.all.references[key]
	if r == nil {
		r = new(reference)
		k.all.references[key] = r
	}
	k.all.mu.Unlock()
	r.Do(func() {
		plain := k.p.plain(k.t, k.dir)
		m := *k.p.mpi
		m.slurm = false
		if err := k.command("reference", m.mpiexec(k.ranks, k.sized(plain, "plain.out")...)...).Run(); err != nil {
			k.t.Fatalf("%v\n%s", err, k.said("reference"))
		}
		r.field, _ = os.ReadFile(filepath.Join(k.dir, "plain.out"))
		r.lines = k.lines("reference")
	})
	if len(r.lines) == 0 || len(r.field) == 0 && k.p.language != "c++" {
		k.t.Fatalf("a run without failures leaves %d bytes and %d lines", len(r.field), len(r.lines))
	}
	return r
}

// run runs the job to its end.
func (k *killer) run() {
	k.t.Helper()
	k.kills = 1 + k.rng.IntN(4)
	launch := append([]string{"ckpt", "launch", "--interval", "200ms", "--auto-restart", "--job", "heat"}, k.settings...)
	launch = append(append(launch, "--"), k.arguments()...)
	restart := []string{"ckpt", "restart", "heat", "--auto-restart"}
	for next := launch; ; {
		said, _ := os.ReadFile(filepath.Join(k.dir, "output"))
		k.before = len(said)
		status, dead := k.session(next)
		switch {
		case k.t.Failed():
			return
		case status == 0 || k.completed():
			return
		case !dead && k.mine == 0:
			k.t.Errorf("%s: exit status %d, and nothing was killed\n%s", strings.Join(next, " "), status, k.said("output"))
			return
		case !dead:
			k.t.Errorf("%s: exit status %d after %d kills\n%s", strings.Join(next, " "), status, k.mine, k.said("output"))
			return
		}
		next = restart
		if !k.hasCheckpoint() {
			k.forget()
			next = launch
		}
	}
}

// completed reports whether all ranks had finished when one, or the launcher, died.
func (k *killer) completed() bool {
	return strings.Contains(k.sessionSaid(), "the program completed, and its command exited with status")
}

func (k *killer) sessionSaid() string {
	said, _ := os.ReadFile(filepath.Join(k.dir, "output"))
	return string(said[k.before:])
}

// hasCheckpoint reports whether there is one to restart from.
func (k *killer) hasCheckpoint() bool {
	found, _ := filepath.Glob(filepath.Join(k.store, "jobs", "heat", "[0-9]*", "manifest"))
	return len(found) > 0
}

// forget removes a job without checkpoints, if it was made. The description makes the job:
// a coordinator that was killed before it wrote one leaves a directory at most, which is
// no job for ckpt rm, and which the next launch takes over.
func (k *killer) forget() {
	k.t.Helper()
	if _, err := os.Stat(filepath.Join(k.store, "jobs", "heat", "job")); err != nil {
		return
	}
	if err := k.command("output", "ckpt", "rm", "heat", "--yes").Run(); err != nil {
		k.t.Errorf("ckpt rm: %v\n%s", err, k.said("output"))
	}
}

// session runs a command of ckpt until it ends, and kills meanwhile. It returns the exit
// status, and whether the command itself was killed.
func (k *killer) session(args []string) (status int, dead bool) {
	k.t.Helper()
	if k.p.mpi.slurm {
		args = append([]string{"bash", "testdata/slurm/slurm", k.cluster}, args...)
		args[1], _ = filepath.Abs(args[1])
	}
	cmd := k.command("output", args...)
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	patient, told := time.After(testkit.Patience), ""
	k.mine = 0
	for {
		var strike <-chan time.Time
		if k.kills > 0 {
			late := 1500
			if k.total == 0 { // the first is to come before the end
				late = 500
			}
			most := draw(k.rng, []int{50, 500, late})
			if k.late && k.total == 0 {
				most = 2 // look again
			}
			strike = time.After(time.Duration(k.rng.IntN(most)) * time.Millisecond)
		}
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				k.t.Fatal(err)
			}
			status := cmd.ProcessState.ExitCode()
			return status, status < 0 || k.p.mpi.slurm && status == 128+int(syscall.SIGKILL)
		case <-strike:
			if !k.late || k.total > 0 || k.written() {
				k.strike(cmd.Process.Pid)
			}
		case <-patient:
			if now := k.said("output"); now != told { // it goes on, slowly
				patient, told = time.After(testkit.Patience), now
				continue
			}
			k.t.Errorf("%s does not end: %v\n%s", strings.Join(args, " "), k.processes(), k.said("output"))
			_ = syscall.Kill(cmd.Process.Pid, syscall.SIGQUIT)
			<-ended
			k.t.Log(k.said("output"))
			return 0, true
		}
	}
}

// written reports whether the program has written its result.
func (k *killer) written() bool {
	if k.p.language == "c++" { // it prints its result
		return strings.Contains(k.said("output"), " records, sum ")
	}
	info, err := os.Stat(filepath.Join(k.dir, "heat.out"))
	return err == nil && info.Size() == 8*killSize*killSize
}

// strike kills one process of the next role, if there is one.
func (k *killer) strike(coordinator int) {
	list := k.having(k.next)
	if len(list) == 0 {
		return
	}
	victim := list[k.rng.IntN(len(list))]
	if k.next == aCoordinator && !k.p.mpi.slurm {
		victim.pid = coordinator
	}
	victim.signal(syscall.SIGKILL)
	k.all.mu.Lock()
	k.all.of[k.next]++
	k.all.mu.Unlock()
	k.t.Logf("killed %s %v", k.next, &victim)
	k.next = draw(k.rng, k.roles())
	k.kills--
	k.mine++
	k.total++
}
