package images

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/nodes"
)

func newScrubCommand(g *ui.Globals) *cobra.Command {
	var w ui.Wait
	cmd := &cobra.Command{
		Use:   "scrub JOB[@N]",
		Short: "Restore what checkpoints on nodes have lost",
		Long: `Read what the nodes have of the checkpoints of a job, and make again what is missing
or damaged: node directories, files of ranks, copies, parity and manifests. It is for
a job that does not run; a running job does so itself when it restarts after a failure.
Files that no node can make again stay lost, directories that cannot be written are
named, and the exit status is then 3.`,
		Example: "  ckpt scrub night\n  ckpt scrub night@3 --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, number, err := ui.SplitTarget(args[0])
			if err != nil {
				return err
			}
			return w.For(cmd.Context(), g, name, func() error { return runScrub(cmd.Context(), g, name, number) })
		},
	}
	w.AddFlags(cmd.Flags())
	g.AddStoreFlag(cmd)
	return cmd
}

// scrubResult says what became of the checkpoints on nodes.
type scrubResult struct {
	Job      string       `json:"job"`
	Versions int          `json:"tier_versions"`
	Restored []scrubbed   `json:"restored_list"`
	Damage   []damageLine `json:"damage"` // what could not be restored
	// Unchecked is what could not be read.
	Unchecked []uncheckedLine `json:"unchecked_list,omitempty"`
	left      verifyResult
}

// scrubbed is a file that was made again.
type scrubbed struct {
	Checkpoint int        `json:"checkpoint"`
	Node       int        `json:"node"`
	Role       nodes.Role `json:"file_role"`
	File       string     `json:"file"`
}

func runScrub(ctx context.Context, g *ui.Globals, name string, number int) error {
	j, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	if err := j.Lock(); err != nil {
		return err
	}
	defer j.Unlock()
	levels, err := g.ReadLevels(ctx, j)
	if err != nil {
		return err
	}
	if levels.Tier == nil {
		return ui.WithHint(fmt.Errorf("job %s keeps no checkpoints on nodes", name), "ckpt verify "+name+" checks those in the store")
	}
	if levels.RecordErr != nil && len(levels.Versions) > 0 {
		if err := levels.Recover(); err != nil {
			return err
		}
		g.Warn("the record of what the nodes have is made again: %s", ui.OneLine(levels.RecordErr.Error()))
		levels.RecordErr = nil
	}
	jobs := []verifiedJob{{onNodes: onNodes{job: j, levels: levels}}}
	r := &scrubResult{Job: name, Restored: []scrubbed{}}
	if err := r.left.find(jobs, number, levelProtected); err != nil {
		return err
	}
	if err := r.scrub(ctx, g, &jobs[0].onNodes); err != nil {
		return err
	}
	r.Damage, r.Unchecked = append([]damageLine{}, r.left.Damage...), r.left.Unchecked
	return r.show(g)
}

// scrub restores what is lost of all versions, the newest first.
func (r *scrubResult) scrub(ctx context.Context, g *ui.Globals, on *onNodes) error {
	total := int64(0)
	for _, v := range on.versions {
		total += v.Manifest.StoredBytes
	}
	add, done := g.Progress("scrub", total)
	defer done()
	for _, v := range slices.Backward(on.versions) {
		findings, err := on.levels.Tier.Scrub(ctx, v.Manifest, add)
		if err != nil {
			return err
		}
		r.Versions++
		r.left.addFindings(*on, v, slices.DeleteFunc(slices.Clone(findings), func(f nodes.Finding) bool { return f.Restored }), "")
		for _, f := range findings {
			if f.Restored {
				r.Restored = append(r.Restored, scrubbed{v.Number, f.Node, f.Role, on.path(f)})
			}
		}
	}
	return nil
}

func (r *scrubResult) show(g *ui.Globals) error {
	if err := g.Show(r, func() error { return r.print(g) }); err != nil || len(r.Damage) == 0 {
		return errors.Join(err, r.left.unchecked())
	}
	err := fmt.Errorf("%w: %s could not be restored; the first: %s", ui.ErrDamageFound, ui.Count(len(r.Damage), "place"), r.Damage[0].place())
	if r.Damage[0].dir {
		return ui.WithHint(err, r.Damage[0].Remedy)
	}
	return ui.WithHint(err, fmt.Sprintf("ckpt list %s shows the checkpoints that are left", r.Job))
}

func (r *scrubResult) print(g *ui.Globals) error {
	for _, f := range r.Restored {
		g.Printf("%s@%d, node %d: %s restored, %s\n", r.Job, f.Checkpoint, f.Node, roleText[f.Role], f.File)
	}
	for _, d := range r.Damage {
		g.Printf("%s\n", &d)
	}
	for _, u := range r.Unchecked {
		g.Printf("%s: not checked: %s\n", u.target(), u.Reason)
	}
	return g.Printf("%s: %s on nodes, %s restored\n", r.Job, ui.Count(r.Versions, "checkpoint"), ui.Count(len(r.Restored), "file"))
}

var roleText = map[nodes.Role]string{
	nodes.RoleDirectory: "directory", nodes.RoleOwn: "file of a rank", nodes.RoleCopy: "copy", nodes.RoleParity: "parity", nodes.RoleManifest: "manifest",
}
