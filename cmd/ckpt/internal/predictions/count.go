package predictions

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/plan"
)

type countOptions struct {
	timeOptions
	FailingOptions
	overhead, app, ckpt string
	restart, downtime   string
	keep                int
	size, capacity      string
	confident           bool
	predicted           *fit.Range // time of a checkpoint of APP; nil without
	lag                 *fit.Range // until it is durable, if it is written behind the job
	of                  dataset.Engine
}

func newPredictCountCommand(g *ui.Globals) *cobra.Command {
	var o countOptions
	cmd := &cobra.Command{
		Use:   "count [APP]",
		Short: "Compute how many checkpoints an overhead pays for, and when to take them",
		Long: `Compute how many checkpoints an accepted overhead pays for, and the interval between
them, from the start of one to the start of the next.

The overhead pays for n = floor(overhead · app time / checkpoint time) equal
intervals, hence for n − 1 checkpoints: one at the very end would protect
nothing. With --size and --capacity there are never more than the store holds,
--keep of them while one more is written.

With an APP the command predicts the time and the size of a checkpoint itself, as
ckpt predict time does, and the number is a range: that of the 95 % interval of the
time. --confident plans for the upper end of that interval. With a --model of one
application APP can be left out.

With --mtbf the command takes no more checkpoints than shorten the run on a machine
that fails. ckpt interval finds the interval for such a machine without a budget.`,
		Example: `  ckpt predict count --overhead 30% --app-time 1137.53 --checkpoint-time 102.74
  ckpt predict count --overhead 10% --app-time 24h --checkpoint-time 5m \
      --size 61GiB --capacity 1TiB --keep 2 --json
  ckpt predict count bt.D.64 --nodes 2 --overhead 30% --app-time 1137.53 --confident`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.predictApp(cmd, args); err != nil {
				return err
			}
			return rangeIsUsage(runPredictCount(g, &o))
		},
	}
	f := cmd.Flags()
	o.timeOptions.addFlags(f)
	f.StringVar(&o.overhead, "overhead", "", "accepted share of the run time, like 30% or 0.3")
	f.StringVar(&o.app, "app-time", "", "time of the run without checkpoints")
	f.StringVar(&o.ckpt, "checkpoint-time", "", "time of one checkpoint")
	f.BoolVar(&o.confident, "confident", false, "plan for the upper end of the 95 % interval of the predicted time")
	f.IntVar(&o.keep, "keep", 0, "newest checkpoints that stay in the store (default all)")
	f.StringVar(&o.size, "size", "", "size of one checkpoint, like 61GiB")
	f.StringVar(&o.capacity, "capacity", "", "size of the store, like 1TiB (default no limit)")
	o.FailingOptions.AddFlags(f, "")
	f.StringVar(&o.restart, "restart", "", "on a machine that fails: time to restart from a checkpoint (default 0)")
	f.StringVar(&o.downtime, "downtime", "", "on a machine that fails: time from a failure to the start of the restart (default 0)")
	return cmd
}

// predictApp predicts the time and the size of a checkpoint of APP.
func (o *countOptions) predictApp(cmd *cobra.Command, args []string) error {
	if o.model != "" && len(args) == 0 {
		args = []string{""} // the model's
	}
	switch {
	case len(args) == 0 && o.confident:
		return ui.BadUsage("--confident: only a predicted time has an interval", "name an APP to predict the time, or give the longest time with --checkpoint-time")
	case len(args) == 0:
		return nil
	case cmd.Flags().Changed("checkpoint-time"):
		return ui.UsageOf(cmd, errors.New("APP and --checkpoint-time exclude each other"))
	}
	c, err := o.predict(cmd.Context(), args[0])
	if err != nil {
		return InputErrors(err)
	}
	if o.of = dataset.DMTCP; c.Stored != nil {
		o.of = dataset.Ckpt
	}
	t, size := o.mean(c)
	o.predicted = &t
	planned := t.Value
	if o.confident {
		planned = t.High
	}
	o.ckpt = strconv.FormatFloat(planned, 'f', -1, 64)
	if o.size == "" {
		o.size = strconv.FormatFloat(float64(size), 'f', 3, 64) + "MiB"
	}
	return nil
}

// mean returns the time and the size of a checkpoint, as means over a run that an overhead
// pays for.
func (o *countOptions) mean(c plan.Cost) (seconds fit.Range, size predict.MiB) {
	var q ui.Quantities
	overhead, app := q.Share("--overhead", o.overhead), q.Duration("--app-time", o.app)
	n, err := c.Affordable(overhead, app.Seconds())
	if err != nil || q.Err != nil {
		n = 1 // the command refuses these flags itself
	}
	o.lag = c.Lag(n)
	return c.Mean(n)
}

// budget reads the flags.
func (o *countOptions) budget() (interval.Budget, error) {
	b := interval.Budget{Keep: o.keep}
	switch {
	case o.overhead == "":
		return b, ui.Missing("--overhead", "30%")
	case o.app == "":
		return b, ui.Missing("--app-time", "24h")
	case o.ckpt == "":
		return b, ui.BadUsage("--checkpoint-time is missing", "add it, like --checkpoint-time 102.74, or name an APP to predict it")
	case o.capacity != "" && o.size == "":
		return b, ui.BadUsage("--capacity needs the size of a checkpoint", "add --size, like --size 61GiB")
	case !o.FailingOptions.Given() && (o.restart != "" || o.downtime != ""):
		return b, ui.BadUsage("--restart and --downtime belong to a machine that fails", "add --mtbf, like --mtbf 24h")
	}
	var q ui.Quantities
	b.Overhead = q.Share("--overhead", o.overhead)
	b.App, b.Checkpoint = q.Duration("--app-time", o.app), q.Duration("--checkpoint-time", o.ckpt)
	if o.lag != nil {
		b.Lag = interval.Lasting(o.lag.Value)
		if o.confident {
			b.Lag = interval.Lasting(o.lag.High)
		}
	}
	b.Size, b.Capacity = q.Size("--size", o.size), q.Size("--capacity", o.capacity)
	return b, q.Err
}

// machine reads the flags of a machine that fails; nil without.
func (o *countOptions) machine() (*interval.Model, error) {
	if !o.FailingOptions.Given() {
		return nil, nil
	}
	mtbf, err := o.Job(o.Placement.Count())
	if err != nil {
		return nil, err
	}
	var q ui.Quantities
	m := &interval.Model{MTBF: mtbf, Restart: q.Duration("--restart", o.restart), Downtime: q.Duration("--downtime", o.downtime)}
	return m, q.Err
}

// A Count of checkpoints that an overhead pays for, as --json prints it.
type Count struct {
	Engine     dataset.Engine `json:"engine,omitempty"` // of a predicted checkpoint
	Count      int            `json:"count"`
	Interval   float64        `json:"interval_s"`
	Checkpoint float64        `json:"checkpoint_s"`
	App        float64        `json:"app_s"`
	Total      float64        `json:"total_s"`
	Overhead   float64        `json:"overhead"`      // that is accepted
	Spent      float64        `json:"overhead_used"` // count·checkpoint_s/app_s
	Work       float64        `json:"work_s"`        // app_s/(count+1)
	Late       bool           `json:"late"`          // the run ends before its last checkpoint
	Limit      string         `json:"limited_by"`    // overhead, capacity, failures or storage
	Stored     int64          `json:"kept_bytes"`
	Peak       int64          `json:"peak_bytes"`
	// Of a predicted time, its interval and the counts at the ends.
	*CountRange
	// Of checkpoints that are written behind the job.
	Lag     *float64         `json:"lag_s,omitempty"`
	LagLow  *float64         `json:"lag_low_s,omitempty"`
	LagHigh *float64         `json:"lag_high_s,omitempty"`
	MTBF    *float64         `json:"mtbf_s,omitempty"`
	Run     *interval.RunRow `json:"best_run,omitempty"` // with a machine that fails
}

// A CountRange is what the interval of a predicted time makes of a count.
type CountRange struct {
	Low       float64 `json:"low_s"` // of checkpoint_s
	High      float64 `json:"high_s"`
	Least     int     `json:"least_count"` // at high_s
	Most      *int    `json:"most_count"`  // at low_s; nil if it is open
	Confident bool    `json:"confident"`
}

func runPredictCount(g *ui.Globals, o *countOptions) error {
	b, err := o.budget()
	if err != nil {
		return err
	}
	m, err := o.machine()
	if err != nil {
		return err
	}
	s, run, err := schedule(&b, m)
	if err != nil {
		return o.capacityFirst(b, m, err)
	}
	r := Count{
		Engine: o.of, Count: s.Count, Interval: s.Interval.Seconds(), Checkpoint: b.Checkpoint.Seconds(), App: b.App.Seconds(), Total: s.Total.Seconds(),
		Overhead: b.Overhead, Spent: s.Overhead, Work: s.Work.Seconds(), Late: s.Late, Limit: s.Limit.String(), Stored: s.Stored, Peak: s.Peak, Run: run,
	}
	if m != nil {
		seconds := m.MTBF.Seconds()
		r.MTBF = &seconds
	}
	if l := o.lag; l != nil {
		r.Lag, r.LagLow, r.LagHigh = &l.Value, &l.Low, &l.High
	}
	if r.CountRange, err = o.span(b, m); err != nil {
		return err
	}
	return g.Show(r, func() error {
		if r.Engine != "" {
			explainEngine(g, r.Engine, "")
		}
		return o.print(g, &b, &s, &r)
	})
}

// schedule plans for a machine that fails, or for one that does not: nil.
func schedule(b *interval.Budget, m *interval.Model) (interval.Schedule, *interval.RunRow, error) {
	if m == nil {
		s, err := b.Schedule()
		return s, nil, err
	}
	s, run, err := b.ScheduleFor(*m)
	return s, run.Row(), err
}

// capacityFirst blames the store where the run would end if it had space for another
// checkpoint, and else returns the error.
func (o *countOptions) capacityFirst(b interval.Budget, m *interval.Model, err error) error {
	if outOfRange(err) != nil || b.MostKept() >= b.Keep && b.Keep > 0 || b.Capacity == 0 {
		return err
	}
	kept, fits := b.Keep, b.MostKept()
	holds := fmt.Sprintf("the store holds %s of %s", ui.Count(fits+1, "checkpoint"), ui.Bytes(float64(b.Size)))
	if b.Keep = fits; fits < 1 {
		b.Keep, b.Capacity = 0, 0
	}
	if _, _, other := schedule(&b, m); other != nil {
		return err
	}
	keep := fmt.Sprintf("with --keep %d", kept)
	if kept == 0 {
		keep = "without --keep"
	}
	if fits < 1 {
		return ui.BadUsage(fmt.Sprintf("--capacity %s: %s, and one has to stay while the next is written", o.capacity, holds), "give a larger --capacity, for two checkpoints or more")
	}
	return ui.BadUsage(fmt.Sprintf("--capacity %s: %s, and %s it is full after them: the run would take over 292 years", o.capacity, holds, keep),
		fmt.Sprintf("--keep %d fits: the next checkpoint is written beside those kept", fits))
}

// span plans for both ends of the interval of a predicted time, if there is one. An end that
// no schedule has is open: the shortest checkpoint may be too short to count, the longest too
// long for any.
func (o *countOptions) span(b interval.Budget, m *interval.Model) (*CountRange, error) {
	if o.predicted == nil {
		return nil, nil
	}
	r := &CountRange{Low: o.predicted.Low, High: o.predicted.High, Confident: o.confident}
	var counts [2]*int
	for i, seconds := range []float64{r.High, r.Low} {
		b.Checkpoint = max(1, interval.Lasting(seconds))
		if l := o.lag; l != nil {
			b.Lag = interval.Lasting([]float64{l.High, l.Low}[i])
		}
		s, _, err := schedule(&b, m)
		if outOfRange(err) != nil {
			return nil, err
		}
		if err == nil {
			counts[i] = &s.Count
		}
	}
	if r.Most = counts[1]; counts[0] != nil {
		r.Least = *counts[0]
	}
	if r.Most != nil {
		least := min(r.Least, *r.Most)
		*r.Most, r.Least = max(r.Least, *r.Most), least
	}
	return r, nil
}

func (o *countOptions) print(g *ui.Globals, b *interval.Budget, s *interval.Schedule, r *Count) error {
	if s.Count == 0 && s.Limit == interval.LimitFailures {
		return g.Printf("no checkpoint pays: with an MTBF of %s, %s\n", spanOf(*r.MTBF), runText(r.Run))
	}
	if s.Count == 0 {
		why := fmt.Sprintf("two intervals need an overhead of %s", ui.Percent(2*b.Checkpoint.Seconds()/b.App.Seconds()))
		if s.Limit == interval.LimitStorage {
			why = fmt.Sprintf("one is durable after %s, and the run takes %s", ui.Seconds(b.Lag.Seconds()), ui.Seconds(b.App.Seconds()))
		}
		if s.Limit == interval.LimitCapacity {
			why = fmt.Sprintf("one takes %s, the store has %s", ui.Bytes(float64(b.Size)), ui.Bytes(float64(b.Capacity)))
		}
		if r.CountRange != nil && (r.Most == nil || *r.Most > 0) {
			why += fmt.Sprintf("; at the lower end of the predicted time, %s, the overhead pays for %s", ui.Seconds(r.Low), r.most())
		}
		return g.Printf("no checkpoint is affordable: %s\n", why)
	}
	g.Printf("%s%s, one every %s\ntotal %s = %s + %d × %s (overhead %s of %s accepted)\n", ui.Count(s.Count, "checkpoint"), r.around(), ui.Seconds(s.Interval.Seconds()),
		ui.Seconds(s.Total.Seconds()), ui.Seconds(b.App.Seconds()), s.Count, ui.Seconds(b.Checkpoint.Seconds()), ui.Percent(s.Overhead), ui.Percent(b.Overhead))
	if r.CountRange != nil {
		planned := ""
		if r.Confident {
			planned = ", planned for the longest"
		}
		g.Printf("time of a checkpoint %s in 95 %%%s\n", times(r.Low, r.High), planned)
	}
	if l := o.lag; l != nil {
		g.Printf("durability lag %s, 95 %% %s\n", ui.Seconds(l.Value), times(l.Low, l.High))
	}
	if r.Run != nil {
		g.Printf("with an MTBF of %s: %s\n", spanOf(*r.MTBF), runText(r.Run))
	}
	if b.Size > 0 {
		g.Printf("storage %s, at most %s while a checkpoint is written\n", ui.Bytes(float64(s.Stored)), ui.Bytes(float64(s.Peak)))
	}
	if g.Quiet {
		return nil
	}
	if s.Limit == interval.LimitStorage {
		g.Warn("the storage bounds the number of checkpoints, not the overhead: it takes them one after the other, each in %s", ui.Seconds(b.Lag.Seconds()))
	}
	if s.Limit == interval.LimitCapacity {
		more := "a larger --capacity allows more"
		if fits := b.MostKept(); fits > 0 {
			more = fmt.Sprintf("--keep %d or a larger --capacity allows more", fits)
		}
		g.Warn("the store bounds the number of checkpoints, not the overhead; %s", more)
	}
	if s.Late {
		g.Warn("at that interval the run ends before its last checkpoint; %s of work between checkpoints divide it evenly", ui.Seconds(s.Work.Seconds()))
	}
	return nil
}

// around tells between which numbers a predicted one lies, if it has others around it.
func (r *Count) around() string {
	switch {
	case r.CountRange == nil || r.Most != nil && r.Least == *r.Most:
		return ""
	case r.Most == nil:
		return fmt.Sprintf(" (%d or more)", r.Least)
	}
	return " (" + r.Between() + ")"
}

// Between names both ends of a predicted number.
func (r *CountRange) Between() string { return fmt.Sprintf("%d to %s", r.Least, r.most()) }

func (r *CountRange) most() string {
	if r.Most == nil {
		return "any number"
	}
	return strconv.Itoa(*r.Most)
}
