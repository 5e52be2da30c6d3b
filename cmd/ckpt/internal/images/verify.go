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

func newVerifyCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [JOB[@N]]",
		Short: "Check every byte of checkpoints",
		Long: `Read and check every byte of a checkpoint, of all checkpoints of a job, or of all
jobs with their message logs. Print file, offset and reason of each damage.

The bytes that it counts are bytes of files: a file that several checkpoints use
is read once.`,
		Example: "  ckpt verify\n  ckpt verify bt.S.4-1@2 --json",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runVerify(cmd.Context(), g, args) },
	}
	g.AddStoreFlag(cmd)
	return cmd
}

type verifyResult struct {
	Checkpoints  int          `json:"checkpoints"`
	CheckedBytes int64        `json:"checked_bytes"`
	Damage       []damageLine `json:"damage"`
}

type damageLine struct {
	Job        string `json:"job"`
	Checkpoint int    `json:"checkpoint"` // 0: of a message log
	File       string `json:"file"`
	Offset     int64  `json:"offset"`
	Reason     string `json:"reason"`
}

func runVerify(ctx context.Context, g *ui.Globals, args []string) error {
	store, err := g.OpenStore()
	if err != nil {
		return err
	}
	targets, jobs, total, err := verifyTargets(store, args)
	if err != nil {
		return err
	}
	add, done := g.Progress("verify", total)
	result := verifyResult{Damage: []damageLine{}}
	for _, t := range targets {
		report, err := t.verification.Checkpoint(ctx, t.number, add)
		if errors.Is(err, image.ErrCheckpointNotFound) && len(jobs) > 0 { // else the user named it
			continue // pruned meanwhile
		}
		if err != nil {
			done()
			return err
		}
		result.Checkpoints++
		result.CheckedBytes += report.CheckedBytes
		for _, d := range report.Damage {
			result.Damage = append(result.Damage, damageLine{t.job.Name(), t.number, d.File, d.Offset, d.Reason})
		}
	}
	done()
	if err := result.addLogs(jobs); err != nil {
		return err
	}
	return printVerify(g, result)
}

// addLogs verifies the message logs of jobs.
func (r *verifyResult) addLogs(jobs []*image.Job) error {
	for _, j := range jobs {
		bytes, damage, err := job.VerifyLogs(j)
		if d := new(durable.DamageError); errors.As(err, &d) {
			damage = append(damage, d) // of the description of the job
		} else if err != nil {
			return err
		}
		r.CheckedBytes += bytes
		for _, d := range damage {
			r.Damage = append(r.Damage, damageLine{j.Name(), 0, d.File, d.Offset, d.Reason})
		}
	}
	return nil
}

func printVerify(g *ui.Globals, r verifyResult) error {
	if g.JSON {
		if err := g.PrintJSON(r); err != nil {
			return err
		}
	} else {
		for _, d := range r.Damage {
			of := d.Job
			if d.Checkpoint > 0 {
				of = fmt.Sprintf("%s@%d", d.Job, d.Checkpoint)
			}
			g.Printf("%s: %s at offset %d: %s\n", of, d.File, d.Offset, d.Reason)
		}
		g.Printf("checked %s, %s MiB of files: %s\n", ui.Count(r.Checkpoints, "checkpoint"), ui.MiB(r.CheckedBytes), ui.Count(len(r.Damage), "damaged place"))
	}
	if len(r.Damage) > 0 {
		return fmt.Errorf("%w: %s, the first in %s at offset %d: %s", ui.ErrDamageFound, ui.Count(len(r.Damage), "place"),
			r.Damage[0].File, r.Damage[0].Offset, r.Damage[0].Reason)
	}
	return nil
}

type verifyTarget struct {
	job          *image.Job
	verification *image.Verification // of the job
	number       int
}

// verifyTargets lists what to verify: checkpoints, of about total bytes, and jobs as
// a whole.
func verifyTargets(store *image.Store, args []string) (targets []verifyTarget, jobs []*image.Job, total int64, err error) {
	var names []string
	number := 0
	if len(args) == 1 {
		var name string
		if name, number, err = ui.SplitTarget(args[0]); err != nil {
			return nil, nil, 0, err
		}
		names = []string{name}
	} else if names, err = store.Jobs(); err != nil {
		return nil, nil, 0, err
	}
	for _, name := range names {
		job, err := store.Job(name)
		if err != nil {
			return nil, nil, 0, err
		}
		numbers := []int{number}
		if number == 0 {
			jobs = append(jobs, job)
			if numbers, err = job.Checkpoints(); err != nil {
				return nil, nil, 0, err
			}
		}
		verification, counted := job.Verification(), make(map[string]bool)
		for _, n := range numbers {
			targets = append(targets, verifyTarget{job, verification, n})
			if m, err := job.Manifest(n); err == nil {
				for _, f := range m.Files {
					if !counted[f.Path] {
						counted[f.Path] = true
						total += f.Bytes
					}
				}
			}
		}
	}
	return targets, jobs, total, nil
}
