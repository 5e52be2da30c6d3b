package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat"

	"ckpt/internal/testkit"
	"ckpt/predict/life"
)

// TestLives holds simulated lives to real ones: drawn jobs on a slow disk, in all modes, with and
// without directories of nodes, some of them two at a time, whose ranks are killed at random
// moments. Two quiet runs say what a job costs, without checkpoints and with one failure, and of
// groups a third one without failures. From these alone a thousand lives are simulated. The run time, checkpoints, restarts
// and lost iterations of the real life should lie in the range of 95 of 100 simulated ones.
//
//	CKPT_LIVES=40 go test -timeout 3h -v -run TestLives ./cmd/ckpt
//
// is for a quiet machine: elsewhere costs change while the job runs. It prints a table for the docs.
func TestLives(t *testing.T) {
	count := number(t, "CKPT_LIVES", 0)
	if count == 0 {
		t.Skip("CKPT_LIVES says how many jobs run, each for minutes")
	}
	var all livesTally
	for seed := range count {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { all.real(t, uint64(seed)) })
	}
	slices.Sort(all.off)
	t.Logf("| job | run time [s] | checkpoints | failures | lost iterations |\n|---|---|---|---|---|\n%s", strings.Join(all.rows, "\n"))
	t.Logf("%d jobs: of %d quantities %d lie in the 95 %% band (%v); the run time of the median life is off by %.1f %% in the median", count, all.values, all.inside, all.outside, 100*stat.Quantile(0.5, stat.Empirical, all.off, nil))
	if testkit.Nightly() && all.values > 0 && float64(all.inside) < 0.9*float64(all.values) {
		t.Errorf("%d of %d inside, want 90 %%", all.inside, all.values)
	}
}

type livesTally struct {
	values, inside int
	off            []float64
	outside        map[string]int
	rows           []string // of the table: measured, then the median and the 95 % band of the simulation
}

// realLife is what a run tells.
type realLife struct {
	Wall        float64   `json:"wall_s"`
	Outcome     string    `json:"outcome"`
	Checkpoints int       `json:"checkpoints"`
	Failures    int       `json:"failures"`
	WorkLost    []int     `json:"work_lost"`
	Recovery    []float64 `json:"recovery_s"`
	pauses      []float64
}

// drawnLife is a job.
type drawnLife struct {
	*sandbox
	args       []string
	mode       string
	iterations int
	every      int
	two, local bool
}

const livesRanks, livesNodes = 4, 2

func drawLife(t *testing.T, rng *rand.Rand) *drawnLife {
	d := &drawnLife{mode: draw(rng, []string{"coordinated", "coordinated", "semi", "uncoordinated"}), iterations: 400, every: 40 + rng.IntN(100), two: rng.IntN(4) == 0}
	dir := t.TempDir()
	d.sandbox = newSandbox(t, []string{fmt.Sprintf("CKPT_SLOW_DISK=%dMB/s,seek=1ms,dir=%s", 80+rng.IntN(200), dir)})
	d.args = []string{"launch", draw(rng, []string{"bt.W.4", "heat.W.4", "cg.W.4"}), "--nodes", fmt.Sprint(livesNodes), "--iterations", fmt.Sprint(d.iterations), "--mode", d.mode, "--json", "--store", filepath.Join(dir, "store")}
	if d.mode != "coordinated" {
		d.args = append(d.args, "--log", "pessimistic-sender")
	} else if rng.IntN(3) == 0 {
		d.local = true
		d.args = append(d.args, "--local", filepath.Join(d.dir, "{node}"), "--protect", "partner")
	}
	return d
}

// run runs the job, or two of them at a time, and returns what the first one tells.
func (d *drawnLife) run(t *testing.T, name string, more ...string) (r realLife) {
	t.Helper()
	var wait sync.WaitGroup
	if d.two {
		beside := d.command("beside-"+name, slices.Concat([]string{"ckpt"}, d.args, []string{"--job", "beside-" + name}, more)...)
		wait.Go(func() { beside.Run() })
	}
	cmd := d.command(name, slices.Concat([]string{"ckpt"}, d.args, []string{"--job", name}, more)...)
	err := cmd.Run()
	wait.Wait()
	if err != nil {
		t.Fatalf("%s: %v: %s", cmd, err, d.said(name))
	}
	out, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var event struct {
			Type  string  `json:"type"`
			Pause float64 `json:"pause_s"`
		}
		line := lines.Bytes()
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		switch event.Type {
		case "checkpoint":
			r.pauses = append(r.pauses, event.Pause)
		case "result":
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r.Outcome != "completed" {
		t.Fatalf("%s: %s: %s", cmd, r.Outcome, d.said(name))
	}
	return r
}

// real runs a drawn job, and compares it with its simulated lives.
func (a *livesTally) real(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 43))
	d := drawLife(t, rng)
	every := []string{"--every", fmt.Sprint(d.every)}
	plain := d.run(t, "plain")
	groups := map[string]int{"coordinated": 1, "semi": livesNodes, "uncoordinated": livesRanks}[d.mode]
	var quiet realLife // only groups repeat work faster
	if groups > 1 {
		quiet = d.run(t, "quiet", every...)
	}
	// One failure halfway between two checkpoints.
	once := d.run(t, "once", append(every, "--auto-restart", "--fail", fmt.Sprintf("rank=1@iter=%d", d.every+d.every/2+d.every/8))...)
	mtbf := plain.Wall * (0.25 + 0.5*rng.Float64())
	got := d.run(t, "real", append(every, "--auto-restart", "--fail", fmt.Sprintf("mtbf=%.3fs,seed=%d", mtbf, seed))...)

	step := plain.Wall / float64(d.iterations)
	j := life.Job{Work: plain.Wall, Interval: float64(d.every) * step, Nodes: livesRanks,
		Levels: []life.Level{{Name: "store", Cost: stat.Mean(append(quiet.pauses, once.pauses...), nil), Restart: stat.Mean(once.Recovery, nil)}}}
	ranks := float64(livesRanks / groups)
	if groups > 1 {
		j.Groups, j.Spread, j.Slack = groups, true, 2*step
		// The work of a group alone is repeated as fast as the one failure shows.
		lost := float64(once.WorkLost[0]) / ranks * step
		j.Replay = min(10, max(1, lost/max(1e-3, once.Wall-quiet.Wall-once.Recovery[0])))
	}
	m := life.Machine{NodeMTBF: mtbf * livesRanks, Spares: -1}
	var end, checkpoints, failures, work []float64
	for n := range 1000 {
		l, err := life.One(j, m, seed, n, nil)
		if err != nil {
			t.Fatal(err)
		}
		end, checkpoints = append(end, l.End), append(checkpoints, float64(l.Checkpoints*groups))
		failures, work = append(failures, float64(l.Failures)), append(work, l.Lost/step*ranks)
	}
	real := 0.0
	for _, n := range got.WorkLost {
		real += float64(n)
	}
	if a.outside == nil {
		a.outside = map[string]int{}
	}
	var said, cells []string
	for _, q := range []struct {
		name   string
		got    float64
		values []float64
		whole  float64 // what counting by groups and whole iterations may shift
	}{{"run time", got.Wall, end, 0}, {"checkpoints", float64(got.Checkpoints), checkpoints, float64(groups)}, {"failures", float64(got.Failures), failures, 0}, {"lost iterations", real, work, ranks}} {
		slices.Sort(q.values)
		low, mid, high := stat.Quantile(0.025, stat.Empirical, q.values, nil), stat.Quantile(0.5, stat.Empirical, q.values, nil), stat.Quantile(0.975, stat.Empirical, q.values, nil)
		a.values++
		mark := ""
		if q.got >= low-q.whole && q.got <= high+q.whole {
			a.inside++
		} else {
			a.outside[q.name]++
			mark = " OUT"
		}
		said = append(said, fmt.Sprintf("%s %.4g (%.4g, %.4g to %.4g)%s", q.name, q.got, mid, low, high, mark))
		cells = append(cells, fmt.Sprintf("%.4g: %.4g (%.4g to %.4g)%s", q.got, mid, low, high, mark))
		if q.name == "run time" {
			a.off = append(a.off, max(q.got/mid, mid/q.got)-1)
		}
	}
	ways := d.args[1] + " " + d.mode
	if d.local {
		ways += ", nodes first"
	}
	if d.two {
		ways += ", two jobs"
	}
	a.rows = append(a.rows, fmt.Sprintf("| %s, every %d, MTBF %.1f s | %s |", ways, d.every, mtbf, strings.Join(cells, " | ")))
	t.Logf("%s %s every %d, two %v, local %v, slow disk, MTBF %.1f s; plain %.1f s, with checkpoints %.1f s, pause %.2f s, restart %.2f s, replay %.1f: %s", d.args[1], d.mode, d.every, d.two, d.local, mtbf,
		plain.Wall, quiet.Wall, j.Levels[0].Cost, j.Levels[0].Restart, j.Replay, strings.Join(said, "; "))
	t.Logf("recoveries %.2f s, iterations lost %d", got.Recovery, got.WorkLost)
}
