package images

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
)

func newListCommand(g *ui.Globals) *cobra.Command {
	var last int
	cmd := &cobra.Command{
		Use:     "list [JOB]",
		Short:   "List jobs, or the checkpoints of a job",
		Example: "  ckpt list\n  ckpt list bt.S.4-1\n  ckpt list bt.S.4-1 --last 10",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case last < 0:
				return ui.BadUsage(fmt.Sprintf("--last %d is out of range", last), "--last takes a number of checkpoints; without it, all are listed")
			case len(args) == 0 && last > 0:
				return ui.BadUsage("--last limits the checkpoints of one job", "name the job")
			case len(args) == 0:
				return runListJobs(g)
			}
			return runListCheckpoints(g, args[0], last)
		},
	}
	cmd.Flags().IntVar(&last, "last", 0, "list only the newest so many checkpoints")
	g.AddStoreFlag(cmd)
	return cmd
}

type jobLine struct {
	Job         string `json:"job"`
	App         string `json:"app"`
	NP          int    `json:"np"`
	Checkpoints int    `json:"checkpoints"`
	Numbers     []int  `json:"checkpoint_numbers"`
	StoredBytes int64  `json:"stored_bytes"`
}

func runListJobs(g *ui.Globals) error {
	store, err := g.OpenStore()
	if err != nil {
		return err
	}
	names, err := store.Jobs()
	if err != nil {
		return err
	}
	lines := []jobLine{}
	var failed error
	for _, name := range names {
		line, err := describeJob(store, name)
		failed = errors.Join(failed, err)
		lines = append(lines, line)
	}
	if g.JSON {
		return errors.Join(failed, g.PrintJSON(lines))
	}
	if len(lines) == 0 {
		return g.Printf("no jobs in %s\n", g.Store)
	}
	var rows [][]string
	for _, l := range lines {
		rows = append(rows, []string{l.Job, l.App, fmt.Sprint(l.Checkpoints), ui.MiB(l.StoredBytes)})
	}
	return errors.Join(failed, g.Table([]string{"job", "app", "|checkpoints", "|stored MiB"}, rows))
}

// describeJob describes a job, as far as it can be read.
func describeJob(store *image.Store, name string) (jobLine, error) {
	line := jobLine{Job: name, Numbers: []int{}}
	j, err := store.Job(name)
	if err != nil {
		return line, err
	}
	summaries, failed := j.Summaries(0)
	for _, s := range summaries {
		line.App, line.NP = s.App, s.NP
		line.Numbers = append(line.Numbers, s.Number)
	}
	line.Checkpoints = len(line.Numbers)
	if line.App == "" {
		if status, err := job.Describe(store, name); err == nil {
			line.App, line.NP = status.App, status.NP
		}
	}
	line.StoredBytes, err = j.Stored()
	return line, errors.Join(failed, err)
}

// checkpointLine is a checkpoint in ckpt list and ckpt show.
type checkpointLine struct {
	*job.CheckpointEvent
	App     string      `json:"app"`
	MPI     string      `json:"mpi"`
	Mapping job.Mapping `json:"mapping"`
	Parent  int         `json:"parent"`
	Created time.Time   `json:"created"`
	Origin  string      `json:"origin,omitempty"` // of an imported one
	PerRank []rankZones `json:"rank_zones,omitempty"`
}

type rankZones struct {
	Rank     int   `json:"rank"`
	Node     int   `json:"node"`
	Library  int64 `json:"library"`
	Data     int64 `json:"data"`
	Shared   int64 `json:"shared"`
	IOBuffer int64 `json:"iobuffer"`
}

func describeSummary(h job.Events, s image.Summary) checkpointLine {
	return checkpointLine{CheckpointEvent: h.Describe(s), App: s.App, MPI: s.MPI,
		Mapping: s.Mapping, Parent: s.Parent, Created: s.Created, Origin: s.Origin}
}

// describeManifest describes a checkpoint rank by rank, too.
func describeManifest(h job.Events, m *image.Manifest) checkpointLine {
	line := describeSummary(h, m.Summary())
	for _, r := range m.Ranks {
		line.PerRank = append(line.PerRank, rankZones{r.Rank, r.Node, r.Zones.Library, r.Zones.Data, r.Zones.Shared, r.Zones.IOBuffer})
	}
	return line
}

// memory returns the bytes that the ranks occupied; of an imported checkpoint, the
// bytes of its images.
func (l *checkpointLine) memory() int64 {
	if l.Memory != nil {
		return l.Memory.Total()
	}
	return l.Zones.Total()
}

func runListCheckpoints(g *ui.Globals, name string, last int) error {
	store, err := g.OpenStore()
	if err != nil {
		return err
	}
	j, err := store.Job(name)
	if err != nil {
		return err
	}
	list, failed := j.Summaries(last)
	if list == nil && failed != nil {
		return failed
	}
	history := job.ReadEvents(j, last)
	lines := []checkpointLine{}
	var rows [][]string
	whose := "ranks per node"
	for _, s := range list {
		l := describeSummary(history, s)
		lines = append(lines, l)
		by := l.Mapping.Short()
		if len(l.Of) > 0 {
			whose, by = "of", ui.Ranks(l.Of)
		}
		rows = append(rows, []string{fmt.Sprint(l.Number), fmt.Sprint(l.Iteration), by,
			l.Created.Local().Format(time.DateTime), ui.MiB(l.memory()), ui.MiB(l.StoredBytes), ui.Seconds(l.Latency.Total)})
	}
	if g.JSON {
		return errors.Join(failed, g.PrintJSON(lines))
	}
	if len(lines) == 0 {
		return errors.Join(failed, g.Printf("job %s has no checkpoints\n", name))
	}
	return errors.Join(failed, g.Table([]string{"|number", "|iteration", whose, "taken", "|memory MiB", "|stored MiB", "|latency"}, rows))
}
