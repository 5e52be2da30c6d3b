package images

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
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
the parity that protect them, as far as the nodes can be reached from here. --storage-level
limits it: local to the files of ranks on their own nodes, protected to all files on
nodes, stored to the store, next to the stores into which the job is copied on.

The bytes that it counts are bytes of files: a file that several checkpoints use
is read once.`,
		Example: "  ckpt verify\n  ckpt verify bt.S.4-1@2 --json\n  ckpt verify bt.S.4-1 --storage-level protected",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch level {
			case "", levelLocal, levelProtected, levelStored, levelNext:
				return runVerify(cmd.Context(), g, args, level)
			}
			return ui.BadUsage("--storage-level "+level+": want local, protected, stored or next", "leave --storage-level out to check all")
		},
	}
	cmd.Flags().StringVar(&level, "storage-level", "", "check only this level of storage: local, protected, stored or next (default: all)")
	ui.Choices(cmd.Flags(), "storage-level", levelLocal, levelProtected, levelStored, levelNext)
	g.Renamed(cmd.Flags(), "level", "storage-level")
	g.AddStoreFlag(cmd)
	return cmd
}

// The values of --storage-level.
const (
	levelLocal     = string(nodes.Local)
	levelProtected = string(nodes.Protected)
	levelStored    = string(nodes.Stored)
	levelNext      = string(nodes.InNext)
)

type verifyResult struct {
	Checkpoints  int             `json:"checkpoints"`
	CheckedBytes int64           `json:"checked_bytes"`
	Damage       []damageLine    `json:"damage"`
	Next         int             `json:"next_checkpoints,omitempty"` // in next stores
	Versions     int             `json:"tier_versions,omitempty"`    // checkpoints on nodes
	Unchecked    []uncheckedLine `json:"unchecked_list,omitempty"`   // what could not be read
	SealedFiles  int             `json:"sealed_files,omitempty"`     // that were checked without the key
	unreachable  int             // files
	failed       []error         // of Unchecked
}

type damageLine struct {
	Job        string `json:"job"`
	Checkpoint int    `json:"checkpoint"` // 0: of a message log
	image.Damage
	*nodeDamage
	remedy string // of a next store
}

// damaged notes damage of a job, or of a checkpoint of it.
func (r *verifyResult) damaged(job string, number int, list ...image.Damage) {
	for _, d := range list {
		r.Damage = append(r.Damage, damageLine{Job: job, Checkpoint: number, Damage: d})
	}
}

// An uncheckedLine is a job, or a checkpoint of it, that could not be read.
type uncheckedLine struct {
	Job        string           `json:"job"`
	Checkpoint int              `json:"checkpoint"` // 0: all of the job, or its message logs
	Reason     string           `json:"reason"`
	Unseen     []job.UnseenNode `json:"unseen_node_list,omitempty"` // that have the checkpoint
}

// skip notes what could not be read, and that the others are checked all the same.
func (r *verifyResult) skip(name string, number int, err error) {
	line := uncheckedLine{Job: name, Checkpoint: number, Reason: ui.OneLine(err.Error())}
	if unseen := (*job.UnseenError)(nil); errors.As(err, &unseen) {
		line.Unseen = unseen.Nodes
	}
	r.Unchecked, r.failed = append(r.Unchecked, line), append(r.failed, err)
}

func runVerify(ctx context.Context, g *ui.Globals, args []string, level string) error {
	store, err := g.OpenStore()
	if err != nil {
		o, err := outside(g, err)
		if err != nil {
			return err
		}
		return verifyOutside(ctx, g, o, args)
	}
	return verifyStore(ctx, g, store, args, level)
}

// verifyStore verifies the jobs of a store that can be read, and names the others.
func verifyStore(ctx context.Context, g *ui.Globals, store *image.Store, args []string, level string) error {
	result := verifyResult{Damage: []damageLine{}}
	jobs, number, err := result.jobs(ctx, g, store, args)
	if err != nil {
		return err
	}
	if err := result.find(jobs, number, level); err != nil {
		return err
	}
	if level == "" || level == levelStored {
		if err := result.addStore(ctx, g, jobs, number == 0); err != nil {
			return err
		}
	}
	if level == "" || level == levelNext {
		if err := result.addNext(ctx, g, jobs, number); err != nil {
			return err
		}
	}
	if err := result.addNodes(ctx, g, jobs, level); err != nil {
		return err
	}
	return printVerify(g, result)
}

// verifyOutside verifies what can be verified of a sealed store without its key.
func verifyOutside(ctx context.Context, g *ui.Globals, o *image.Outside, args []string) error {
	result := verifyResult{Damage: []damageLine{}}
	names, err := o.Jobs()
	number := 0
	if len(args) == 1 {
		var name string
		name, number, err = ui.SplitTarget(args[0])
		names = []string{name}
	}
	if err != nil {
		return err
	}
	add, done := g.Progress("verify", 0)
	defer done()
	for _, name := range names {
		files, bytes, damage, err := o.Check(ctx, name, number, add)
		if err != nil && (len(args) == 1 || ctx.Err() != nil) {
			return err
		}
		result.SealedFiles += files
		result.CheckedBytes += bytes
		result.damaged(name, number, damage...)
		if err == nil {
			err = fmt.Errorf("only checksums were checked: %w", image.ErrNoIdentity)
		}
		result.skip(name, number, err)
	}
	return printVerify(g, result)
}

// A verifiedJob is a job, and what is to be verified of it.
type verifiedJob struct {
	onNodes
	stored []int // checkpoints
}

// jobs opens the jobs to verify: one, or all that can be read.
func (r *verifyResult) jobs(ctx context.Context, g *ui.Globals, store *image.Store, args []string) (list []verifiedJob, number int, err error) {
	var names []string
	if len(args) == 1 {
		var name string
		if name, number, err = ui.SplitTarget(args[0]); err != nil {
			return nil, 0, err
		}
		names = []string{name}
	} else if names, err = store.Jobs(); err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		j, err := store.Job(name)
		if len(args) == 0 && errors.Is(err, image.ErrJobNotFound) {
			continue // removed this moment
		}
		if err != nil && len(args) == 1 {
			return nil, 0, err
		}
		if err != nil {
			r.skip(name, 0, err)
			continue
		}
		levels, _ := g.ReadLevels(ctx, j) // what is wrong with the description, the check of logs says
		list = append(list, verifiedJob{onNodes: onNodes{job: j, levels: levels}})
	}
	return list, number, nil
}

// find lists the checkpoints to verify, and those that only nodes out of reach have.
func (r *verifyResult) find(jobs []verifiedJob, number int, level string) error {
	found := 0
	for i := range jobs {
		v := &jobs[i]
		v.named = number > 0
		all, err := v.levels.Checkpoints()
		if err != nil {
			r.skip(v.job.Name(), 0, err)
			continue
		}
		for _, c := range all {
			if number > 0 && c.Number != number {
				continue
			}
			if c.Stored {
				v.stored = append(v.stored, c.Number)
			}
			if c.Version != nil && onTheNodes(level) {
				v.versions = append(v.versions, *c.Version)
			}
			if !c.Seen() && onTheNodes(level) {
				r.skip(v.job.Name(), c.Number, v.levels.Unreached(c.Number))
			}
			if c.Stored && (level == "" || level == levelStored) || c.Version != nil && onTheNodes(level) || !c.Seen() {
				found++
			}
		}
		if number == 0 && onTheNodes(level) {
			r.addDoubts(v)
		}
	}
	switch {
	case number == 0 || found > 0 || level == levelNext:
		return nil
	case level == levelStored:
		_, err := jobs[0].job.Manifest(number)
		return jobs[0].levels.Explain(number, err)
	case level != "":
		return fmt.Errorf("%s@%d: %w on any node that can be reached from here", jobs[0].job.Name(), number, image.ErrCheckpointNotFound)
	}
	_, err := jobs[0].levels.Find(number)
	return err
}

// onTheNodes reports whether a level to verify is on nodes.
func onTheNodes(level string) bool { return level != levelStored && level != levelNext }

// addDoubts notes why nodes may have more checkpoints than are known.
func (r *verifyResult) addDoubts(v *verifiedJob) {
	l := v.levels
	if d := (*durable.DamageError)(nil); errors.As(l.RecordErr, &d) {
		r.damaged(v.job.Name(), 0, image.Damage{File: d.File, Offset: d.Offset, Reason: d.Reason})
	} else if l.RecordErr != nil {
		r.skip(v.job.Name(), 0, l.RecordErr)
	}
	if l.Record != nil || len(v.versions) > 0 {
		return // which tell
	}
	for _, err := range l.Wrong {
		if errors.As(err, new(*nodes.NodeError)) && !nodes.Foreign(err) {
			r.skip(v.job.Name(), 0, err)
		}
	}
}

// addStore verifies what the store has, and the message logs of whole jobs.
func (r *verifyResult) addStore(ctx context.Context, g *ui.Globals, jobs []verifiedJob, logs bool) error {
	total := int64(0)
	for i := range jobs {
		total += jobs[i].storedBytes()
	}
	add, done := g.Progress("verify", total)
	defer done()
	for i := range jobs {
		v := &jobs[i]
		verification := v.job.Verification()
		for _, n := range v.stored {
			report, err := verification.Checkpoint(ctx, n, add)
			switch {
			case errors.Is(err, image.ErrCheckpointNotFound) && logs:
				continue // pruned meanwhile
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				r.skip(v.job.Name(), n, err)
				continue
			}
			r.Checkpoints++
			r.CheckedBytes += report.CheckedBytes
			r.damaged(v.job.Name(), n, report.Damage...)
		}
		if logs {
			r.addLogs(v.job)
		}
	}
	return nil
}

// storedBytes is the length of the files to verify in the store, as far as manifests tell.
func (v *verifiedJob) storedBytes() (total int64) {
	counted := make(map[string]bool)
	for _, n := range v.stored {
		if m, err := v.job.Manifest(n); err == nil {
			for _, f := range m.Files {
				if !counted[f.Path] {
					counted[f.Path] = true
					total += f.Bytes
				}
			}
		}
	}
	return total
}

// addLogs verifies the message logs of a job, and what else a restart reads.
func (r *verifyResult) addLogs(j *image.Job) {
	bytes, damage, err := job.VerifyLogs(j)
	if d := new(durable.DamageError); errors.As(err, &d) {
		damage = append(damage, d) // of the description of the job
	} else if err != nil {
		r.skip(j.Name(), 0, err)
	}
	r.CheckedBytes += bytes
	for _, d := range damage {
		r.damaged(j.Name(), 0, image.Damage{File: d.File, Offset: d.Offset, Reason: d.Reason})
	}
}

func printVerify(g *ui.Globals, r verifyResult) error {
	if err := g.Show(r, func() error { return r.print(g) }); err != nil {
		return err
	}
	if len(r.Damage) == 0 {
		return r.unchecked()
	}
	d := &r.Damage[0]
	first := "the first in "
	if d.nodeDamage != nil && (d.gone || d.dir) || d.remedy != "" {
		first = "the first: "
	}
	err := fmt.Errorf("%w: %s, %s%s", ui.ErrDamageFound, ui.Count(len(r.Damage), "place"), first, d.place())
	if d.nodeDamage != nil {
		err = ui.WithHint(err, d.Remedy)
	} else if d.remedy != "" {
		err = ui.WithHint(err, d.remedy)
	}
	return errors.Join(err, r.unchecked())
}

// unchecked returns why some was not checked; nil if all was.
func (r *verifyResult) unchecked() error {
	if len(r.failed) == 0 {
		return nil
	}
	line, more := &r.Unchecked[0], ""
	if n := len(r.failed); n > 1 {
		more = fmt.Sprintf("; and %s", ui.Count(n-1, "other place"))
	}
	err := fmt.Errorf("%w: %s: %w%s", ui.ErrUnchecked, line.target(), r.failed[0], more)
	if ui.HintOf(r.failed[0]) == "" {
		return ui.WithHint(err, "the others were checked; ckpt needs to read all files of a job")
	}
	return err
}

// target names the job or the checkpoint.
func (l *uncheckedLine) target() string { return targetOf(l.Job, l.Checkpoint) }

func targetOf(job string, number int) string {
	if number > 0 {
		return fmt.Sprintf("%s@%d", job, number)
	}
	return job
}

// String says what is damaged, and where.
func (d *damageLine) String() string {
	of := targetOf(d.Job, d.Checkpoint)
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
	case d.nodeDamage != nil && d.dir, d.remedy != "":
		return fmt.Sprintf("%s: %s", d.File, d.Reason)
	}
	return fmt.Sprintf("%s at offset %d: %s", d.File, d.Offset, d.Reason)
}

func (r *verifyResult) print(g *ui.Globals) error {
	for _, d := range r.Damage {
		g.Printf("%s\n", &d)
	}
	versions := ""
	if r.Versions > 0 {
		versions = fmt.Sprintf(", %d on nodes", r.Versions)
	}
	if r.Next > 0 {
		versions += fmt.Sprintf(", %d in next stores", r.Next)
	}
	for _, u := range r.Unchecked {
		g.Printf("%s: not checked: %s\n", u.target(), u.Reason)
	}
	if r.SealedFiles > 0 {
		return g.Printf("checked the checksums of %s, %s MiB: %s\n", ui.Count(r.SealedFiles, "sealed file"), ui.MiB(r.CheckedBytes), ui.Count(len(r.Damage), "damaged place"))
	}
	err := g.Printf("checked %s%s, %s MiB of files: %s\n", ui.Count(r.Checkpoints, "checkpoint"), versions,
		ui.MiB(r.CheckedBytes), ui.Count(len(r.Damage), "damaged place"))
	if r.unreachable > 0 {
		return g.Printf("not checked: %s of nodes that cannot be reached from here\n", ui.Count(r.unreachable, "file"))
	}
	return err
}
