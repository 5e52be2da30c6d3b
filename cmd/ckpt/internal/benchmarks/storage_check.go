package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
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
	app := packApp // how well other data pack, and how fast, no description of storage says
	if codec == "none" && rng.IntN(3) == 0 {
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
	list := drawTrials(o.jobs, rng)
	outcomes, err := runInTurns(ctx, &trials{g: g, dir: dir, most: most}, list, rng)
	if err != nil {
		return err
	}
	if out.Trials, err = compareTrials(ctx, sys, list, outcomes); err != nil {
		return err
	}
	out.Median, out.Inside = summarise(out.Trials)
	return g.Show(out, func() error { return printCompared(g, out.Trials) })
}

// drawTrials draws configurations by a seed.
func drawTrials(n int, rng *rand.Rand) []trial {
	list := make([]trial, n)
	for i := range list {
		list[i] = drawTrial(rng)
	}
	return list
}

// compareTrials predicts what trials measured.
func compareTrials(ctx context.Context, sys *pfs.System, list []trial, outcomes [][]outcome) (rows []trialRow, err error) {
	for i := range list {
		c, err := list[i].forecast()
		if err != nil {
			return nil, err
		}
		f, err := tune.Predict(ctx, sys, c)
		if err != nil {
			return nil, err
		}
		row := newTrialRow(list[i], joined(outcomes[i]), &f)
		row.HeldOut = true
		rows = append(rows, row)
	}
	return rows, nil
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

// summarise returns the median of the absolute relative errors, and the share of the times
// that lie in their interval.
func summarise(rows []trialRow) (middle, covered float64) {
	var off []float64
	inside := 0
	for i := range rows {
		r := &rows[i]
		off = append(off, relative(r.Predicted, r.Measured))
		if r.inside() {
			inside++
		}
	}
	return medianOf(off), float64(inside) / float64(len(rows))
}

func printCompared(g *ui.Globals, list []trialRow) error {
	var rows [][]string
	for _, r := range list {
		mark := ""
		if !r.inside() {
			mark = "outside"
		}
		rows = append(rows, append(r.of.row(), ui.MiB(r.Stored), milliseconds(r.Measured), milliseconds(r.Predicted),
			fmt.Sprintf("%.1f–%.1f", 1e3*r.Low, 1e3*r.High), percentOff(r.Predicted, r.Measured), mark))
	}
	if err := g.Table(append(slices.Clone(trialHeader), "|stored MiB", "|measured ms", "|predicted ms", "|95 %", "|off", ""), rows); err != nil {
		return err
	}
	middle, inside := summarise(list)
	return g.Printf("\n%s: error %.0f %% in the median, %.0f %% of the times inside of the interval\n", ui.Count(len(list), "job"), 100*middle, 100*inside)
}
