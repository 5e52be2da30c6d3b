// Package predictions has the commands that predict checkpoints: their size, time,
// number and interval, and the measurements behind that.
package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
)

func newDatasetCommand(g *ui.Globals) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "dataset [TABLE]...",
		Short: "List, show and export the measurements behind the predictions",
		Long: `List the measurements behind the predictions: the tables of a thesis on checkpoint
sizes (León Otero, UAB 2022). With TABLE, show it and the source of its numbers, with
their known errors. TABLE is its name, the beginning of the name, its number (5.16), or
the path of a CSV file. With -o, write it as a CSV file into a directory; without TABLE,
write all.

A table of your own has the same form: one line that begins with "# source:",
one that names the columns with their units (app,class,n_processes,dtapp_MiB),
and one for each measurement. Give its path in place of a name.`,
		Example: `  ckpt dataset
  ckpt dataset fig_5_9 --json
  ckpt dataset 5.16 -o tables`,
		Args: func(_ *cobra.Command, args []string) error {
			if dir == "" && len(args) > 1 {
				return errors.New("one table at a time is shown")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case dir != "":
				return tableErrors(runDatasetExport(g, dir, args))
			case len(args) > 0:
				return tableErrors(runDatasetShow(g, args[0]))
			}
			return runDatasetList(g)
		},
	}
	cmd.Flags().StringVarP(&dir, "output", "o", "", "directory to write CSV files into")
	cmd.AddCommand(ui.Moved("list", "dataset"), ui.Moved("show", "dataset"), ui.Moved("export", "dataset -o"))
	return cmd
}

type tableInfo struct {
	Name    string           `json:"name"`
	Rows    int              `json:"row_count"`
	Columns []dataset.Column `json:"columns"`
	Source  string           `json:"source"`
	Note    string           `json:"note,omitempty"`
}

func infoOf(t *dataset.Table) tableInfo {
	return tableInfo{t.Name, len(t.Rows), t.Columns, t.Source, t.Note}
}

func runDatasetList(g *ui.Globals) error {
	var infos []tableInfo
	var rows [][]string
	for _, name := range dataset.TableNames() {
		t, err := loadTable(name)
		if err != nil {
			return err
		}
		infos = append(infos, infoOf(t))
		rows = append(rows, []string{name, strconv.Itoa(len(t.Rows)), strconv.Itoa(len(t.Columns))})
	}
	return g.Show(infos, func() error { return g.Table([]string{"table", "|rows", "|columns"}, rows) })
}

func runDatasetShow(g *ui.Globals, name string) error {
	t, err := loadTable(name)
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(struct {
			tableInfo
			Cells [][]string `json:"cells"`
		}{infoOf(t), t.Rows})
	}
	header := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		header[i] = c.Name
		if c.Unit != "" {
			header[i] = "|" + c.Name
		}
	}
	g.Table(header, t.Rows)
	if g.Quiet {
		return nil
	}
	text := "\nsource: " + t.Source + "\n"
	if t.Note != "" {
		text += "note: " + t.Note + "\n"
	}
	return g.Printf("%s", text)
}

func runDatasetExport(g *ui.Globals, dir string, names []string) error {
	if len(names) == 0 {
		names = dataset.TableNames()
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	written := []string{}
	for _, name := range names {
		text, err := dataset.TableText(name)
		if err != nil {
			return err
		}
		t, err := loadTable(name)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, t.Name+".csv")
		if err := os.WriteFile(path, text, 0o666); err != nil {
			return err
		}
		written = append(written, path)
	}
	return g.Show(written, func() error { return g.Printf("%d tables written to %s\n", len(written), dir) })
}

// tableErrors turns errors in the text of a table into usage errors: the user wrote it.
func tableErrors(err error) error {
	var bad *dataset.TableError
	if errors.As(err, &bad) {
		return ui.AsUsage(fmt.Errorf("table %w", err))
	}
	return err
}

// loadTable is dataset.LoadTable with a hint at the command that lists the tables.
func loadTable(name string) (*dataset.Table, error) {
	t, err := dataset.LoadTable(name)
	if spec := (*dataset.SpecError)(nil); errors.As(err, &spec) && spec.Reason == dataset.UnknownTable {
		err = ui.WithHint(err, "ckpt dataset shows the tables; "+spec.Hint())
	}
	return t, err
}

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command {
	commands := []*cobra.Command{newPredictCommand(g), newIntervalCommand(g), newDatasetCommand(g)}
	g.TellsProgress(commands...)
	for _, cmd := range slices.Concat(commands, commands[0].Commands()) {
		cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
			if err := checkMemory(cmd.Flags()); err != nil {
				return err
			}
			if name := cmd.Name(); cmd.Flags().Changed("async") && (name == "size" || name == "storage") {
				return ui.BadUsage("--async changes times, and not the size of a checkpoint", "leave it out; ckpt predict time has the pause and the durability lag")
			}
			return ui.CheckNeeds(cmd, args, slices.Concat(needs[""], needs[cmd.Name()]))
		}
	}
	return commands
}

// needs are flags that say nothing without others, of all commands and by command.
var needs = map[string][]ui.Need{"": {
	{Flags: "measure-size", Of: "measure", Because: "it is the size of a measurement", Remedy: "add --measure DIR"},
	{Flags: "network-rate", Of: "protect", Because: "nothing goes to other nodes", Remedy: "add what does, like --protect partner"},
}, "interval": {
	{Flags: "logged log-growth replay", Of: "mode", Because: "it is about groups of ranks", Remedy: "add --mode semi or --mode uncoordinated"},
	{Flags: "store", Of: "from-job", Because: "only a job is in a store", Remedy: "add --from-job JOB"},
}, "scale": {
	{Flags: "codec engine", Of: "runs", Because: "only the checkpoints of known runs are written", Remedy: "add --runs, with the times of runs"},
}, "eval": {
	{Flags: "store", Of: "APP", Because: "only a job is in a store", Remedy: "name the JOB"},
}, "count": { // where the checkpoint may be known
	{Flags: "on background measure aggregators buffer async codec engine io law layout level map mpi np vary", Of: "APP model", Because: "the time of a checkpoint is given, and nothing is predicted", Remedy: "name an APP in place of --checkpoint-time"},
	{Flags: "nodes", Of: "APP model node-mtbf", Because: "the time of a checkpoint is given, and nothing is predicted", Remedy: "name an APP in place of --checkpoint-time, or give --node-mtbf"},
	{Flags: "keep capacity", Of: "APP model size", Because: "the size of a checkpoint is not known", Remedy: "add --size, like --size 61GiB"},
}}

func newPredictCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Predict the size, time and number of checkpoints before a run",
		Long: `Predict the size, time and number of checkpoints before a run, from the
structure of the application and measurements, those of the built-in tables
(ckpt dataset) or your own (ckpt predict fit). Every number has an interval
that holds the true value in 95 of 100 cases; what lies outside the points
measured is marked as extrapolated. docs/PREDICT.md has the models.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPredictFitCommand(g), newPredictSizeCommand(g), newPredictTimeCommand(g),
		newPredictCountCommand(g), newPredictScaleCommand(g), newPredictStorageCommand(g),
		newPredictPlanCommand(g), newPredictEvalCommand(g), ui.Moved("score", "predict eval JOB"))
	return cmd
}
