package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

type jobLine struct {
	Job         string    `json:"job"`
	App         string    `json:"app"`
	NP          int       `json:"np"`
	Checkpoints int       `json:"checkpoints"`
	Numbers     []int     `json:"checkpoint_numbers"`
	Unseen      []int     `json:"unseen_numbers,omitempty"` // that only nodes have, which are not seen
	StoredBytes int64     `json:"stored_bytes"`
	Created     time.Time `json:"created,omitzero"`
	Started     time.Time `json:"started,omitzero"` // its last run
	Updated     time.Time `json:"updated,omitzero"` // when the store last heard of it
	Host        string    `json:"host,omitempty"`   // of its last run
	Reason      string    `json:"reason,omitempty"` // why nothing is known of it
	Sealed      bool      `json:"sealed,omitempty"` // and seen without its key
}

// orders are the values of --sort; equal jobs stay in the order of their names.
var orders = map[string]func(a, b jobLine) int{
	"name":        func(a, b jobLine) int { return 0 },
	"time":        func(a, b jobLine) int { return b.Updated.Compare(a.Updated) },
	"size":        func(a, b jobLine) int { return cmp.Compare(b.StoredBytes, a.StoredBytes) },
	"checkpoints": func(a, b jobLine) int { return cmp.Compare(b.Checkpoints, a.Checkpoints) },
}

func runListJobs(ctx context.Context, g *ui.Globals, order string) error {
	compare, ok := orders[order]
	if !ok {
		return ui.BadUsage(fmt.Sprintf("--sort %s: want name, time, size or checkpoints", order), "")
	}
	store, err := g.OpenStore()
	if err != nil {
		o, err := outside(g, err)
		if err != nil {
			return err
		}
		return listOutside(g, o, compare)
	}
	return listJobs(ctx, g, store, compare)
}

// listOutside lists the jobs of a sealed store as far as they can be seen without its key.
func listOutside(g *ui.Globals, o *image.Outside, compare func(a, b jobLine) int) error {
	names, err := o.Jobs()
	if err != nil {
		return err
	}
	lines := []jobLine{}
	for _, name := range names {
		numbers, bytes, err := o.Job(name)
		if errors.Is(err, image.ErrJobNotFound) {
			continue // it was removed this moment
		}
		if err != nil {
			return err
		}
		lines = append(lines, jobLine{Job: name, Sealed: true, Checkpoints: len(numbers), Numbers: append([]int{}, numbers...), StoredBytes: bytes})
	}
	slices.SortStableFunc(lines, compare)
	g.Warn("%s: names, numbers and bytes are all that can be seen without its key", ui.OneLine(image.ErrNoIdentity.Error()))
	if g.JSON {
		return g.PrintJSON(lines)
	}
	return printJobs(g, lines)
}

// listJobs lists the jobs of a store, also those that cannot be read.
func listJobs(ctx context.Context, g *ui.Globals, store *image.Store, compare func(a, b jobLine) int) error {
	names, err := store.Jobs()
	if err != nil {
		return err
	}
	lines := []jobLine{}
	var failed error
	for _, name := range names {
		line, err := describeJob(ctx, g, store, name)
		if errors.Is(err, image.ErrJobNotFound) {
			continue // it was removed this moment
		}
		failed = errors.Join(failed, err)
		lines = append(lines, line)
	}
	slices.SortStableFunc(lines, compare)
	if g.JSON {
		return errors.Join(failed, g.PrintJSON(lines))
	}
	if len(lines) == 0 {
		return g.Printf("no jobs in %s\n", g.Store)
	}
	return errors.Join(failed, printJobs(g, lines))
}

// printJobs prints a table, with the hosts if there is another one than this.
func printJobs(g *ui.Globals, lines []jobLine) error {
	header := []string{"job", "app", "|checkpoints", "|stored MiB", "created", "updated"}
	here, _ := os.Hostname()
	hosts := slices.ContainsFunc(lines, func(l jobLine) bool { return l.Host != "" && l.Host != here })
	if hosts {
		header = append(header, "host")
	}
	var rows [][]string
	for _, l := range lines {
		row := []string{l.Job, l.App, fmt.Sprint(l.Checkpoints), ui.MiB(l.StoredBytes), shortTime(l.Created), shortTime(l.Updated)}
		if len(l.Unseen) > 0 {
			row[2] = fmt.Sprintf("%d, %d not seen", l.Checkpoints, len(l.Unseen))
		}
		if l.Sealed {
			row[1] = "sealed"
		}
		if l.Reason != "" {
			row[1], row[2], row[3] = "cannot be read", "?", "?"
		}
		if hosts {
			row = append(row, l.Host)
		}
		rows = append(rows, row)
	}
	return g.Table(header, rows)
}

// shortTime formats a time for a table: with the year instead of the clock if that is another.
func shortTime(t time.Time) string {
	switch {
	case t.IsZero():
		return "-"
	case t.Local().Year() != time.Now().Year():
		return t.Local().Format(time.DateOnly)
	}
	return t.Local().Format("Jan _2 15:04")
}

// describeJob describes a job, as far as it can be read.
func describeJob(ctx context.Context, g *ui.Globals, store *image.Store, name string) (jobLine, error) {
	line := jobLine{Job: name, Numbers: []int{}}
	j, err := store.Job(name)
	if err != nil {
		line.Reason = ui.OneLine(err.Error())
		return line, err
	}
	summaries, failed := j.Summaries(0)
	for _, s := range summaries {
		line.App, line.NP = s.App, s.NP
		line.Numbers = append(line.Numbers, s.Number)
	}
	failed = errors.Join(failed, line.addNodes(ctx, g, j))
	status, err := job.Describe(store, name)
	failed = errors.Join(failed, err)
	if err == nil {
		line.Created, line.Started, line.Updated, line.Host = status.Created, status.Started, status.Updated, status.Host
		if line.App == "" {
			line.App, line.NP = status.App, status.NP
		}
	}
	if run, ok := wire.Announced(j); ok {
		line.Started, line.Host = run.Started, run.Host
	}
	line.StoredBytes, err = j.Stored()
	return line, errors.Join(failed, err)
}

// addNodes adds the checkpoints that only nodes have.
func (l *jobLine) addNodes(ctx context.Context, g *ui.Globals, j *image.Job) error {
	levels, _ := g.ReadLevels(ctx, j) // the error is of the description, which is read once more
	all, err := levels.Checkpoints()
	for _, c := range all {
		if !c.Stored {
			l.Numbers = append(l.Numbers, c.Number)
		}
		if !c.Seen() {
			l.Unseen = append(l.Unseen, c.Number)
		}
	}
	slices.Sort(l.Numbers)
	l.Checkpoints = len(l.Numbers)
	return errors.Join(err, levels.RecordErr)
}
