package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nvcache"
	"ckpt/internal/durable"
)

func newVerifyCommand(g *ui.Globals) *cobra.Command {
	var level string
	cmd := &cobra.Command{
		Use:   "verify [JOB[@N]]",
		Short: "Check every byte of checkpoints",
		Long: `Read and check every byte of a checkpoint, of all checkpoints of a job, or of all
jobs with their message logs. Print file, offset and reason of each damage.

Of jobs that keep checkpoints on their nodes it reads those too, with the copies and
the parity that protect them, as far as the nodes can be reached from here. --level
limits it: local to the files of ranks on their own nodes, protected to all files on
nodes, stored to the store.

The bytes that it counts are bytes of files: a file that several checkpoints use
is read once.`,
		Example: "  ckpt verify\n  ckpt verify bt.S.4-1@2 --json\n  ckpt verify bt.S.4-1 --level protected",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch level {
			case "", levelLocal, levelProtected, levelStored:
				return runVerify(cmd.Context(), g, args, level)
			}
			return ui.BadUsage("--level "+level+": want local, protected or stored", "leave --level out to check all")
		},
	}
	cmd.Flags().StringVar(&level, "level", "", "check only this level of storage: local, protected or stored (default: all)")
	ui.Choices(cmd.Flags(), "level", levelLocal, levelProtected, levelStored)
	g.AddStoreFlag(cmd)
	return cmd
}

// The values of --level.
const (
	levelLocal     = string(nvcache.Local)
	levelProtected = string(nvcache.Protected)
	levelStored    = string(nvcache.Stored)
)

type verifyResult struct {
	Checkpoints  int          `json:"checkpoints"`
	CheckedBytes int64        `json:"checked_bytes"`
	Damage       []damageLine `json:"damage"`
	Versions     int          `json:"tier_versions,omitempty"` // checkpoints on nodes
	unreachable  int          // files
}

type damageLine struct {
	Job        string `json:"job"`
	Checkpoint int    `json:"checkpoint"` // 0: of a message log
	File       string `json:"file"`
	Offset     int64  `json:"offset"`
	Reason     string `json:"reason"`
	*nodeDamage
}

func runVerify(ctx context.Context, g *ui.Globals, args []string, level string) error {
	store, err := g.OpenStore()
	if err != nil {
		return err
	}
	result := verifyResult{Damage: []damageLine{}}
	nodes, err := findOnNodes(ctx, g, store, args, level)
	if err != nil {
		return err
	}
	if level == "" || level == levelStored {
		if err := result.addStore(ctx, g, store, args, len(nodes) > 0); err != nil {
			return err
		}
	}
	if err := result.addNodes(ctx, g, nodes, level); err != nil {
		return err
	}
	return printVerify(g, result)
}

// addStore verifies what the store has. Elsewhere says that nodes have the checkpoint that
// the user named.
func (r *verifyResult) addStore(ctx context.Context, g *ui.Globals, store *image.Store, args []string, elsewhere bool) error {
	targets, jobs, total, err := verifyTargets(store, args)
	if err != nil {
		return err
	}
	add, done := g.Progress("verify", total)
	defer done()
	for _, t := range targets {
		report, err := t.verification.Checkpoint(ctx, t.number, add)
		if errors.Is(err, image.ErrCheckpointNotFound) && (len(jobs) > 0 || elsewhere) { // else the user named it
			continue // pruned meanwhile, or on nodes only
		}
		if err != nil {
			return err
		}
		r.Checkpoints++
		r.CheckedBytes += report.CheckedBytes
		for _, d := range report.Damage {
			r.Damage = append(r.Damage, damageLine{Job: t.job.Name(), Checkpoint: t.number, File: d.File, Offset: d.Offset, Reason: d.Reason})
		}
	}
	return r.addLogs(jobs)
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
			r.Damage = append(r.Damage, damageLine{Job: j.Name(), File: d.File, Offset: d.Offset, Reason: d.Reason})
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
		r.print(g)
	}
	if len(r.Damage) == 0 {
		return nil
	}
	d := &r.Damage[0]
	first := "the first in "
	if d.nodeDamage != nil && (d.gone || d.dir) {
		first = "the first: "
	}
	err := fmt.Errorf("%w: %s, %s%s", ui.ErrDamageFound, ui.Count(len(r.Damage), "place"), first, d.place())
	if d.nodeDamage != nil {
		return ui.WithHint(err, d.Remedy)
	}
	return err
}

// String says what is damaged, and where.
func (d *damageLine) String() string {
	of := d.Job
	if d.Checkpoint > 0 {
		of = fmt.Sprintf("%s@%d", d.Job, d.Checkpoint)
	}
	if d.nodeDamage != nil {
		of += fmt.Sprintf(", node %d", d.Node)
	}
	return of + ": " + d.place()
}

// place is the file, the offset unless nothing is there, and the reason.
func (d *damageLine) place() string {
	switch {
	case d.nodeDamage != nil && d.gone:
		return fmt.Sprintf("%s is missing", d.File)
	case d.nodeDamage != nil && d.dir:
		return fmt.Sprintf("%s: %s", d.File, d.Reason)
	}
	return fmt.Sprintf("%s at offset %d: %s", d.File, d.Offset, d.Reason)
}

func (r *verifyResult) print(g *ui.Globals) {
	for _, d := range r.Damage {
		g.Printf("%s\n", &d)
	}
	versions := ""
	if r.Versions > 0 {
		versions = fmt.Sprintf(", %d on nodes", r.Versions)
	}
	g.Printf("checked %s%s, %s MiB of files: %s\n", ui.Count(r.Checkpoints, "checkpoint"), versions, ui.MiB(r.CheckedBytes), ui.Count(len(r.Damage), "damaged place"))
	if r.unreachable > 0 {
		g.Printf("not checked: %s of nodes that cannot be reached from here\n", ui.Count(r.unreachable, "file"))
	}
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
