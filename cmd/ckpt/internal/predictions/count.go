package predictions

import (
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/interval"
)

type countOptions struct {
	overhead, app, ckpt string
	keep                int
	size, capacity      string
}

func newPredictCountCommand(g *ui.Globals) *cobra.Command {
	var o countOptions
	cmd := &cobra.Command{
		Use:   "count",
		Short: "Compute how many checkpoints an overhead pays for, and when to take them",
		Long: `Compute how many checkpoints an accepted overhead pays for, and the interval between
them, from the start of one to the start of the next.

The overhead pays for n = floor(overhead · app time / checkpoint time) equal
intervals, hence for n − 1 checkpoints: one at the very end would protect
nothing. With --size and --capacity there are never more than the store holds,
--keep of them while one more is written. With an APP the command predicts the time
and the size of a checkpoint itself, as ckpt predict time does.

ckpt interval finds the interval that suits the failures of the machine.`,
		Example: `  ckpt predict count --overhead 30% --app-time 1137.53 --checkpoint-time 102.74
  ckpt predict count --overhead 10% --app-time 24h --checkpoint-time 5m \
      --size 61GiB --capacity 1TiB --keep 2 --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return rangeIsUsage(runPredictCount(g, &o)) },
	}
	f := cmd.Flags()
	f.StringVar(&o.overhead, "overhead", "", "accepted share of the run time, like 30% or 0.3")
	f.StringVar(&o.app, "app-time", "", "time of the run without checkpoints")
	f.StringVar(&o.ckpt, "checkpoint-time", "", "time of one checkpoint")
	f.IntVar(&o.keep, "keep", 0, "newest checkpoints that stay in the store (default all)")
	f.StringVar(&o.size, "size", "", "size of one checkpoint, like 61GiB")
	f.StringVar(&o.capacity, "capacity", "", "size of the store, like 1TiB (default no limit)")
	return cmd
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
	}
	var q ui.Quantities
	b.Overhead = q.Share("--overhead", o.overhead)
	b.App, b.Checkpoint = q.Duration("--app-time", o.app), q.Duration("--checkpoint-time", o.ckpt)
	b.Size, b.Capacity = q.Size("--size", o.size), q.Size("--capacity", o.capacity)
	return b, q.Err
}

type countResult struct {
	Count      int     `json:"count"`
	Interval   float64 `json:"interval_s"`
	Checkpoint float64 `json:"checkpoint_s"`
	App        float64 `json:"app_s"`
	Total      float64 `json:"total_s"`
	Overhead   float64 `json:"overhead"`      // that is accepted
	Spent      float64 `json:"overhead_used"` // count·checkpoint_s/app_s
	Work       float64 `json:"work_s"`        // app_s/(count+1)
	Late       bool    `json:"late"`          // the run ends before its last checkpoint
	Limit      string  `json:"limited_by"`    // overhead or capacity
	Stored     int64   `json:"kept_bytes"`
	Peak       int64   `json:"peak_bytes"`
}

func runPredictCount(g *ui.Globals, o *countOptions) error {
	b, err := o.budget()
	if err != nil {
		return err
	}
	s, err := b.Schedule()
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(countResult{
			Count: s.Count, Interval: s.Interval.Seconds(), Checkpoint: b.Checkpoint.Seconds(), App: b.App.Seconds(), Total: s.Total.Seconds(),
			Overhead: b.Overhead, Spent: s.Overhead, Work: s.Work.Seconds(), Late: s.Late, Limit: s.Limit.String(), Stored: s.Stored, Peak: s.Peak,
		})
	}
	return printCount(g, &b, &s)
}

func printCount(g *ui.Globals, b *interval.Budget, s *interval.Schedule) error {
	if s.Count == 0 {
		why := fmt.Sprintf("two intervals need an overhead of %s", ui.Percent(2*b.Checkpoint.Seconds()/b.App.Seconds()))
		if s.Limit == interval.LimitCapacity {
			why = fmt.Sprintf("one takes %s MiB, the store has %s MiB", ui.MiB(b.Size), ui.MiB(b.Capacity))
		}
		return g.Printf("no checkpoint is affordable: %s\n", why)
	}
	noun := "checkpoints"
	if s.Count == 1 {
		noun = "checkpoint"
	}
	g.Printf("%d %s, one every %s\ntotal %s = %s + %d × %s (overhead %s of %s accepted)\n", s.Count, noun, ui.Seconds(s.Interval.Seconds()),
		ui.Seconds(s.Total.Seconds()), ui.Seconds(b.App.Seconds()), s.Count, ui.Seconds(b.Checkpoint.Seconds()), ui.Percent(s.Overhead), ui.Percent(b.Overhead))
	if b.Size > 0 {
		g.Printf("storage %s MiB, at most %s MiB while a checkpoint is written\n", ui.MiB(s.Stored), ui.MiB(s.Peak))
	}
	if g.Quiet {
		return nil
	}
	if s.Limit == interval.LimitCapacity {
		g.Warn("the store bounds the number of checkpoints, not the overhead; a smaller --keep or a larger --capacity allows more")
	}
	if s.Late {
		g.Warn("at that interval the run ends before its last checkpoint; %s of work between checkpoints divide it evenly", ui.Seconds(s.Work.Seconds()))
	}
	return nil
}
