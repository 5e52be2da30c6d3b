package predictions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
)

func newDatasetListCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tables",
		Example: "  ckpt dataset list",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return runDatasetList(g) },
	}
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

func newDatasetShowCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show TABLE",
		Short: "Show a table and its source",
		Long:  "Show a table and its source. TABLE is its name, the beginning of the name, its\nnumber (5.16), or the path of a CSV file.",
		Example: `  ckpt dataset show 4.3
  ckpt dataset show fig_5_9 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return tableErrors(runDatasetShow(g, args[0])) },
	}
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

func newDatasetExportCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "export DIR [TABLE...]",
		Short: "Write tables as CSV files, all by default",
		Example: `  ckpt dataset export tables
  ckpt dataset export . 5.16`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return tableErrors(runDatasetExport(g, args[0], args[1:]))
		},
	}
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
		err = ui.WithHint(err, "ckpt dataset list shows the tables; "+spec.Hint())
	}
	return t, err
}
