package images

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"

	"github.com/spf13/cobra"
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

// nodeDamage says where a damaged file of a node belongs.
type nodeDamage struct {
	Level  nodes.State `json:"storage_level"` // that the file is for
	Node   int         `json:"node"`
	Remedy string      `json:"remedy"`
	gone   bool        // nothing is there
	dir    bool        // it is the directory of the node
}

// onNodes are the checkpoints of a job that nodes have.
type onNodes struct {
	job      *image.Job
	levels   *job.Levels
	versions []nodes.Version
	named    bool // the user named one of them
}

// addNodes verifies what nodes have.
func (r *verifyResult) addNodes(ctx context.Context, g *ui.Globals, list []verifiedJob, level string) error {
	total := int64(0)
	for _, on := range list {
		for _, v := range on.versions {
			total += v.Manifest.StoredBytes
		}
	}
	add, done := g.Progress("verify nodes", total)
	defer done()
	for _, on := range list {
		for _, v := range on.versions {
			count := func(n int64) { r.CheckedBytes += n; add(n) }
			v, findings, err := on.verify(ctx, v, count)
			if err != nil {
				return err
			}
			r.Versions++
			r.addFindings(on.onNodes, v, findings, level)
		}
	}
	return nil
}

// verify verifies a version, or a newer one that has taken its place in a running job. Of a
// version that is just being committed or removed files are missing: it looks again.
func (on *onNodes) verify(ctx context.Context, v nodes.Version, progress func(int64)) (nodes.Version, []nodes.Finding, error) {
	const attempts = 20
	for i := 1; ; i++ {
		findings, err := on.levels.Tier.Verify(ctx, v.Manifest, progress)
		if err != nil || i == attempts || on.named || !onlyMissing(findings) {
			return v, findings, err
		}
		if running, err := on.job.Locked(); err != nil || !running {
			return v, findings, nil
		}
		if now, err := job.ReadLevels(ctx, on.job); err == nil && len(now.Versions) > 0 {
			on.levels, v = now, now.Versions[len(now.Versions)-1]
		}
	}
}

// onlyMissing reports whether something is wrong, and all that is are files that are missing.
func onlyMissing(findings []nodes.Finding) bool {
	missing := 0
	for _, f := range findings {
		switch f.Condition {
		case nodes.Missing:
			missing++
		case nodes.Sound:
		default:
			return false
		}
	}
	return missing > 0
}

// addFindings notes what is wrong with the files of a version.
func (r *verifyResult) addFindings(on onNodes, v nodes.Version, findings []nodes.Finding, level string) {
	unreachable := 0
	for _, f := range findings {
		of := levelOf(f.Role)
		if f.Condition == nodes.Sound || level == levelLocal && of != nodes.Local {
			continue
		}
		if f.Condition == nodes.Unreachable {
			unreachable++
			continue
		}
		if f.Condition == nodes.LostNode && f.Role != nodes.RoleDirectory {
			continue // the directory is named
		}
		d := damageLine{Job: on.job.Name(), Checkpoint: v.Number}
		d.File, d.Reason = on.path(f), string(f.Condition)
		if damage := (*durable.DamageError)(nil); errors.As(f.Err, &damage) {
			d.Offset, d.Reason = damage.Offset, damage.Reason
		}
		d.nodeDamage = &nodeDamage{Level: of, Node: f.Node, Remedy: on.remedy(v), gone: f.Condition == nodes.Missing, dir: f.Role == nodes.RoleDirectory}
		if d.dir {
			d.Offset, d.Reason = 0, reasonOf(f)
			d.Remedy = fmt.Sprintf("ckpt scrub %s makes the directory of node %d again once it can be written: mount it, free it, or move away what is in its place", on.job.Name(), f.Node)
		}
		r.Damage = append(r.Damage, d)
	}
	r.unreachable += unreachable
	if m, err := on.job.Manifest(v.Number); unreachable > 0 && (err != nil || m.ID != v.ID) { // else the store has all
		r.skip(on.job.Name(), v.Number, fmt.Errorf("%s: %w", ui.Count(unreachable, "file"), nodes.ErrUnreachable))
	}
}

// levelOf returns the level that a file is for.
func levelOf(role nodes.Role) nodes.State {
	if role == nodes.RoleCopy || role == nodes.RoleParity {
		return nodes.Protected
	}
	return nodes.Local
}

// reasonOf says what is wrong with the directory of a node.
func reasonOf(f nodes.Finding) string {
	err := f.Err
	if node := (*nodes.NodeError)(nil); errors.As(err, &node) {
		err = node.Err
	}
	reason := ui.OneLine(err.Error())
	if f.Condition == nodes.LostNode {
		return "the node is lost: " + reason
	}
	return reason
}

// path returns where a file of a node is.
func (on *onNodes) path(f nodes.Finding) string {
	if f.Role == nodes.RoleDirectory {
		return on.levels.Tier.Nodes()[f.Node].Dir
	}
	return filepath.Join(on.levels.Tier.Nodes()[f.Node].Dir, "jobs", on.job.Name(), f.Path)
}

// remedy says what to do about a damaged file of a version.
func (on *onNodes) remedy(v nodes.Version) string {
	name := on.job.Name()
	_, err := on.job.Manifest(v.Number)
	stored := err == nil
	switch {
	case on.levels.Tier.Setting().Protect.Kind() != nodes.None:
		return fmt.Sprintf("ckpt scrub %s@%d makes it again, unless too many nodes are lost", name, v.Number)
	case stored:
		return fmt.Sprintf("the store has checkpoint %d too: ckpt restart %s reads what is damaged there", v.Number, name)
	}
	return fmt.Sprintf("nothing protects checkpoint %d: ckpt list %s shows the others", v.Number, name)
}
