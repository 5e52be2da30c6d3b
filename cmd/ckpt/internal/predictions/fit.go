package predictions

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/predict"
)

type fitOptions struct {
	output, app, class, mpi, quantity, law, plot string
	points                                       []int
}

func newPredictFitCommand(g *ui.Globals) *cobra.Command {
	var o fitOptions
	cmd := &cobra.Command{
		Use:   "fit CSV",
		Short: "Fit a model to your own measurements",
		Long: `Fit a model to your own measurements, or to a table of ckpt dataset list.

CSV has the columns app, class, n_processes and at least one of dtapp_MiB,
lb_MiB, shmem_MiB, ckpt_file_MiB; mpi and n_nodes (or processes_per_node) are
optional. One row calibrates the structure of a known application; two process
counts fix a law for an unknown one. ckpt predict size --model uses the model, and
takes everything else from the built-in tables.

--plot draws the points, the law, its 95 % interval and the extrapolation. --points
fits these process counts only and shows the errors at the others.`,
		Example: `  ckpt predict fit mine.csv -o mine.model
  ckpt predict fit 4.3 --points 16,25,36 --law auto --plot bt-d.svg
  ckpt predict fit 5.16 --app lu --class C --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return inputErrors(runPredictFit(g, &o, args[0])) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "write the model to this file")
	f.StringVar(&o.app, "app", "", "fit this application only")
	f.StringVar(&o.class, "class", "", "fit this class only")
	f.StringVar(&o.mpi, "mpi", "", "fit this MPI library only")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.IntSliceVar(&o.points, "points", nil, "fit these process counts only (ranks per node for the shared zone)")
	f.StringVar(&o.plot, "plot", "", "draw a figure to this .svg, .png or .pdf")
	f.StringVar(&o.quantity, "quantity", "data", "quantity in the figure: data, shared or total")
	ui.Choices(f, "quantity", "data", "shared", "total")
	f.StringVar(&o.law, "law", "auto", "law of the figure: "+strings.Join(predict.LawNames(), ", "))
	ui.Choices(f, "law", predict.LawNames()...)
	return cmd
}

// rows reads the measurements that the flags choose.
func (o *fitOptions) rows(name string) ([]dataset.Measurement, error) {
	t, err := loadTable(name)
	if err != nil {
		return nil, err
	}
	all, err := dataset.MeasurementsOf(t)
	if err != nil {
		return nil, err
	}
	var out []dataset.Measurement
	for _, m := range all {
		if (o.app == "" || strings.EqualFold(m.App, o.app)) && (o.class == "" || m.Class == o.class) && (o.mpi == "" || m.MPI == dataset.MPIName(o.mpi)) {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, ui.BadUsage(fmt.Sprintf("table %s: no row has --app %q --class %q --mpi %q", name, o.app, o.class, o.mpi), "ckpt dataset show "+name+" shows the rows")
	}
	return out, nil
}

func runPredictFit(g *ui.Globals, o *fitOptions, name string) error {
	if err := ui.CheckPlotName(o.plot); err != nil {
		return err
	}
	law, err := predict.ParseLaw(o.law)
	if err != nil {
		return err
	}
	rows, err := o.rows(name)
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
	if o.output != "" {
		var text bytes.Buffer
		if err := m.Write(&text); err != nil {
			return err
		}
		if err := os.WriteFile(o.output, text.Bytes(), 0o666); err != nil {
			return err
		}
	}
	fits := m.Fits()
	if g.JSON {
		return g.PrintJSON(struct {
			Sources []string         `json:"sources"`
			Rows    int              `json:"rows"`
			Fits    []predict.FitRow `json:"fits"`
			Model   string           `json:"model,omitempty"`
		}{m.Sources, len(rows), fits, o.output})
	}
	return printFits(g, fits)
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
