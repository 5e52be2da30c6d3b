package predictions

import (
	"context"
	"errors"

	"fmt"
	"os"

	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

type fitOptions struct {
	output, app, class, mpi, quantity, law, plot, vary string
	spec                                               string
	points                                             []int
	jobs, messages                                     []string
	saved                                              []string         // jobs at application level
	timed                                              []dataset.JobRun // of tables
	programs                                           programs
}

func newPredictFitCommand(g *ui.Globals) *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit [CSV...]",
		Short: "Fit a model to your own measurements or jobs",
		Long: `Fit a model to your own measurements, to tables of ckpt dataset, or with
--from-job to jobs in the store: the zones that they occupied, imported ones too,
and what ckpt stored of them and how long that took.

CSV has the columns app, class, n_processes and at least one of dtapp_MiB,
lb_MiB, shmem_MiB, ckpt_file_MiB; mpi, n_nodes (or processes_per_node), codec and
stored_MiB are optional. Times of checkpoints have a column for each phase,
coordination_s, management_s, storage_s, latency_s, pause_s, restart_s, or the columns
phase and time_s; they are in seconds. Commas, semicolons or tabs separate the cells. Rows of the
same configuration are runs of it: their mean is fitted. One row calibrates the structure of a known application; two process
counts fix a law for an unknown one. ckpt predict size --model uses the model, and
takes everything else from the built-in tables.

A program that declares its arrays with ckpt_protect_global says how they are cut: one
run is enough, and its ranks have the right size on any other number of them. --spec
writes that down as a workload file, which stands wherever an APP does. The class of a
program is its arguments, or --class.

--vary n fits laws in a problem size, too: the tables have a column n with the
points along a side of the grid, or whatever the memory grows with, in place of a
class. ckpt predict size APP --np NP --vary n=4096 then asks for any size.

--plot draws the points, the law, its 95 % interval and the extrapolation. --points
fits these process counts only and shows the errors at the others.`,
		Example: `  ckpt predict fit mine.csv -o mine.model
  ckpt predict fit march.csv april.csv -o mine.model
  ckpt predict fit sizes.csv --vary n -o sizes.model
  ckpt predict fit --from-job bt.W.4-1,bt.W.9-1,bt.W.16-1 -o bt.model
  ckpt predict fit --from-job heat-4 --spec heat.yaml -o heat.model
  ckpt predict fit 4.3 --points 16,25,36 --law auto --plot bt-d.svg
  ckpt predict fit 5.16 --app lu --class C --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && len(o.jobs) == 0 {
				return ui.BadUsage("nothing to fit", "name a CSV file, or jobs with --from-job")
			}
			return InputErrors(runPredictFit(cmd.Context(), g, &o, args))
		},
	}
	g.AddStoreFlag(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "write the model to this file")
	f.StringSliceVar(&o.jobs, "from-job", nil, "fit what these jobs in the store occupied, stored and took")
	f.StringVar(&o.vary, "vary", "", "fit laws in this column of the tables, a problem size")
	f.StringSliceVar(&o.messages, "messages", nil, "directories with the messages of the program that the library of ckpt sdk pmpi has counted, one for each number of ranks")
	f.StringVar(&o.spec, "spec", "", "write the arrays of the program of --from-job to this workload file (.yaml)")
	f.StringVar(&o.app, "app", "", "fit this application only")
	f.StringVar(&o.class, "class", "", "fit this class only; of jobs of a program, their class")
	f.StringVar(&o.mpi, "mpi", "", "fit this MPI library only")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.IntSliceVar(&o.points, "points", nil, "fit these process counts only (ranks per node for the shared zone)")
	f.StringVar(&o.plot, "plot", "", "draw a figure to this .svg, .png, .pdf or .json")
	f.StringVar(&o.quantity, "quantity", "data", "quantity in the figure: data, shared or total")
	ui.Choices(f, "quantity", "data", "shared", "total")
	f.StringVar(&o.law, "law", "auto", "law of the figure: "+strings.Join(fit.LawNames(), ", "))
	ui.Choices(f, "law", fit.LawNames()...)
	return cmd
}

// rows reads the measurements that the arguments and flags choose. Runs of the same
// configuration make one row, the mean.
func (o *fitOptions) rows(g *ui.Globals, tables []string) ([]dataset.Measurement, error) {
	var all []dataset.Measurement
	for _, name := range tables {
		t, err := loadTable(name)
		if err != nil {
			return nil, err
		}
		rows, err := o.read(t)
		if err != nil {
			return nil, err
		}
		timed, err := dataset.TimedRunsOf(t, rows)
		if err != nil {
			return nil, err
		}
		all, o.timed = append(all, rows...), append(o.timed, timed...)
	}
	rows, err := o.measured(g)
	if err != nil {
		return nil, err
	}
	all = append(all, rows...)
	var out []dataset.Measurement
	for _, m := range dataset.Means(all) {
		if o.chosen(m.App, m.Class, m.MPI) {
			out = append(out, m)
		}
	}
	if len(out) == 0 && len(o.saved) == 0 {
		return nil, ui.BadUsage(fmt.Sprintf("no row has --app %q --class %q --mpi %q", o.app, o.class, o.mpi), "leave these flags out to fit all rows")
	}
	return out, nil
}

// read reads the measurements of a table.
func (o *fitOptions) read(t *dataset.Table) ([]dataset.Measurement, error) {
	if o.vary != "" {
		return dataset.VariedMeasurements(t, o.vary)
	}
	return dataset.MeasurementsOf(t)
}

// measured measures jobs in the store.
func (o *fitOptions) measured(g *ui.Globals) ([]dataset.Measurement, error) {
	var rows []dataset.Measurement
	for _, name := range o.jobs {
		j, err := g.OpenJob(name)
		if err != nil {
			return nil, err
		}
		spec, err := job.ReadSpec(j)
		if err != nil {
			return nil, err
		}
		if spec.SavesArrays() { // which say nothing of the zones of a process
			o.saved = append(o.saved, name)
			continue
		}
		measured, err := job.Measure(j)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(measured, func(m dataset.Measurement) bool { return m.MPI == "" }) {
			return nil, ui.BadUsage(fmt.Sprintf("--from-job %s: the program uses no MPI library, and models describe ranks of one", name),
				fmt.Sprintf("ckpt show %s has its sizes, ckpt interval --from-job %s its costs", name, name))
		}
		if class := o.programs.class[name]; class != "" {
			for i := range measured {
				measured[i].Class = class
			}
		}
		rows = append(rows, measured...)
	}
	return rows, nil
}

// runs measures what jobs in the store stored, and how long that took.
func (o *fitOptions) runs(g *ui.Globals) ([]dataset.JobRun, error) {
	runs := slices.Clone(o.timed)
	for _, name := range o.jobs {
		j, err := g.OpenJob(name)
		if err != nil {
			return nil, err
		}
		run, err := job.MeasureRun(j)
		if err != nil {
			return nil, err
		}
		if d := o.programs.of[name]; d != nil {
			run.Class, run.Workload = o.programs.class[name], ""
			if d.Known() {
				run.Workload = d.Text
			}
		}
		runs = append(runs, run)
	}
	return slices.DeleteFunc(runs, func(run dataset.JobRun) bool {
		return !o.chosen(run.App, run.Class, run.MPI) || len(o.points) > 0 && !slices.Contains(o.points, run.NP)
	}), nil
}

// chosen reports whether the flags choose measurements of an application.
func (o *fitOptions) chosen(app, class, mpi string) bool {
	return (o.app == "" || strings.EqualFold(app, o.app)) && (o.class == "" || class == o.class) && (o.mpi == "" || mpi == dataset.MPIName(o.mpi))
}

// write writes the model to the file of --output, if there is one.
func (o *fitOptions) write(ctx context.Context, g *ui.Globals, m *predict.Model) error {
	if o.output == "" {
		return nil
	}
	return g.WriteFile(ctx, o.output, m.Write)
}

func runPredictFit(ctx context.Context, g *ui.Globals, o *fitOptions, tables []string) error {
	if err := ui.CheckPlotName(o.plot); err != nil {
		return err
	}
	law, err := fit.ParseLaw(o.law)
	if err != nil {
		return err
	}
	if err := o.describe(g); err != nil {
		return err
	}
	rows, err := o.rows(g, tables)
	if err != nil {
		return err
	}
	if o.plot != "" {
		f, err := predict.NewFigure(predict.Quantity(o.quantity), rows, o.points, law)
		if err != nil {
			return err
		}
		if err := plotFigure(o.plot, f); err != nil {
			return err
		}
	}
	if len(o.points) > 0 {
		rows = slices.DeleteFunc(rows, func(m dataset.Measurement) bool {
			n := m.NP
			if o.quantity == string(predict.SharedQuantity) {
				n = m.PPN
			}
			return !slices.Contains(o.points, n)
		})
	}
	m, err := predict.Fit(rows)
	if err != nil {
		return err
	}
	runs, err := o.runs(g)
	if err != nil {
		return err
	}
	if err := m.AddRuns(runs); err != nil {
		return err
	}
	m.AddTimes(runs)
	m.Modes = service.FitMachine(runs)
	apps := map[string]bool{}
	for _, r := range rows {
		apps[r.App] = true
	}
	if len(o.messages) > 0 && len(apps) != 1 {
		return ui.BadUsage("--messages: the rows are of several applications", "fit a model to the application whose messages were counted")
	}
	for _, dir := range o.messages {
		e, err := service.ReadExchange(os.DirFS(dir))
		if err != nil {
			return ui.BadUsage(fmt.Sprintf("--messages %s: %v", dir, err), "give the directory that CKPT_MESSAGES named in a run with the library of ckpt sdk pmpi")
		}
		e.App = rows[0].App
		m.Exchanges = append(m.Exchanges, *e)
	}
	if err := errors.Join(o.writeSpec(ctx, g), o.write(ctx, g, m)); err != nil {
		return err
	}
	fits := m.Fits()
	if g.JSON {
		return g.PrintJSON(struct {
			Sources []string         `json:"tables"`
			Rows    int              `json:"row_count"`
			Runs    int              `json:"run_count"`
			Fits    []predict.FitRow `json:"laws"`
			Model   string           `json:"output,omitempty"`
			Arrays  []describedArray `json:"array_rules,omitempty"`
			Spec    string           `json:"spec,omitempty"`
		}{m.Sources, len(rows), runsOf(rows), fits, o.output, o.programs.arrays(), o.spec})
	}
	if err := printFits(g, fits); err != nil {
		return err
	}
	return o.programs.print(g)
}

// runsOf counts the runs behind rows.
func runsOf(rows []dataset.Measurement) (n int) {
	for _, m := range rows {
		n += max(1, m.Runs)
	}
	return n
}

func printFits(g *ui.Globals, fits []predict.FitRow) error {
	var out [][]string
	for _, f := range fits {
		var coef []string
		for _, c := range f.Coefficients {
			coef = append(coef, strconv.FormatFloat(c, 'g', 5, 64))
		}
		if f.Exponent != 0 {
			coef = append(coef, "exponent "+strconv.FormatFloat(f.Exponent, 'f', 3, 64))
		}
		loo, aicc, reach := "-", "-", ""
		if f.LOO > 0 {
			loo = share(f.LOO)
		}
		if f.AICc != 0 {
			aicc = decimal(f.AICc)
		}
		if f.High > 0 {
			reach = fmt.Sprintf("%g to %g", f.Low, f.High)
		}
		out = append(out, []string{f.Series, f.Law, strconv.Itoa(f.Points), reach, strings.Join(coef, ", "), loo, aicc, decimal(f.Weight)})
	}
	return g.Table([]string{"series", "law", "|points", "range", "coefficients", "|left-out error", "|AICc", "|weight"}, out)
}
