package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/needs"
	"ckpt/internal/race"
)

// TestSeams runs commands on stores, copies of them and directories of nodes that jobs of
// equal names share, kills coordinators and breaks node directories at random moments. Some
// jobs are programs whose command hides how its ranks ended. No command that says a job is complete has another digest than a run without failures, no
// command changes a job that it was not asked to change, and each command ends.
//
//	CKPT_SEAM_RUNS=1000 go test -timeout 5h -run TestSeams ./cmd/ckpt
//	CKPT_SEAM_SEED=17 CKPT_SEAM_RUNS=1 go test -v -run TestSeams ./cmd/ckpt
//
// are more runs, and run 17 alone.
func TestSeams(t *testing.T) {
	t.Parallel()
	runs, seed := number(t, "CKPT_SEAM_RUNS", 3), number(t, "CKPT_SEAM_SEED", 0)
	if race.Nightly() && os.Getenv("CKPT_SEAM_RUNS") == "" {
		runs = 100
	}
	digests, program := make(map[string]string), seamProgram(t)
	completed, wrong := 0, 0
	for i := range runs {
		t.Run(fmt.Sprint(seed+i), func(t *testing.T) {
			w := &seams{sandbox: newSandbox(t, nil), rng: rand.New(rand.NewPCG(uint64(seed+i), 34)), digests: digests, program: program, want: map[jobPlace]string{}, done: map[jobPlace]bool{}}
			for range 8 {
				w.step()
			}
			completed += w.completed
			if t.Failed() {
				wrong++
			}
		})
	}
	t.Logf("%d jobs completed, %d of %d runs wrong", completed, wrong, runs)
	if completed == 0 && runs > 2 {
		t.Error("no job completed: the runs prove nothing")
	}
}

// seamPatience is how long a command may take. Most take a second; a machine may be busy.
const seamPatience = 4 * time.Minute

// seamApps are the jobs, with the iterations between checkpoints.
var seamApps = []struct {
	app               string
	iterations, every int
}{{"ring.S.4", 240, 40}, {"bt.S.4", 40, 10}, {"heat.S.4", 120, 30}}

// seamWays are the ways to write: modes, layouts, levels.
var seamWays = [][]string{nil, {"--async"}, {"--layout", "aggregated"}, {"--layout", "shared"}, {"--mode", "semi"}, {"--mode", "uncoordinated"}}

// seamTiers are schemes of protection; half of the jobs have directories of nodes.
var seamTiers = []string{"none", "partner", "xor:4", "rs:2+2"}

// A jobPlace is a name of a job in a store.
type jobPlace struct{ store, job string }

// seams is a random world.
type seams struct {
	*sandbox
	rng       *rand.Rand
	program   string              // an MPI program; empty without MPI
	digests   map[string]string   // of runs without failures
	want      map[jobPlace]string // digest of each job
	done      map[jobPlace]bool   // jobs that have told it
	stores    []string
	completed int
	commands  []string // so far
}

func draw[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// step runs one command, or two at once, and checks what they have done.
func (w *seams) step() {
	w.t.Helper()
	if len(w.stores) == 0 {
		w.stores = []string{"A", "B"}
	}
	p := jobPlace{draw(w.rng, w.stores), draw(w.rng, []string{"a", "b"})}
	before := w.prints()
	touched := []jobPlace{p}
	var broken string
	switch k := w.rng.IntN(10); {
	case k < 4:
		broken = w.launch(p)
	case k < 6:
		broken = w.run(p, "restart", p.job, "--auto-restart")
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

// wrong reports a fault, with all commands so far.
func (w *seams) wrong(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s\n%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.commands, "\n"), w.said("output"))
}

// launch launches a job that may fail. It returns the directory that was broken meanwhile.
func (w *seams) launch(p jobPlace) string {
	if w.program != "" && w.rng.IntN(4) == 0 {
		return w.launchProgram(p)
	}
	a := draw(w.rng, seamApps)
	args := []string{"launch", a.app, "--nodes", "4", "--iterations", fmt.Sprint(a.iterations), "--every", fmt.Sprint(a.every), "--job", p.job}
	if w.rng.IntN(2) == 0 {
		args = append(args, w.tier(seamTiers)...)
	} else {
		args = append(args, draw(w.rng, seamWays)...)
	}
	args = append(args, w.failures(a.iterations)...)
	key := fmt.Sprint(a.app, a.iterations)
	if w.digests[key] == "" {
		clean := jobPlace{"clean", "clean"}
		out, err := w.start(clean, "launch", a.app, "--iterations", fmt.Sprint(a.iterations), "--job", "clean").output()
		if w.digests[key] = digestIn(out); err != nil || w.digests[key] == "" {
			w.t.Fatalf("%v\n%s", err, out)
		}
		w.ask(clean, []string{"rm", "clean", "--yes"})
	}
	return w.expect(p, w.digests[key], args)
}

// expect runs a launch, which makes a job with a digest unless it is refused.
func (w *seams) expect(p jobPlace, digest string, args []string) string {
	was := w.identity(p)
	c := w.start(p, args...)
	broken := w.disturb(c)
	w.judge(p, c, func() {
		if w.identity(p) != was {
			w.want[p], w.done[p] = digest, false
		}
	})
	return broken
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
	args = append(args, w.failures(200)...)
	hidden := draw(w.rng, []string{run, run + " || true", run + " | cat", run + "; exit 0"})
	return w.expect(p, w.digests[key], append(args, "--", "sh", "-c", hidden))
}

// seamProgram compiles a small MPI program; its path is empty without MPICH.
func seamProgram(t *testing.T) string {
	t.Helper()
	if need := needs.Missing("mpicc.mpich", "mpiexec.mpich"); need != "" {
		t.Logf("without programs: %s%s", needs.Skipped, need)
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
	c := w.start(p, args...)
	broken := w.disturb(c)
	w.judge(p, c, func() {})
	return broken
}

// together has two commands begin at the same time, on the same job or on another one.
func (w *seams) together(p jobPlace) jobPlace {
	q := jobPlace{draw(w.rng, w.stores), draw(w.rng, []string{"a", "b"})}
	first := w.start(p, "restart", p.job, "--auto-restart")
	second := w.start(q, draw(w.rng, [][]string{{"restart", q.job}, {"rm", q.job, "--yes"}, {"prune", q.job, "--keep", "1"}, {"stop", q.job}, {"scrub", q.job}})...)
	w.judge(p, first, func() {})
	w.judge(q, second, func() {})
	return q
}

// ask runs a command that ends by itself.
func (w *seams) ask(p jobPlace, args []string) {
	w.judge(p, w.start(p, args...), func() {})
}

// copyStore copies a store, with all of its jobs.
func (w *seams) copyStore(store string) {
	to := fmt.Sprint("copy", len(w.stores))
	w.commands = append(w.commands, "cp -r "+store+" "+to)
	if _, err := os.Stat(filepath.Join(w.dir, store)); err != nil {
		return
	}
	if out, err := exec.Command("cp", "-r", filepath.Join(w.dir, store), filepath.Join(w.dir, to)).CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	w.stores = append(w.stores, to)
	for p, digest := range maps.Clone(w.want) {
		if p.store == store {
			w.want[jobPlace{to, p.job}], w.done[jobPlace{to, p.job}] = digest, w.done[p]
		}
	}
}

// A seamCommand is one that runs.
type seamCommand struct {
	cmd  *exec.Cmd
	file string // of its output
	done chan error
}

func (w *seams) start(p jobPlace, args ...string) *seamCommand {
	w.t.Helper()
	args = slices.Insert(args, 1, "--store", p.store)
	w.commands = append(w.commands, "ckpt "+strings.Join(args, " "))
	c := &seamCommand{file: fmt.Sprint("output-", len(w.commands)), done: make(chan error, 1)}
	c.cmd = w.command(c.file, append([]string{"ckpt"}, args...)...)
	c.file = filepath.Join(w.dir, c.file)
	if err := c.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { c.done <- c.cmd.Wait() }()
	return c
}

// output waits for the end of a command.
func (c *seamCommand) output() (string, error) {
	var err error
	select {
	case err = <-c.done:
	case <-time.After(seamPatience):
		_ = c.cmd.Process.Signal(syscall.SIGQUIT) // it prints where it stands
		<-c.done
		err = errors.New("the command stood still")
	}
	b, _ := os.ReadFile(c.file)
	return string(b), err
}

// judge checks what a command says at its end.
func (w *seams) judge(p jobPlace, c *seamCommand, ended func()) {
	w.t.Helper()
	out, err := c.output()
	ended()
	status, digest := (*exec.ExitError)(nil), digestIn(out)
	switch {
	case err != nil && !errors.As(err, &status) || strings.Contains(out, "panic:") || strings.Contains(out, "goroutine "):
		w.wrong("%s: %v\n%s", c.cmd, err, out)
	case digest != "" && w.want[p] != "" && digest != w.want[p]:
		w.wrong("%s: digest %s, want %s\n%s", c.cmd, digest, w.want[p], out)
	case digest != "":
		w.done[p] = true
	}
	verb := c.cmd.Args[1]
	if err != nil || verb != "launch" && verb != "restart" {
		return
	}
	stays := w.done[p] && strings.Contains(out, "has completed, and stays as it is")
	if digest == "" && !stays && !strings.Contains(out, "stopped") {
		w.wrong("%s ends with status 0 and no result\n%s", c.cmd, out)
	}
	w.completed++
}

var digestLine = regexp.MustCompile(`(?m)^digest ([0-9a-f]{64})$`)

func digestIn(out string) string {
	if m := digestLine.FindStringSubmatch(out); m != nil {
		return m[1]
	}
	return ""
}

// disturb kills the coordinator of a command, or breaks the directory of a node, at some
// checkpoint. It returns the directory.
func (w *seams) disturb(c *seamCommand) string {
	kind, at := w.rng.IntN(4), fmt.Sprintf("checkpoint %d at", 1+w.rng.IntN(4))
	dir := filepath.Join(w.dir, draw(w.rng, []string{"n1", "n2"}), fmt.Sprint(w.rng.IntN(4)))
	how := draw(w.rng, slices.Sorted(maps.Keys(seamOutages)))
	if kind < 2 {
		return ""
	}
	for {
		b, _ := os.ReadFile(c.file)
		if strings.Contains(string(b), at) {
			break
		}
		select {
		case err := <-c.done:
			c.done <- err
			return ""
		case <-time.After(time.Millisecond):
		}
	}
	if kind == 2 {
		w.commands = append(w.commands, "kill -9, at "+at)
		_ = c.cmd.Process.Kill()
		return ""
	}
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	w.commands = append(w.commands, how+" "+dir+", at "+at)
	seamOutages[how](dir)
	w.t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// seamOutages are ways in which the directory of a node is lost.
var seamOutages = map[string]func(dir string){
	"remove": func(dir string) { os.RemoveAll(dir) },
	"empty":  func(dir string) { os.RemoveAll(dir); _ = os.Mkdir(dir, 0o700) },
	"file":   func(dir string) { os.RemoveAll(dir); _ = os.WriteFile(dir, nil, 0o600) },
	"link":   func(dir string) { os.RemoveAll(dir); _ = os.Symlink("/nowhere", dir) },
	"format": func(dir string) { _ = os.WriteFile(filepath.Join(dir, "format"), []byte("ckXt-store 1\n"), 0o600) },
	"blank":  func(dir string) { _ = os.WriteFile(filepath.Join(dir, "format"), nil, 0o600) },
	"jobs":   func(dir string) { os.RemoveAll(filepath.Join(dir, "jobs")) },
	// As root; else these change nothing.
	"read-only": func(dir string) {
		if syscall.Mount(dir, dir, "", syscall.MS_BIND, "") == nil {
			_ = syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
		}
	},
	"full":    func(dir string) { _ = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k") },
	"unmount": func(dir string) { _ = syscall.Unmount(dir, syscall.MNT_DETACH) },
	"foreign": func(dir string) {
		other := filepath.Join(filepath.Dir(filepath.Dir(dir)), map[string]string{"n1": "n2", "n2": "n1"}[filepath.Base(filepath.Dir(dir))], filepath.Base(dir))
		if _, err := os.Stat(other); err == nil {
			os.RemoveAll(dir)
			_ = os.CopyFS(dir, os.DirFS(other))
		}
	},
	"mark": func(dir string) {
		for _, job := range []string{"a", "b"} {
			_ = os.WriteFile(filepath.Join(dir, "jobs", job, "node"), []byte("{"), 0o600)
		}
	},
}

// identity returns the digest of the description of a job; empty if there is none.
func (w *seams) identity(p jobPlace) string {
	b, _ := os.ReadFile(filepath.Join(w.dir, p.store, "jobs", p.job, "job"))
	return string(b[max(0, len(b)-66):])
}

// forget drops the digests of jobs that have gone.
func (w *seams) forget() {
	for p := range w.want {
		if w.identity(p) == "" {
			delete(w.want, p)
		}
	}
}

// A printed is a directory of a job, in its store or on a node.
type printed struct {
	jobPlace
	dir string
}

// prints returns what there is of each job, in the stores and on the nodes. A directory of a
// node without a checkpoint is free for another job.
func (w *seams) prints() map[printed]string {
	all := make(map[printed]string)
	for _, store := range w.stores {
		for _, job := range []string{"a", "b"} {
			dir := filepath.Join(w.dir, store, "jobs", job)
			if print := printOf(dir); print != "" {
				all[printed{jobPlace{store, job}, dir}] = print
			}
		}
	}
	nodes, _ := filepath.Glob(filepath.Join(w.dir, "n?", "*", "jobs", "*"))
	for _, dir := range nodes {
		var mark struct {
			Job   string
			Owner struct{ Path string }
		}
		b, _ := os.ReadFile(filepath.Join(dir, "node"))
		line, _, _ := bytes.Cut(b, []byte("\n"))
		manifests, _ := filepath.Glob(filepath.Join(dir, "*", "manifest"))
		if json.Unmarshal(line, &mark) == nil && mark.Owner.Path != "" && len(manifests) > 0 {
			all[printed{jobPlace{filepath.Base(mark.Owner.Path), mark.Job}, dir}] = printOf(dir)
		}
	}
	return all
}

// printOf returns a digest of all files below a directory, but for locks; empty if it is not
// there.
func printOf(dir string) string {
	sum, any := sha256.New(), false
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" || strings.HasSuffix(d.Name(), ".tmp") {
			return nil
		}
		b, _ := os.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
		any = true
		return nil
	})
	if !any {
		return ""
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
