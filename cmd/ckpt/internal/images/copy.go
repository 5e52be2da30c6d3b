package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

func newCopyCommand(g *ui.Globals) *cobra.Command {
	var c copying
	var w ui.Wait
	cmd := &cobra.Command{
		Use:   "copy JOB[@N] --to STORE",
		Short: "Copy checkpoints of a job into another store",
		Long: `Copy one checkpoint of a job, or the job with all its checkpoints, into another store,
which is made if need be. Checkpoints that it has already are not copied again: copy
goes on where a copy was cut short, and adds what a running job has stored since. Each
byte is read again in the other store; a checkpoint exists there once all of it is
sound. Damaged ones are named, with status 3, when the others are there.

The job can be restarted there: ckpt restart JOB --store STORE. The two jobs then go
their own ways, and a later copy refuses to mix them. A job whose groups take
checkpoints by themselves is copied whole, with its message logs, while it does not
run; the copy loses what the job has lost.
Checkpoints that only nodes have are not copied.

With --keep 3, --keep-hourly 24 and --keep-daily 7 the other store keeps the newest
three checkpoints, and the newest of each of the last 24 hours and 7 days in which some
were taken, as with prune: older ones are not copied, and removed there. --dry-run says
which ones, and why others stay.`,
		Example: "  ckpt copy bt.S.4-1 --to /archive/store\n  ckpt copy bt.S.4-1 --to /archive/store --keep 1 --keep-daily 7 --dry-run\n  ckpt copy bt.S.4-1@3 --to /archive/store && ckpt restart bt.S.4-1 --store /archive/store",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.to == "" {
				return ui.UsageOf(cmd, errors.New("--to is missing: want the directory of the other store"))
			}
			name, number, err := ui.SplitTarget(args[0])
			if err != nil {
				return err
			}
			if err := ui.Positive(cmd, "keep", "keep-hourly", "keep-daily"); err != nil {
				return err
			}
			if err := c.keep.Check(); err != nil {
				return ui.UsageOf(cmd, err)
			}
			if c.keep != (image.Retention{}) {
				if number > 0 {
					return ui.BadUsage(fmt.Sprintf("--keep says which of all checkpoints the other store has, and %s is one", args[0]), "ckpt copy "+name+" copies those that stay")
				}
				c.keep.Last = max(1, c.keep.Last) // the newest is the newest of its hour and day
			}
			return w.For(cmd.Context(), g, name, func() error { return c.run(cmd.Context(), g, name, number) })
		},
	}
	cmd.Flags().StringVar(&c.to, "to", "", "directory of the other store")
	cmd.Flags().IntVar(&c.keep.Last, "keep", 0, "number of checkpoints that the other store keeps (default all)")
	ui.AddPeriods(cmd.Flags(), &c.keep.Hourly, &c.keep.Daily)
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only say what would be copied and removed")
	w.AddFlags(cmd.Flags())
	g.AddStoreFlag(cmd)
	return cmd
}

// copying are the settings of a copy.
type copying struct {
	to     string
	keep   image.Retention
	dryRun bool
}

// copyResult says what was copied, or would be.
type copyResult struct {
	Job         string         `json:"job"`
	Store       string         `json:"other_store"`
	Checkpoints []int          `json:"copied_checkpoints"`
	Present     []int          `json:"present_checkpoints"`
	Gone        []int          `json:"gone_checkpoints,omitempty"`
	Damaged     []int          `json:"damaged_checkpoints,omitempty"`
	Forbidden   []int          `json:"forbidden_checkpoints,omitempty"`
	OnNodes     []int          `json:"node_checkpoints,omitempty"`
	LeftOut     []int          `json:"left_out_checkpoints,omitempty"`
	Removed     []int          `json:"removed,omitempty"`
	Retained    []image.Reason `json:"retained_list,omitempty"`
	Files       int            `json:"copied_files"`
	Bytes       int64          `json:"copied_bytes"`
	DryRun      bool           `json:"dry_run,omitempty"`
}

func (c *copying) run(ctx context.Context, g *ui.Globals, name string, number int) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	j, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	spec, err := job.ReadSpec(j)
	if err != nil {
		return err
	}
	if spec.Several() {
		if number > 0 {
			return ui.BadUsage(fmt.Sprintf("a checkpoint of job %s is of one group: alone it restarts nothing", name), "ckpt copy "+name+" copies the job")
		}
		if c.keep != (image.Retention{}) {
			return ui.BadUsage(fmt.Sprintf("the checkpoints of job %s are of groups: they belong together, with the message logs", name), "without --keep, ckpt copy has the other store keep what the job has")
		}
		if err := j.Lock(); err != nil {
			return err
		}
		defer j.Unlock()
	}
	result := copyResult{Job: name, Store: c.to, DryRun: c.dryRun}
	on, err := g.ReadLevels(ctx, j)
	if err != nil {
		return err
	}
	for _, v := range on.Versions {
		if _, err := j.Manifest(v.Number); errors.Is(err, image.ErrCheckpointNotFound) {
			result.OnNodes = append(result.OnNodes, v.Number)
		}
	}
	numbers, err := j.Checkpoints()
	if err != nil {
		return err
	}
	if number > 0 {
		numbers = []int{number}
		if _, err := j.Manifest(number); err != nil {
			return err // before the other store is made
		}
	}
	other, err := ui.OtherStore("--to", c.to, !c.dryRun)
	if err != nil {
		return err
	}
	jc := &image.JobCopy{From: j, To: other, Journal: job.JournalName, Exact: spec.Several(), Keep: c.keep}
	var said image.Copied
	if c.dryRun {
		said, err = jc.Plan(numbers)
	} else {
		done := func() {}
		jc.Begin = func(total int64) { jc.Progress, done = g.Progress("copy", total) }
		err = jc.Run(ctx, numbers)
		done()
		said = jc.Copied
	}
	switch {
	case errors.Is(err, image.ErrSameStore):
		return ui.BadUsage("--to "+err.Error(), "name another store")
	case errors.Is(err, image.ErrParted):
		return ui.WithHint(err, "the job has run in both stores since: copy it into another store, or remove the copy first")
	case errors.Is(err, image.ErrJobExists):
		return ui.WithHint(err, "copy it into another store")
	case errors.Is(err, durable.ErrStorageFull):
		return ui.WithHint(err, fmt.Sprintf("free space there, and copy again: ckpt copy goes on; ckpt copy %s@N copies one checkpoint", name))
	case errors.Is(err, vfs.ErrForbidden):
		err = ui.WithHint(err, fmt.Sprintf("ckpt copy %s --to ANOTHER copies it elsewhere; here the first copy after a day frees the number, and the next one uses it", name))
	case errors.As(err, new(*durable.DamageError)):
		err = ui.WithHint(err, "put the file back from a copy of its store, and copy again; ckpt verify names all that is damaged")
	}
	if err != nil && len(said.Damaged)+len(said.Forbidden) == 0 {
		return err
	}
	result.Damaged, result.Forbidden = said.Damaged, said.Forbidden
	result.Checkpoints, result.Present = append([]int{}, said.Checkpoints...), append([]int{}, said.Present...)
	result.Gone, result.LeftOut, result.Removed, result.Retained = said.Gone, said.LeftOut, said.Removed, said.Retained
	result.Files, result.Bytes = said.Files, said.Bytes
	if !c.dryRun {
		if err := levels.NoteCopy(j, spec.Next, other, said.There); err != nil {
			g.Warn("%s: the copy is there, and the record of the job does not say so: %v", name, err)
		}
	}
	return errors.Join(result.show(g), err)
}

func (r *copyResult) show(g *ui.Globals) error {
	if len(r.OnNodes) > 0 {
		g.Warn("%s: %s that only nodes have (%s) are not copied", r.Job, ui.Count(len(r.OnNodes), "checkpoint"), ui.Numbers(r.OnNodes))
	}
	if len(r.Gone) > 0 {
		g.Warn("%s: %s (%s) went while the others were copied", r.Job, ui.Count(len(r.Gone), "checkpoint"), ui.Numbers(r.Gone))
	}
	if len(r.Damaged) > 0 {
		g.Warn("%s: not copied, since damaged: %s (%s)", r.Job, ui.Count(len(r.Damaged), "checkpoint"), ui.Numbers(r.Damaged))
	}
	if len(r.Forbidden) > 0 {
		g.Warn("%s: not copied, since a process was killed there while it wrote them: %s (%s)", r.Job, ui.Count(len(r.Forbidden), "checkpoint"), ui.Numbers(r.Forbidden))
	}
	return g.Show(r, func() error {
		if !r.DryRun {
			return g.Printf("%s: copied %s, %s, %s MiB, into %s%s\n", r.Job, ui.Count(len(r.Checkpoints), "checkpoint"), ui.Count(r.Files, "file"), ui.MiB(r.Bytes), r.Store, r.others("left out", "removed there"))
		}
		if err := g.Printf("%s: would copy %s, %s MiB, into %s%s\n", r.Job, listed(r.Checkpoints), ui.MiB(r.Bytes), r.Store, r.others("would leave out", "would remove there")); err != nil {
			return err
		}
		for _, r := range r.Retained {
			if err := g.Printf("checkpoint %d stays: %s\n", r.Number, r.Reason); err != nil {
				return err
			}
		}
		return nil
	})
}

// others says what became of the checkpoints that were not copied.
func (r *copyResult) others(leftOut, removed string) (text string) {
	for _, part := range []struct {
		text string
		list []int
	}{{"it had", r.Present}, {leftOut, r.LeftOut}, {removed, r.Removed}} {
		if len(part.list) > 0 {
			text += "; " + part.text + " " + ui.Numbers(part.list)
		}
	}
	return text
}

// listed counts checkpoints and names them.
func listed(numbers []int) string {
	if len(numbers) == 0 {
		return "no checkpoint"
	}
	return fmt.Sprintf("%s (%s)", ui.Count(len(numbers), "checkpoint"), ui.Numbers(numbers))
}
