package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/durable"
)

func newCopyCommand(g *ui.Globals) *cobra.Command {
	var to string
	var w ui.Wait
	cmd := &cobra.Command{
		Use:   "copy JOB[@N] --to STORE",
		Short: "Copy checkpoints of a job into another store",
		Long: `Copy one checkpoint of a job, or the job with all its checkpoints, into another store,
which is made if need be. Checkpoints that it has already are not copied again: copy
goes on where a copy was cut short, and adds what a running job has stored since. Each
byte is read again in the other store; a checkpoint exists there once all of it is
sound.

The job can be restarted there: ckpt restart JOB --store STORE. The two jobs then go
their own ways, and a later copy refuses to mix them. A job whose groups take
checkpoints by themselves is copied whole, with its message logs, while it does not
run; the copy loses what the job has lost.
Checkpoints that only nodes have are not copied.`,
		Example: "  ckpt copy bt.S.4-1 --to /archive/store\n  ckpt copy bt.S.4-1@3 --to /archive/store && ckpt restart bt.S.4-1 --store /archive/store",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return ui.UsageOf(cmd, errors.New("--to is missing: want the directory of the other store"))
			}
			name, number, err := ui.SplitTarget(args[0])
			if err != nil {
				return err
			}
			return w.For(cmd.Context(), g, name, func() error { return runCopy(cmd.Context(), g, name, number, to) })
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "directory of the other store")
	w.AddFlags(cmd.Flags())
	g.AddStoreFlag(cmd)
	return cmd
}

// copyResult says what was copied.
type copyResult struct {
	Job         string `json:"job"`
	Store       string `json:"other_store"`
	Checkpoints []int  `json:"copied_checkpoints"`
	Present     []int  `json:"present_checkpoints"`
	Gone        []int  `json:"gone_checkpoints,omitempty"`
	OnNodes     []int  `json:"node_checkpoints,omitempty"`
	Files       int    `json:"copied_files"`
	Bytes       int64  `json:"copied_bytes"`
}

func runCopy(ctx context.Context, g *ui.Globals, name string, number int, to string) error {
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
		if err := j.Lock(); err != nil {
			return err
		}
		defer j.Unlock()
	}
	result := copyResult{Job: name, Store: to, Checkpoints: []int{}, Present: []int{}}
	levels, err := g.ReadLevels(ctx, j)
	if err != nil {
		return err
	}
	for _, v := range levels.Versions {
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
	}
	if number > 0 {
		if _, err := j.Manifest(number); err != nil {
			return err // before the other store is made
		}
	}
	other, err := g.CreateOther("--to", to)
	if err != nil {
		return err
	}
	total := weigh(j, other, numbers)
	add, done := g.Progress("copy", total)
	c := &image.JobCopy{From: j, To: other, Journal: job.JournalName, Exact: spec.Several(), Progress: add}
	err = c.Run(ctx, numbers)
	done()
	switch {
	case errors.Is(err, image.ErrParted):
		return ui.WithHint(err, "the job has run in both stores since: copy it into another store, or remove the copy first")
	case errors.Is(err, image.ErrJobExists):
		return ui.WithHint(err, "copy it into another store")
	case errors.Is(err, durable.ErrStorageFull):
		return ui.WithHint(err, fmt.Sprintf("free space there, and copy again: ckpt copy goes on; ckpt copy %s@N copies one checkpoint", name))
	case err != nil:
		return err
	}
	result.Checkpoints, result.Present = append(result.Checkpoints, c.Checkpoints...), append(result.Present, c.Present...)
	result.Gone, result.Files, result.Bytes = c.Gone, c.Files, c.Bytes
	return result.show(g)
}

// weigh returns the bytes of the files of checkpoints that another store lacks, as far as they can
// be read.
func weigh(j *image.Job, other *image.Store, numbers []int) (total int64) {
	had, _ := other.Job(j.Name())
	seen := make(map[string]bool)
	for _, n := range numbers {
		m, err := j.Manifest(n)
		if err != nil {
			continue // the copy says why
		}
		if had != nil {
			if _, err := had.Manifest(n); err == nil {
				continue
			}
		}
		for _, f := range m.Files {
			if !seen[f.Path] {
				seen[f.Path] = true
				total += f.Bytes
			}
		}
	}
	return total
}

func (r *copyResult) show(g *ui.Globals) error {
	if len(r.OnNodes) > 0 {
		g.Warn("%s: %s that only nodes have (%s) are not copied", r.Job, ui.Count(len(r.OnNodes), "checkpoint"), ui.Numbers(r.OnNodes))
	}
	if len(r.Gone) > 0 {
		g.Warn("%s: %s (%s) went while the others were copied", r.Job, ui.Count(len(r.Gone), "checkpoint"), ui.Numbers(r.Gone))
	}
	return g.Show(r, func() error {
		had := ""
		if len(r.Present) > 0 {
			had = fmt.Sprintf("; it had %s", ui.Numbers(r.Present))
		}
		return g.Printf("%s: copied %s, %s, %s MiB, into %s%s\n", r.Job, ui.Count(len(r.Checkpoints), "checkpoint"), ui.Count(r.Files, "file"), ui.MiB(r.Bytes), r.Store, had)
	})
}
