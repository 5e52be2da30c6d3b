package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"ckpt/internal/testkit"
	"ckpt/interval"
	"ckpt/predict/life"
)

// TestLives holds simulated lives to real ones: drawn jobs on a slow disk, in all modes, with and
// without directories of nodes, some of them two at a time, whose ranks are killed at random
// moments. Three runs say what a job costs: without checkpoints, with them, and with three failures.
// From these alone a thousand lives are simulated. The run time, checkpoints, failures and lost
// iterations of the real life should lie in the range of 95 of 100 simulated ones. One more life meets
// the failures of the real one at the times at which they struck: its end says how far the simulation
// itself is off. Ranks sleep most of each iteration, as if each had a processor of its own.
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
	t.Logf("| job | run time [s] | checkpoints | failures | lost iterations | run time, same failures |\n|---|---|---|---|---|---|\n%s", strings.Join(all.rows, "\n"))
	t.Logf("%d jobs: of %d quantities %d lie in the 95 %% band (%v); the run time is off by %.1f %% in the median, in the same failures", count, all.values, all.inside, all.outside, 100*stat.Quantile(0.5, stat.Empirical, all.off, nil))
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
	struck      []interval.Failure // when failures struck, in seconds of the run
	repeated    float64            // iterations of all ranks after failures, and the seconds that took
	replayed    float64
}

// stamped notes when lines came.
type stamped struct {
	to   io.Writer
	came []time.Time
}

func (s *stamped) Write(p []byte) (int, error) {
	for range bytes.Count(p, []byte("\n")) {
		s.came = append(s.came, time.Now())
	}
	return s.to.Write(p)
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
	d := &drawnLife{mode: draw(rng, []string{"coordinated", "coordinated", "semi", "uncoordinated"}), iterations: 1000, every: 40 + rng.IntN(100), two: rng.IntN(4) == 0}
	dir := t.TempDir()
	d.sandbox = newSandbox(t, []string{testkit.EnvPace + "=each=6ms", fmt.Sprintf("CKPT_SLOW_DISK=%dMB/s,seek=1ms,dir=%s", 10+rng.IntN(25), dir)})
	d.args = []string{"launch", draw(rng, []string{"bt.S.4", "heat.S.4", "cg.S.4"}), "--nodes", fmt.Sprint(livesNodes), "--iterations", fmt.Sprint(d.iterations), "--mode", d.mode, "--json", "--store", filepath.Join(dir, "store")}
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
	lines := &stamped{to: cmd.Stdout}
	cmd.Stdout = lines
	err := cmd.Run()
	wait.Wait()
	if err != nil {
		t.Fatalf("%s: %v: %s", cmd, err, d.said(name))
	}
	out, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	var ended time.Time
	var failures []interval.Failure
	for n, line := range bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n")) {
		var event struct {
			Type  string  `json:"type"`
			Rank  int     `json:"rank"`
			Pause float64 `json:"pause_s"`

			Repeated int      `json:"repeated_iterations"`
			Replay   *float64 `json:"replay_s"`
		}
		if json.Unmarshal(line, &event) != nil || n >= len(lines.came) {
			continue
		}
		switch event.Type {
		case "checkpoint":
			r.pauses = append(r.pauses, event.Pause)
		case "restarted":
			if event.Replay != nil {
				r.repeated, r.replayed = r.repeated+float64(event.Repeated), r.replayed+*event.Replay
			}
		case "failure":
			failures = append(failures, interval.Failure{Node: fmt.Sprint(event.Rank), Start: float64(lines.came[n].UnixNano()) / 1e9})
		case "result":
			ended = lines.came[n]
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r.Outcome != "completed" {
		t.Fatalf("%s: %s: %s", cmd, r.Outcome, d.said(name))
	}
	for _, f := range failures {
		f.Start -= float64(ended.UnixNano())/1e9 - r.Wall
		r.struck = append(r.struck, f)
	}
	return r
}

// meets is a life that meets failures at given times.
func (d *drawnLife) meets(t *testing.T, j *life.Job, struck []interval.Failure) *life.Life {
	t.Helper()
	begin, far := 0.0, 1e8
	log := &interval.FailureLog{Failures: append(slices.Clone(struck), interval.Failure{Node: "0", Start: far}), To: 2 * far}
	l, err := life.One(*j, life.Machine{Log: log, LogShare: 1, LogFrom: &begin, Spares: -1}, 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// real runs a drawn job, and compares it with its simulated lives.
func (a *livesTally) real(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 43))
	d := drawLife(t, rng)
	every := []string{"--every", fmt.Sprint(d.every)}
	plain, quiet := d.run(t, "plain"), d.run(t, "quiet", every...)
	groups := map[string]int{"coordinated": 1, "semi": livesNodes, "uncoordinated": livesRanks}[d.mode]
	// Failures between two checkpoints, at each third of the run.
	thrice := append(every, "--auto-restart")
	for i := range 3 {
		at := d.iterations * (2*i + 1) / 6 / d.every
		thrice = append(thrice, "--fail", fmt.Sprintf("rank=%d@iter=%d", i, d.every*at+d.every*5/8))
	}
	failed := d.run(t, "failed", thrice...)
	mtbf := plain.Wall * (0.25 + 0.5*rng.Float64())
	got := d.run(t, "real", append(every, "--auto-restart", "--fail", fmt.Sprintf("mtbf=%.3fs,seed=%d", mtbf, seed))...)

	ranks := float64(livesRanks / groups)
	j := life.Job{Work: plain.Wall, Nodes: livesRanks,
		Levels: []life.Level{{Name: "store", Cost: stat.Mean(append(quiet.pauses, failed.pauses...), nil), Restart: stat.Mean(failed.Recovery, nil)}}}
	if groups > 1 {
		j.Groups, j.Spread = groups, true
	}
	// Without failures a life takes as long as the quiet run: logs and drains slow the job down, too.
	var step float64
	for range 5 {
		step = j.Work / float64(d.iterations)
		j.Interval = float64(d.every) * step
		if groups > 1 {
			j.Slack = 2 * step
		}
		j.Work = max(plain.Wall/2, j.Work+quiet.Wall-d.meets(t, &j, nil).End)
	}
	if groups > 1 && failed.replayed > 0 { // a group alone repeats work from its logs
		j.Replay = min(10, max(1, failed.repeated/ranks*step/failed.replayed))
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
	same := d.meets(t, &j, got.struck)
	var by []string
	for c, seconds := range same.By {
		if seconds > 0 {
			by = append(by, fmt.Sprintf("%s %.1f s", life.Cause(c), seconds))
		}
	}
	a.off = append(a.off, max(got.Wall/same.End, same.End/got.Wall)-1)
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
	}
	ways := d.args[1] + " " + d.mode
	if d.local {
		ways += ", nodes first"
	}
	if d.two {
		ways += ", two jobs"
	}
	a.rows = append(a.rows, fmt.Sprintf("| %s, every %d, MTBF %.1f s | %s | %.1f: %.1f |", ways, d.every, mtbf, strings.Join(cells, " | "), got.Wall, same.End))
	t.Logf("%s %s every %d, two %v, local %v, slow disk, MTBF %.1f s; plain %.1f s, with checkpoints %.1f s, pause %.2f s, restart %.2f s, replay %.1f: %s", d.args[1], d.mode, d.every, d.two, d.local, mtbf,
		plain.Wall, quiet.Wall, j.Levels[0].Cost, j.Levels[0].Restart, j.Replay, strings.Join(said, "; "))
	t.Logf("recoveries %.2f s, iterations lost %d; in the same failures %.1f s: %s", got.Recovery, got.WorkLost, same.End, strings.Join(by, ", "))
}
