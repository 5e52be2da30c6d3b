// Package images has the commands that show, check, compare, read and remove what is
// stored of jobs, and that read images and processes of other programs.
package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/zones"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command {
	return []*cobra.Command{newListCommand(g), newShowCommand(g), newVerifyCommand(g), newScrubCommand(g), newDiffCommand(g), newPruneCommand(g), newRemoveCommand(g),
		newCopyCommand(g), newSealCommand(g), newImportCommand(g), newExportCommand(g), newExtractCommand(g), newMountCommand(g), newZonesCommand(g)}
}

func newListCommand(g *ui.Globals) *cobra.Command {
	var last int
	var order string
	cmd := &cobra.Command{
		Use:   "list [JOB]",
		Short: "List jobs, or the checkpoints of a job",
		Long: `List the jobs of a store, or the checkpoints of a job and the one from which ckpt
restart continues it.`,
		Example: "  ckpt list\n  ckpt list --sort size\n  ckpt list bt.S.4-1 --last 10",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case last < 0:
				return ui.BadUsage(fmt.Sprintf("--last %d is out of range", last), "--last takes a number of checkpoints; without it, all are listed")
			case len(args) == 0 && last > 0:
				return ui.BadUsage("--last limits the checkpoints of one job", "name the job")
			case len(args) == 1 && cmd.Flags().Changed("sort"):
				return ui.BadUsage("--sort orders jobs, and the checkpoints of a job come by number", "leave --sort out")
			case len(args) == 0:
				return runListJobs(cmd.Context(), g, order)
			}
			return runListCheckpoints(cmd.Context(), g, args[0], last)
		},
	}
	cmd.Flags().IntVar(&last, "last", 0, "list only the newest so many checkpoints")
	cmd.Flags().StringVar(&order, "sort", "name", "order of the jobs: name, time (last used first), size or checkpoints (most first)")
	ui.Choices(cmd.Flags(), "sort", "name", "time", "size", "checkpoints")
	g.AddStoreFlag(cmd)
	return cmd
}

// checkpointLine is a checkpoint in ckpt list and ckpt show.
type checkpointLine struct {
	*job.CheckpointEvent
	App     string      `json:"app"`
	MPI     string      `json:"mpi"`
	Mapping job.Mapping `json:"mapping"`
	Parent  int         `json:"parent"`
	Created time.Time   `json:"created"`
	Origin  string      `json:"origin,omitempty"`       // of an imported one
	Step    int64       `json:"program_step,omitempty"` // of a user's program, as it counts
	PerRank []rankZones `json:"rank_zones,omitempty"`
	Level   job.Level   `json:"level,omitempty"` // that of the job
	// Predicted is what it was predicted to be when the job was launched.
	Predicted *job.PredictedCheckpoint `json:"predicted,omitempty"`
	// In a list: a restart continues from it by default; a restart from an earlier one has left
	// its run.
	Default bool `json:"default_origin,omitempty"`
	Left    bool `json:"left_behind,omitempty"`
	levelsLine
	*tierLine
}

type rankZones struct {
	Rank int `json:"rank"`
	Node int `json:"node"`
	zones.Sizes
}

func describeSummary(h job.Events, s image.Summary) checkpointLine {
	return checkpointLine{CheckpointEvent: h.Describe(s), App: s.App, MPI: s.MPI,
		Mapping: s.Mapping, Parent: s.Parent, Created: s.Created, Origin: s.Origin}
}

// describeManifest describes a checkpoint rank by rank, too.
func describeManifest(h job.Events, m *image.Manifest) checkpointLine {
	line := describeSummary(h, m.Summary())
	line.Step = m.Step
	for _, r := range m.Ranks {
		line.PerRank = append(line.PerRank, rankZones{r.Rank, r.Node, r.Zones})
	}
	return line
}

// explain adds the level of checkpoints and the prediction that the job's description has.
func (l *checkpointLine) explain(spec *job.Resolved) {
	if spec != nil {
		l.Level = spec.LevelOf()
		l.Predicted = spec.Predicted(l.Number, l.Ranks)
	}
}

// memory returns the bytes that the ranks occupied, or the images of an imported checkpoint.
func (l *checkpointLine) memory() int64 {
	if l.Memory != nil {
		return l.Memory.Total()
	}
	return l.Zones.Total()
}

func runListCheckpoints(ctx context.Context, g *ui.Globals, name string, last int) error {
	j, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	list, failed := j.Summaries(last)
	if list == nil && failed != nil {
		return failed
	}
	history := job.ReadEvents(j, last)
	lines := []checkpointLine{}
	spec, _ := job.ReadSpec(j) // without a description less is known
	for _, s := range list {
		lines = append(lines, describeSummary(history, s))
	}
	levels, err := g.ReadLevels(ctx, j)
	failed = errors.Join(failed, err)
	warnUnread(g, levels)
	lines, err = addVersions(ctx, name, lines, levels, history, last)
	failed = errors.Join(failed, err)
	for i := range lines {
		lines[i].explain(spec)
		if spec != nil && lines[i].App == "" {
			lines[i].App, lines[i].MPI = spec.App, spec.MPI // the record does not tell
		}
	}
	markOrigin(lines)
	if g.JSON {
		return errors.Join(failed, g.PrintJSON(lines))
	}
	if len(lines) == 0 {
		if len(levels.Wrong) > 0 {
			return errors.Join(failed, levels.Explain(0, image.ErrCheckpointNotFound))
		}
		return errors.Join(failed, g.Printf("job %s has no checkpoints\n", name))
	}
	return errors.Join(failed, printCheckpoints(g, lines), explainDefault(g, levels, lines))
}

func printCheckpoints(g *ui.Globals, lines []checkpointLine) error {
	if slices.ContainsFunc(lines, func(l checkpointLine) bool { return l.Predicted != nil }) {
		return printPredicted(g, lines)
	}
	var rows [][]string
	tier := slices.ContainsFunc(lines, func(l checkpointLine) bool { return len(l.Levels) > 0 })
	whose := "mapping"
	for _, l := range lines {
		by := l.Mapping.Short()
		if len(l.Of) > 0 {
			whose, by = "of", ui.Ranks(l.Of)
		}
		parent := "-"
		if l.Parent > 0 {
			parent = fmt.Sprint(l.Parent)
		}
		row := []string{fmt.Sprint(l.Number), fmt.Sprint(l.Iteration), parent, by,
			takenAt(l.Created), ui.MiB(l.memory()), ui.MiB(l.StoredBytes), ui.Seconds(l.Latency.Total)}
		if tier {
			row = append(row, l.text())
		}
		rows = append(rows, row)
	}
	header := []string{"|number", "|iteration", "|from", whose, "taken", "|memory MiB", "|stored MiB", "|latency"}
	if tier {
		header[3], header[5] = "~"+whose, "~|memory MiB" // for where it lives, on a narrow terminal
		header = append(header, "level")
	}
	return g.Table(header, rows)
}

// printPredicted prints what was predicted of checkpoints beside what was measured.
func printPredicted(g *ui.Globals, lines []checkpointLine) error {
	var rows [][]string
	for _, l := range lines {
		row := []string{fmt.Sprint(l.Number), fmt.Sprint(l.Iteration), takenAt(l.Created), ui.MiB(l.StoredBytes), "-", ui.Seconds(l.Pause), "-"}
		if p := l.Predicted; p != nil {
			row[4] = ui.MiB(p.Stored)
			if p.Pause > 0 {
				row[6] = ui.Seconds(p.Pause)
			}
		}
		rows = append(rows, row)
	}
	return g.Table([]string{"|number", "|iteration", "taken", "|stored MiB", "|predicted", "|pause", "|predicted"}, rows)
}

// takenAt formats a time to the second.
func takenAt(t time.Time) string {
	if t.Local().Year() != time.Now().Year() {
		return t.Local().Format(time.DateOnly)
	}
	return t.Local().Format(time.Stamp)
}

// markOrigin marks the checkpoint from which a restart continues by default, and the
// checkpoints of runs that a restart from an earlier one has left. In jobs of several groups
// the recovery line decides.
func markOrigin(lines []checkpointLine) {
	lines = lines[:reachable(lines)]
	if len(lines) == 0 || len(lines[0].Of) > 0 || lines[0].Origin != "" {
		return
	}
	newest := &lines[len(lines)-1]
	newest.Default = true
	parent, iteration := newest.Parent, newest.Iteration
	for i := range slices.Backward(lines[:len(lines)-1]) {
		l := &lines[i]
		switch {
		case l.Number > parent && (l.Parent != parent || l.Iteration >= iteration):
			l.Left = true
			continue
		case l.Number <= parent:
			if l.Number < parent && l.Iteration >= iteration {
				l.Left = true
				continue
			}
			parent = l.Parent
		}
		iteration = l.Iteration
	}
}

// reachable returns how many of the checkpoints there are up to the newest that can be seen
// from here.
func reachable(lines []checkpointLine) int {
	n := len(lines)
	for n > 0 && !lines[n-1].seen() {
		n--
	}
	return n
}

// explainDefault says from which checkpoint a restart continues, and why.
func explainDefault(g *ui.Globals, levels *job.Levels, lines []checkpointLine) error {
	name := lines[0].Job
	for _, l := range lines {
		if !l.seen() {
			if err := g.Printf("%s\n", ui.OneLine(levels.Unreached(l.Number).Error())); err != nil {
				return err
			}
		}
	}
	n := reachable(lines)
	if n == 0 {
		return g.Printf("ckpt restart %s needs the directories of nodes that have one of them\n", name)
	}
	newest, which := lines[n-1], "the newest"
	if n < len(lines) {
		which = "the newest that can be reached from here"
	}
	if newest.Level == job.Application {
		if err := g.Printf("checkpoints are at application level: they hold what has to be saved\n"); err != nil {
			return err
		}
	}
	switch {
	case newest.Origin != "":
		return nil
	case len(newest.lacks) > 0:
		return g.Printf("ckpt restart %s needs parts of checkpoint %d that are lost or not seen from here: %s\n", name, newest.Number, strings.Join(newest.lacks, ", "))
	case !newest.Default:
		return g.Printf("ckpt restart %[1]s continues from the recovery line: ckpt show %[1]s --recovery-line\n", name)
	}
	if err := g.Printf("ckpt restart %s continues from %d, %s\n", name, newest.Number, which); err != nil {
		return err
	}
	var left []int
	for _, l := range lines {
		if l.Left {
			left = append(left, l.Number)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return g.Printf("%s of a run that was left: ckpt restart %s@%d returns to it\n",
		belong(left), name, left[len(left)-1])
}

func belong(left []int) string {
	if len(left) == 1 {
		return fmt.Sprintf("%d is", left[0])
	}
	return ui.Numbers(left) + " are"
}
