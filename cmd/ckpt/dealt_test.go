package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ckpt/internal/testkit"
)

// TestProgramsDealt runs the heat programs of docs/examples, of each language and on each
// implementation of MPI, and restarts them with other numbers of ranks from files of each
// layout. A rank dies in the first session, another one in the second, and then the
// coordinator. The final field is, bit by bit, as after a run without failures and without
// ckpt.
func TestProgramsDealt(t *testing.T) {
	t.Parallel()
	dir, numbers := t.TempDir(), [][]int{{4, 2, 3}}
	settings := killSettings
	if testkit.Nightly() {
		numbers = append(numbers, []int{1, 5, 2}, []int{3, 8, 1}, []int{6, 4, 6})
	}
	for i, p := range heatPrograms() {
		if !testkit.Nightly() && (p.language == "c") != (p.mpi.name == "mpich") {
			continue // each language once
		}
		for k, ranks := range numbers {
			for s := range settings {
				if !testkit.Nightly() && s != i%len(settings) {
					continue
				}
				t.Run(fmt.Sprintf("%s,%s,%v,%d", p.language, p.mpi.name, ranks, s), func(t *testing.T) {
					p.build(t, dir)
					d := &dealer{sandbox: newSandbox(t, p.mpi.env), p: p, steps: p.steps / 6 / 8 * 8, settings: settings[(s+k)%len(settings)]}
					d.run(ranks)
				})
			}
		}
	}
}

// A dealer runs a job with one number of ranks after another.
type dealer struct {
	*sandbox
	p        *heatProgram
	steps    int
	settings []string
}

func (d *dealer) program(program []string, ranks int, file string) []string {
	return d.p.mpi.mpiexec(ranks, append(program[:len(program):len(program)], "100", strconv.Itoa(d.steps), file)...)
}

func (d *dealer) run(ranks []int) {
	d.t.Helper()
	// Deaths show at once; other tests may have the processors for longer than the default.
	const silence = "--silence=1m"
	d.must(0, d.program(d.p.plain(d.t, d.dir), ranks[0], "plain.out")...)
	launch := slices.Concat([]string{"ckpt", "launch", silence, "--every", strconv.Itoa(d.steps / 8), "--fail", fmt.Sprintf("rank=%d@iter=%d", ranks[0]-1, d.steps*3/8-1), "--job", "heat"},
		d.settings, []string{"--"}, d.program(d.p.command, ranks[0], "heat.out"))
	d.must(5, launch...)
	d.killed("ckpt", "restart", "heat", silence, "--np", strconv.Itoa(ranks[1]), "--auto-restart", "--fail", fmt.Sprintf("rank=%d@iter=%d", ranks[1]-1, d.steps/2-1))
	d.must(0, "ckpt", "restart", "heat", silence, "--np", strconv.Itoa(ranks[2]))
	want, err := os.ReadFile(filepath.Join(d.dir, "plain.out"))
	if err != nil {
		d.t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(d.dir, "heat.out")); err != nil || !bytes.Equal(got, want) {
		d.t.Errorf("the result is not that of a run without failures: %v, %d bytes of %d\n%s", err, len(got), len(want), d.said("output"))
	}
	d.must(0, "ckpt", "verify", "heat")
	d.nothingLeft()
	said, _ := os.ReadFile(filepath.Join(d.dir, "output"))
	for _, n := range ranks {
		if !strings.Contains(string(said), fmt.Sprintf("heat: %d rank", n)) {
			d.t.Errorf("no session with %d ranks\n%s", n, said)
		}
	}
}

// must runs a command and wants its exit status.
func (d *dealer) must(status int, args ...string) {
	d.t.Helper()
	cmd := d.command("output", args...)
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		d.t.Fatalf("%s: %v, want status %d\n%s", strings.Join(args, " "), err, status, d.said("output"))
	}
}

// killed runs a command until it has taken a checkpoint, and kills it, unless it ends
// before.
func (d *dealer) killed(args ...string) {
	d.t.Helper()
	newest := func() int {
		n := 0
		found, _ := filepath.Glob(filepath.Join(d.store, "jobs", "heat", "[0-9]*", "manifest"))
		for _, path := range found {
			number, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			n = max(n, number)
		}
		return n
	}
	before := newest()
	cmd := d.command("output", args...)
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	d.eventually("a checkpoint of the new ranks", func() bool {
		select {
		case <-ended:
			return true
		default:
			return newest() > before+1
		}
	})
	_ = cmd.Process.Signal(syscall.SIGKILL)
	<-ended
	d.eventually("the ranks to end", func() bool { return len(d.processes()) == 0 })
	if newest() == before {
		d.t.Fatalf("%s took no checkpoint\n%s", strings.Join(args, " "), d.said("output"))
	}
}
