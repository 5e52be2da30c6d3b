package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/plan"
)

// checked is the comparison as JSON.
type checked struct {
	Dir    string     `json:"dir"`
	On     string     `json:"on"`
	Seed   uint64     `json:"seed"`
	Trials []trialRow `json:"trial_list"`
	Median float64    `json:"median_error"`  // of the absolute relative errors
	Inside float64    `json:"covered_share"` // measured times that lie in their interval
	Misfit float64    `json:"misfit"`        // of the description
}

// drawTrial draws a configuration: layout, ranks, nodes, buffer and codec.
func drawTrial(rng *rand.Rand) trial {
	pick := func(n ...int) int { return n[rng.IntN(len(n))] }
	s := plan.Defaults()
	s.Layout = []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared}[rng.IntN(3)]
	if s.Layout == plan.Shared && rng.IntN(3) == 0 {
		s.Strategy = plan.Individual
	}
	s.Buffer = int64(pick(4, 8, 16, 32)) << 20
	np := pick(2, 4, 8, 16)
	codec := []string{"none", "none", "s2", "zstd"}[rng.IntN(4)]
	app := "minighost.A"
	if rng.IntN(3) == 0 {
		app = "minighost.W"
	}
	return trial{App: app, NP: np, Nodes: min(np, pick(1, 2, 4)), Settings: s, Codec: codec}
}

// Jobs are run in rounds, so that a machine that gets slower or faster meets all alike.
const (
	checkRounds = 3
	// checkpointsChecked is how many checkpoints of a job are measured in a round; one
	// more is taken.
	checkpointsChecked = 4
)

// runCheckStorage compares checkpoints of jobs, drawn by the seed, with a description.
func runCheckStorage(ctx context.Context, g *ui.Globals, dir string, o *storageOptions) error {
	most, err := ui.ParseSize("--max-bytes", o.probe.maxBytes)
	if err != nil {
		return err
	}
	sys, err := loadOn(o.on)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	out := &checked{Dir: dir, On: sys.Name, Seed: o.seed, Misfit: sys.Misfit.Scatter}
	rng := rand.New(rand.NewPCG(o.seed, 40))
	list := make([]trial, o.jobs)
	for i := range list {
		list[i] = drawTrial(rng)
	}
	outcomes, err := runInTurns(ctx, &trials{g: g, dir: dir, most: most}, list, rng)
	if err != nil {
		return err
	}
	for i := range list {
		c, err := list[i].forecast()
		if err != nil {
			return err
		}
		f, err := tune.Predict(ctx, sys, c)
		if err != nil {
			return err
		}
		row := newTrialRow(list[i], joined(outcomes[i]), &f)
		row.HeldOut = true
		out.Trials = append(out.Trials, row)
	}
	out.summarise()
	return g.Show(out, func() error { return out.print(g) })
}

// runInTurns runs trials in rounds, each in an order of its own.
func runInTurns(ctx context.Context, r *trials, list []trial, rng *rand.Rand) ([][]outcome, error) {
	outcomes := make([][]outcome, len(list))
	bar := r.g.NewBar("jobs", int64(checkRounds*len(list)), false)
	defer bar.Clear()
	for round := range checkRounds {
		for n, i := range rng.Perm(len(list)) {
			o, err := r.run(ctx, &list[i], checkpointsChecked+1)
			if errors.Is(err, errTooLarge) {
				err = ui.WithHint(fmt.Errorf("%s: %w", list[i].job(), err), "give a larger --max-bytes")
			}
			if err != nil {
				return nil, err
			}
			outcomes[i] = append(outcomes[i], o)
			bar.Set(int64(round*len(list) + n + 1))
		}
	}
	return outcomes, nil
}

func (c *checked) summarise() {
	var off []float64
	inside := 0
	for i := range c.Trials {
		r := &c.Trials[i]
		off = append(off, relative(r.Predicted, r.Measured))
		if r.inside() {
			inside++
		}
	}
	c.Median, c.Inside = medianOf(off), float64(inside)/float64(len(c.Trials))
}

func (c *checked) print(g *ui.Globals) error {
	var rows [][]string
	for _, r := range c.Trials {
		mark := ""
		if !r.inside() {
			mark = "outside"
		}
		rows = append(rows, append(r.of.row(), ui.MiB(r.Stored), milliseconds(r.Measured), milliseconds(r.Predicted),
			fmt.Sprintf("%.1f–%.1f", 1e3*r.Low, 1e3*r.High), percentOff(r.Predicted, r.Measured), mark))
	}
	if err := g.Table(append(trialHeader, "|stored MiB", "|measured ms", "|predicted ms", "|95 %", "|off", ""), rows); err != nil {
		return err
	}
	return g.Printf("\n%d jobs: error %.0f %% in the median, %.0f %% of the times inside of the interval\n", len(c.Trials), 100*c.Median, 100*c.Inside)
}
