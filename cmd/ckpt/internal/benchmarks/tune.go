package benchmarks

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

type benchTuneOptions struct {
	on, maxBytes  string
	cases, rounds int
	combinations  int
	seed          uint64
}

func newBenchTuneCommand(g *ui.Globals) *cobra.Command {
	var o benchTuneOptions
	cmd := &cobra.Command{
		Use:   "tune DIR",
		Short: "Measure how good the settings are that tune finds",
		Long: `Draw short jobs, have the search of ckpt tune choose their settings with a description
of DIR, and run each job in DIR with the default, with the choice and with every
combination of layout, codec and buffer. The three best then compete with the choice
and the default again, as the least of many times is low by chance. Print how the
choice does beside the best of all. The objective is the latency. The runs take turns;
the command removes them. A case takes about a minute; after ^C the cases that are
complete are printed.`,
		Example: "  ckpt bench storage /scratch -o scratch.yaml\n  ckpt bench tune /scratch --on scratch.yaml --cases 5",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "cases", "rounds", "combinations"); err != nil {
				return err
			}
			return runBenchTune(cmd.Context(), g, args[0], &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "", "description of DIR, as ckpt bench storage writes it")
	f.StringVar(&o.maxBytes, "max-bytes", "2GiB", "have at most this many bytes in DIR at a time")
	f.IntVar(&o.cases, "cases", 20, "jobs to draw")
	f.IntVar(&o.rounds, "rounds", 2, "times that each job is run with each combination")
	f.IntVar(&o.combinations, "combinations", 0, "draw so many combinations for each job (default all)")
	f.Uint64Var(&o.seed, "seed", 1, "random seed of the jobs")
	return cmd
}

// tuned is the comparison as JSON.
type tuned struct {
	Dir   string      `json:"dir"`
	On    string      `json:"on"`
	Seed  uint64      `json:"seed"`
	Cases []tunedCase `json:"tuned_list"`
	// Near is the share of the cases in which the choice is within 10 % of the best,
	// Worse the number in which it is worse than the default.
	Near  float64 `json:"near_share"`
	Worse int     `json:"worse_count"`
}

// A tunedCase is a job with its settings. Times are medians.
type tunedCase struct {
	standard, choice, best trial
	App                    string        `json:"app"`
	NP                     int           `json:"np"`
	Nodes                  int           `json:"nodes"`
	Chosen                 trialSettings `json:"chosen_settings"`
	Best                   trialSettings `json:"best_settings"`
	DefaultTime            float64       `json:"default_s"`
	ChoiceTime             float64       `json:"chosen_s"`
	BestTime               float64       `json:"best_s"`
	Combinations           int           `json:"combinations"`
	Loss                   float64       `json:"loss_share"` // chosen_s / best_s − 1
}

// tuneCheckpoints is how many checkpoints of a run count.
const tuneCheckpoints = 5

func runBenchTune(ctx context.Context, g *ui.Globals, dir string, o *benchTuneOptions) error {
	most, err := ui.ParseSize("--max-bytes", o.maxBytes)
	if err != nil {
		return err
	}
	if o.on == "" {
		return ui.Missing("--on", "scratch.yaml")
	}
	sys, err := loadOn(o.on)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	out := &tuned{Dir: dir, On: sys.Name, Seed: o.seed}
	rng := rand.New(rand.NewPCG(o.seed, 20))
	r := &trials{g: g, dir: dir, most: most}
	bar := g.NewBar("cases", int64(o.cases), false)
	defer bar.Clear()
	for range o.cases {
		c, err := r.tune(ctx, sys, drawTrial(rng), o, rng)
		if err != nil {
			bar.Clear()
			return out.cut(ctx, g, err)
		}
		out.add(c)
		bar.Set(int64(len(out.Cases)))
	}
	bar.Clear()
	return g.Show(out, func() error { return out.print(g) })
}

// cut prints the cases that were measured before an interrupt: each took a minute.
func (t *tuned) cut(ctx context.Context, g *ui.Globals, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if len(t.Cases) > 0 {
		if err := g.Show(t, func() error { return t.print(g) }); err != nil {
			return err
		}
	}
	return ui.ErrInterrupted
}

// tune measures one case.
func (r *trials) tune(ctx context.Context, sys *pfs.System, t trial, o *benchTuneOptions, rng *rand.Rand) (c tunedCase, err error) {
	t.Settings, t.Codec = plan.Defaults(), "none"
	search, err := t.forecast()
	if err != nil {
		return c, err
	}
	choice, err := tune.SearchIn(ctx, sys, search, tune.Latency, tune.Space{Codec: true, Buffer: true, Aggregators: true, Layout: true})
	if err != nil {
		return c, err
	}
	list := []trial{t, t}
	list[1].Settings, list[1].Codec = choice.Best.Settings, choice.Best.Codec
	all := combinations(t)
	rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	if o.combinations > 0 {
		all = all[:min(o.combinations, len(all))]
	}
	list = append(list, all...)
	times, err := r.inRounds(ctx, list, o.rounds, rng)
	if err != nil {
		return c, err
	}
	// The least of many medians is low by chance: the best compete again.
	last := finalists(list, times)
	if times, err = r.inRounds(ctx, last, 2*o.rounds, rng); err != nil {
		return c, err
	}
	best := 0
	for i := range last {
		if medianOf(times[i]) < medianOf(times[best]) {
			best = i
		}
	}
	c = tunedCase{standard: last[0], choice: last[1], best: last[best], App: t.job(), NP: t.NP, Nodes: t.Nodes, Chosen: last[1].settings(),
		Best: last[best].settings(), DefaultTime: medianOf(times[0]), ChoiceTime: medianOf(times[1]), BestTime: medianOf(times[best]),
		Combinations: len(list)}
	c.Loss = c.ChoiceTime/c.BestTime - 1
	return c, nil
}

// inRounds runs each combination in each round, in an order drawn anew. Combinations that
// are equal are one: they share their times.
func (r *trials) inRounds(ctx context.Context, list []trial, rounds int, rng *rand.Rand) ([][]float64, error) {
	times := make(map[trial][]float64)
	for range rounds {
		for _, i := range rng.Perm(len(list)) {
			o, err := r.run(ctx, &list[i], tuneCheckpoints+1)
			if err != nil {
				return nil, err
			}
			times[list[i]] = append(times[list[i]], o.all...)
		}
	}
	out := make([][]float64, len(list))
	for i := range list {
		out[i] = times[list[i]]
	}
	return out, nil
}

// finalists are the default and the choice, which are the first two, and the three best.
func finalists(list []trial, times [][]float64) []trial {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(medianOf(times[a]), medianOf(times[b])) })
	last := []trial{list[0], list[1]}
	for _, i := range order {
		if len(last) < 5 && !slices.Contains(last, list[i]) {
			last = append(last, list[i])
		}
	}
	return last
}

// combinations are the settings of an exhaustive run.
func combinations(t trial) (list []trial) {
	for _, layout := range []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared} {
		for _, codec := range []string{"none", "s2", "zstd"} {
			for _, buffer := range []int64{4 << 20, 16 << 20} {
				x := t
				x.Settings.Layout, x.Settings.Buffer, x.Codec = layout, buffer, codec
				list = append(list, x)
			}
		}
	}
	return list
}

func (t *tuned) add(c tunedCase) {
	t.Cases = append(t.Cases, c)
	near := 0
	t.Worse = 0
	for _, c := range t.Cases {
		if c.Loss <= 0.1 {
			near++
		}
		if c.ChoiceTime > c.DefaultTime && c.choice != c.standard {
			t.Worse++
		}
	}
	t.Near = float64(near) / float64(len(t.Cases))
}

func (t *tuned) print(g *ui.Globals) error {
	var rows [][]string
	for _, c := range t.Cases {
		name := func(t trial) string { return fmt.Sprintf("%s, %s, %d MiB", t.layout(), t.Codec, t.Settings.Buffer>>20) }
		rows = append(rows, []string{c.standard.App, fmt.Sprint(c.NP), fmt.Sprint(c.Nodes), milliseconds(c.DefaultTime),
			name(c.choice), milliseconds(c.ChoiceTime), name(c.best), milliseconds(c.BestTime), fmt.Sprintf("%+.0f %%", 100*c.Loss)})
	}
	if err := g.Table([]string{"app", "|ranks", "|nodes", "|default ms", "choice", "|ms", "best of all", "|ms", "|choice / best"}, rows); err != nil {
		return err
	}
	return g.Printf("\n%d cases: the choice is within 10 %% of the best in %.0f %%, and worse than the default in %d\n", len(t.Cases), 100*t.Near, t.Worse)
}
