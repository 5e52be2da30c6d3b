package predictions

import (
	"ckpt/cmd/ckpt/internal/benchmarks"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/plan"
	"ckpt/predict/service"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gonum.org/v1/gonum/stat"
)

type timeOptions struct {
	jobOptions
	measure, probeSize string
	storage            ui.StorageOptions
}

func (o *timeOptions) addFlags(f *pflag.FlagSet) {
	o.jobOptions.addFlags(f)
	f.StringVar(&o.measure, "measure", "", "measure the rate of this directory with a short write test")
	f.StringVar(&o.probeSize, "measure-size", "64MiB", "bytes of each round of --measure")
	o.storage.AddFlags(f, "on", "predict the time on this storage, which all nodes share")
	o.addLevelFlag(f)
}

func newPredictTimeCommand(g *ui.Globals) *cobra.Command {
	var o timeOptions
	var groups modeOptions
	cmd := &cobra.Command{
		Use:   "time [APP]",
		Short: "Predict how long a checkpoint takes",
		Long: `Predict how long a checkpoint takes: coordination, management (compression) and
storage, with a 95 % interval and the range in which it is valid.

Without --measure the storage is that of the thesis, one local disk per node;
--measure DIR writes some MiB into DIR, durably, and predicts for that file
system. --on simulates the checkpoint on a described storage, which the nodes share
(docs/STORAGE.md). With --engine ckpt, or a model of jobs, it is the latency of what ckpt
stores, at rates that the jobs measured. --law thesis gives the thesis's own lines, Eq 5.1 to 5.3.`,
		Example: `  ckpt predict time bt.D.64 --nodes 2
  ckpt predict time bt.C.64 --codec gzip --json
  ckpt predict time bt.D.64 --nodes 4 --mode semi --stagger none
  ckpt predict time bt.B.16 --nodes 4 --measure /scratch
  ckpt predict time bt.C.64 --nodes 4 --on eos-spider2`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if groups.given() {
				return InputErrors(runTimeOfMode(cmd.Context(), g, &o, &groups, appOf(args)))
			}
			for _, name := range []string{"log", "group-size", "stagger"} {
				if cmd.Flags().Changed(name) {
					return ui.BadUsage("--"+name+" is for groups of ranks", "add --mode semi or --mode uncoordinated")
				}
			}
			return InputErrors(runPredictTime(cmd.Context(), g, &o, appOf(args)))
		},
	}
	o.addFlags(cmd.Flags())
	groups.addModeFlags(cmd.Flags(), "with a mode the time of one group and of all: ", "log of messages between groups, of --mode semi or uncoordinated: ")
	return cmd
}

// predict reads the model, measures the storage with --measure, and predicts.
func (o *timeOptions) predict(ctx context.Context, app string) (c plan.Cost, err error) {
	m, err := o.load(app)
	if err != nil {
		return c, err
	}
	way, err := o.way(ctx, m)
	if err != nil {
		return c, err
	}
	r, err := o.requestFor(m, app, way.Engine)
	if err != nil {
		return c, err
	}
	if way.Probe, err = o.probe(ctx); err != nil {
		return c, err
	}
	return way.Cost(m, r)
}

// way is how checkpoints are written, and onto which storage.
func (o *timeOptions) way(ctx context.Context, m *predict.Model) (w plan.Way, err error) {
	own, err := o.own(m)
	if err != nil {
		return w, err
	}
	if w.Storing = (predict.Storing{Codec: o.codec}); own {
		w.Engine, w.Storing = dataset.Ckpt, o.storing()
	}
	on, err := o.on(ctx)
	if err == nil && on != nil {
		w.Storage = on
	}
	return w, err
}

// probe measures the file system of --measure, nil without.
func (o *timeOptions) probe(ctx context.Context) (*fit.Probe, error) {
	if o.measure == "" {
		return nil, nil
	}
	info, err := os.Stat(o.measure)
	if err != nil {
		return nil, dataset.CannotRead("directory", o.measure, err)
	}
	if !info.IsDir() {
		return nil, ui.AsUsage(fmt.Errorf("--measure %s: not a directory", o.measure))
	}
	size, err := ui.ParseSize("--measure-size", o.probeSize)
	if err != nil {
		return nil, err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	const rounds = 3
	r, err := benchmarks.MeasureWrite(ctx, o.measure, benchmarks.WriteOptions{Size: size, Rounds: rounds})
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w", o.measure, err)
	}
	return &fit.Probe{BytesPerS: r.CheckpointMedian, RelativeSD: scatter(r.Checkpoint), Writers: 1, Dir: o.measure}, nil
}

// scatter is the standard deviation over the mean.
func scatter(list []float64) float64 {
	if len(list) < 2 {
		return 0
	}
	mean, deviation := stat.MeanStdDev(list, nil)
	return deviation / mean
}

func runPredictTime(ctx context.Context, g *ui.Globals, o *timeOptions, app string) error {
	c, err := o.predict(ctx, app)
	if err != nil {
		return err
	}
	if c.Stored != nil {
		return g.Show(c.Stored.Row(true), func() error { return printStoredTime(g, c.Stored) })
	}
	return g.Show(c.Time, func() error { return printTime(g, c.Time) })
}

func printTime(g *ui.Globals, t *predict.Time) error {
	l := t.Latency
	explainEngine(g, t.Engine, "")
	text := fmt.Sprintf("%s under %s, %s: %s of %s stored\n", t.App, t.MPI, t.Codec, size(t.StoredMiB), size(t.TotalMiB)) +
		fmt.Sprintf("latency %s = %s coordination + %s management + %s storage\n95 %%    %s\n",
			ui.Seconds(l.Total), ui.Seconds(l.Coordination), ui.Seconds(l.Management), ui.Seconds(l.Storage), times(t.LowS, t.HighS))
	if p := t.Pause; p != nil {
		text += fmt.Sprintf("pause   %s, 95 %% %s: images are stored behind the program\n", ui.Seconds(p.Value), times(p.Low, p.High))
	}
	for _, line := range t.Objects.Lines() {
		text += fmt.Sprintf("%-8s %s\n", line[0], line[1])
	}
	if !g.Quiet {
		text += "model   " + t.TimeModel + "\nholds   " + t.Valid + "\n"
		if t.Note != "" {
			text += "note    " + t.Note + "\n"
		}
	}
	return g.Printf("%s", text)
}

// timeModeResult is the time of a checkpoint of one group and of all, as --json prints it.
type timeModeResult struct {
	App        string      `json:"app"`
	Mapping    []int       `json:"mapping"`
	Mode       string      `json:"mode"`
	Log        string      `json:"log"`
	Groups     int         `json:"group_count"`
	GroupRanks int         `json:"group_ranks"`
	GroupS     float64     `json:"group_checkpoint_s"`
	Cost       float64     `json:"cost_s"`
	Low        float64     `json:"low_s"`
	High       float64     `json:"high_s"`
	Stored     predict.MiB `json:"stored_bytes"`
	PerIter    float64     `json:"iteration_log_bytes"`
	Crossing   float64     `json:"crossing_share"`
}

// runTimeOfMode predicts the checkpoints of a mode with groups.
func runTimeOfMode(ctx context.Context, g *ui.Globals, o *timeOptions, mo *modeOptions, app string) error {
	m, err := o.load(app)
	if err != nil {
		return err
	}
	way, err := o.way(ctx, m)
	if err != nil {
		return err
	}
	r, err := o.request(m, app)
	if err != nil {
		return err
	}
	if way.Probe, err = o.probe(ctx); err != nil {
		return err
	}
	// The cost of a checkpoint stays the same, whatever these two times are.
	p := plan.Planning{App: r.App, Law: r.Law, Way: way, MPI: []string{r.MPI}, IO: r.IO, Aggregators: []int{r.Aggregators}, BuffersMiB: []float64{r.BufferMiB}, Mapping: r.Mapping, Codecs: []string{o.codec}, AppSeconds: 86400, MTBFS: 86400}
	if err := mo.groups(&p); err != nil {
		return err
	}
	if len(p.Modes) != 1 || len(p.Logs) > 1 || len(p.Together) > 1 {
		return ui.BadUsage("the time is that of one mode, one log and one stagger", "ckpt predict plan --mtbf compares several")
	}
	if len(p.Logs) == 0 {
		p.Logs = p.Modes[0].Logs()[:1]
	}
	options, err := plan.Compare(m, p)
	if err != nil {
		return err
	}
	c := &options[0]
	result := timeModeResult{App: p.App.String(), Mapping: p.Mapping, Mode: string(c.Mode), Log: string(c.Log), Groups: c.GroupCount,
		GroupRanks: c.GroupRanks, GroupS: c.GroupS, Cost: c.CostS, Low: c.LowS, High: c.HighS,
		Stored: c.GstoredMiB, PerIter: c.Iteration, Crossing: c.ModeCosts.CrossingShare}
	return g.Show(result, func() error { return printTimeOfMode(g, &p, c) })
}

func printTimeOfMode(g *ui.Globals, p *plan.Planning, c *plan.Option) error {
	group, all := c.ModeCosts.GroupS, c.ModeCosts.AllS
	explainEngine(g, p.Engine, "")
	text := fmt.Sprintf("%s on nodes %s, %s: %s of %s\n", p.App, ranksOfNodes(p.Mapping), modeName(c.Mode, c.Log),
		ui.Count(c.GroupCount, "group"), ui.Count(c.GroupRanks, "rank")) +
		fmt.Sprintf("a group %s, between %s and %s\n", ui.Seconds(group.Value), ui.Seconds(group.Low), ui.Seconds(group.High)) +
		fmt.Sprintf("all     %s, between %s and %s\n", ui.Seconds(all.Value), ui.Seconds(all.Low), ui.Seconds(all.High))
	if c.Log != service.NoGroups {
		text += fmt.Sprintf("log     %s in an iteration; %s of the bytes sent cross between groups\n", ui.Bytes(c.Iteration), ui.Percent(c.ModeCosts.CrossingShare))
	}
	return g.Printf("%s", text)
}
