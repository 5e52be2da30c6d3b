package predictions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// jobOptions are the flags that describe a job whose images are predicted.
type jobOptions struct {
	ui.Placement
	storingOptions
	model, mpi, io, buffer, law string
	vary                        string
	np, aggregators             int
	managers                    bool
}

func (o *jobOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.model, "model", "", "model of ckpt predict fit (default: the built-in tables)")
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	f.StringVar(&o.vary, "vary", "", "problem size in place of the class of APP, like n=4096")
	o.Placement.AddFlags(f)
	o.storingOptions.addFlags(f)
	f.StringVar(&o.mpi, "mpi", "", "MPI library: mpich or openmpi (default mpich, or what was measured)")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.StringVar(&o.io, "io", "none", "how the application writes: none, simple (each rank) or full (aggregators)")
	ui.Choices(f, "io", "none", "simple", "full")
	f.IntVar(&o.aggregators, "aggregators", 0, "ranks that write for the others, with --io full or --layout aggregated (default one per node)")
	f.StringVar(&o.buffer, "buffer", "", "collective buffer of an aggregator, with --io full (default 16MiB, Open MPI 32MiB)")
	f.StringVar(&o.law, "law", "auto", "law of the data zone: "+strings.Join(fit.LawNames(), ", "))
	ui.Choices(f, "law", fit.LawNames()...)
}

// load reads the model.
func (o *jobOptions) load(app string) (*predict.Model, error) { return predict.LoadModel(o.model, app) }

// request is the job that the flags describe.
func (o *jobOptions) request(m *predict.Model, app string) (predict.Request, error) {
	r := predict.Request{MPI: dataset.MPIName(o.mpi), IO: predict.IO(o.io), Aggregators: o.aggregators, ManagerFiles: o.managers}
	if r.MPI == "" {
		r.MPI = o.mpi // refused by name
	}
	app, err := o.varied(app)
	if err != nil {
		return r, err
	}
	if r.App, err = m.Application(app, o.np); err != nil {
		return r, err
	}
	if r.MPI == "" {
		r.MPI = m.UsualMPI(r.App)
	}
	r.MPI = m.MeasuredMPI(r.App, r.MPI)[0]
	mapping, err := o.Resolve(r.App.NP)
	if err != nil {
		return r, err
	}
	r.Mapping = slices.Clone([]int(mapping))
	if o.buffer != "" {
		bytes, err := ui.ParseSize("--buffer", o.buffer)
		if err != nil {
			return r, err
		}
		r.BufferMiB = float64(bytes) / (1 << 20)
	}
	r.Law, err = fit.ParseLaw(o.law)
	return r, err
}

// varied adds a problem size to the name of an application.
func (o *jobOptions) varied(app string) (string, error) {
	if o.vary == "" {
		return app, nil
	}
	v, ok := dataset.ParseVaried(o.vary)
	if !ok {
		return "", ui.BadUsage(fmt.Sprintf("--vary %q is not a problem size", o.vary), "write it as in --vary n=4096")
	}
	if app == "" {
		return "", ui.BadUsage("--vary "+o.vary+": the application is missing", "name it: bt, or a workload file")
	}
	if strings.Contains(app, ".") {
		return "", ui.BadUsage(fmt.Sprintf("%s has a class or a number of ranks, and --vary another problem size", app), "write the name alone, and --np")
	}
	return app + "." + v.Class(), nil
}

// InputErrors turns errors of user input into usage errors.
func InputErrors(err error) error {
	var input *fit.InputError
	var bad *dataset.TableError
	switch {
	case errors.As(err, &input) && input.Remedy != 0:
		return ui.AsUsage(ui.WithHint(err, predictHints[input.Remedy]))
	case errors.As(err, &input), errors.As(err, &bad):
		return ui.AsUsage(err)
	}
	return rangeIsUsage(err)
}

// predictHints put the remedies of predictions into flags and commands.
var predictHints = map[fit.Remedy]string{
	fit.GiveProcs:       "write it as in bt.B.4, or give --np",
	fit.UseCollectiveIO: "add --io full",
	fit.FixCheckpoints:  "add --checkpoints 1, in place of --overhead",
	fit.ChooseSeries:    "choose one with --app, --class and --mpi",
	fit.UseModel:        "measure it and use --model; ckpt predict fit makes one",
	fit.LeaveCodec:      "leave out --codec, or use another --law",
	fit.UseAutoLaw:      "describe its arrays in a YAML file, see docs/WORKLOADS.md, or use --law auto",
	fit.FitPoints:       "measure two or more process counts and fit them: ckpt predict fit CSV -o MODEL",
	fit.NameApp:         "name an APP, or use a --model of one application",
	fit.VaryParam:       "ckpt predict fit CSV --vary COLUMN -o MODEL fits tables with a column of the problem size",
	fit.FitModel:        "ckpt predict fit CSV -o MODEL makes one",
	fit.GiveNodes:       "say how many nodes there are, with --nodes or --map",
	fit.GiveRuns:        "give run times with --runs CSV",
}

// appOf is the application that a command names, or "" for the model's.
func appOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func newPredictSizeCommand(g *ui.Globals) *cobra.Command {
	var o jobOptions
	var figure string
	cmd := &cobra.Command{
		Use:   "size [APP]",
		Short: "Predict the size of a checkpoint",
		Long: `Predict the size of a checkpoint, zone by zone: one line for each kind of image
file, then the total with its 95 % interval, the law and the points behind it.

--engine dmtcp is an image of each process with everything in it. --engine ckpt is
what ckpt stores: one line for the first checkpoint, and one for those that follow
and store only what has changed. The default is what the model was measured on;
the built-in tables are dmtcp.

--level application is the file of an application that stores only what it has to
save: the arrays, each that is the same on all ranks once, and a header. It needs no
model, and says how many writes the aggregators make. With --model, --engine ckpt,
--codec or --layout it is what ckpt stores at that level.

APP is NAME.CLASS.NP (bt.B.4), NAME.CLASS with --np, or a workload file. The built-in ones are ` + strings.Join(dataset.Names(), ", ") + `,
and a model of ckpt predict fit adds those that it has measurements of. With a model of
one application APP can be left out.`,
		Example: `  ckpt predict size bt.D.64 --nodes 2
  ckpt predict size --model heat.model --np 512
  ckpt predict size bt.A.16 --engine ckpt
  ckpt predict size minighost.C.16 --nodes 2 --level application --buffer 64MiB
  ckpt predict size bt.C.25 --map 4,4,4,4,4,4,1 --io full --json
  ckpt predict size sp.B --np 49 --law thesis
  ckpt predict size bt --np 64 --vary N=200`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.saved() && changed(cmd.Flags(), ofCkpt...) == "" {
				return InputErrors(o.predictSaved(g, appOf(args)))
			}
			return InputErrors(runPredictSize(g, &o, appOf(args), figure))
		},
	}
	o.addFlags(cmd.Flags())
	o.addLevelFlag(cmd.Flags())
	cmd.Flags().StringVar(&figure, "plot", "", "draw the data zone over process counts to this .svg, .png, .pdf or .json")
	cmd.Flags().BoolVar(&o.managers, "manager-files", false, "add the images of mpiexec, ssh and proxies, as DMTCP stores them")
	return cmd
}

func runPredictSize(g *ui.Globals, o *jobOptions, app, figure string) error {
	if err := ui.CheckPlotName(figure); err != nil {
		return err
	}
	m, err := o.load(app)
	if err != nil {
		return err
	}
	own, err := o.own(m)
	if err != nil {
		return err
	}
	engine := dataset.DMTCP
	if own {
		engine = dataset.Ckpt
	} else if o.codec != "" {
		return ui.BadUsage("--codec "+o.codec+": images of DMTCP are told as they are before compression", "ckpt predict time tells what is stored")
	}
	r, err := o.requestFor(m, app, engine)
	if err != nil {
		return err
	}
	if own {
		s, err := m.Stored(r, o.storing(), nil)
		if err = plotSize(m, r, figure, err); err != nil {
			return err
		}
		return g.Show(s.Row(false), func() error { return printStored(g, s) })
	}
	s, err := m.Size(r)
	if err = plotSize(m, r, figure, err); err != nil {
		return err
	}
	return g.Show(s, func() error { return printSize(g, s) })
}

// plotSize draws the data zone of a job that could be predicted into a file, if there is to be one.
func plotSize(m *predict.Model, r predict.Request, figure string, err error) error {
	if err != nil || figure == "" {
		return err
	}
	f, err := m.Figure(r)
	if err != nil {
		return err
	}
	return plotFigure(figure, f)
}

func printSize(g *ui.Globals, s *predict.Size) error {
	explainEngine(g, s.Engine, "")
	var rows [][]string
	for _, f := range s.Files {
		kind := ""
		if f.Aggregator {
			kind = "aggregator"
		}
		if f.Ranks != "" {
			kind = strings.TrimSpace(kind + " ranks " + namedRanks(f.Ranks))
		}
		zone := func(mib predict.MiB) string {
			if s.ZonesUnknown {
				return "-"
			}
			return size(mib)
		}
		rows = append(rows, []string{strconv.Itoa(f.PPN), strconv.Itoa(f.Count), zone(f.Zones.Library), zone(f.Zones.Data),
			zone(f.Zones.Shared), zone(f.Zones.IOBuffer), size(f.MiB), sizes(f.Low, f.High), kind})
	}
	g.Table([]string{"|ranks/node", "|files", "|library", "|data", "|shared", "|I/O", "|file", "|95 %", ""}, rows)
	text := fmt.Sprintf("total %s, 95 %% %s\n", size(s.TotalMiB), sizes(s.LowMiB, s.HighMiB))
	if s.ManagerMiB > 0 {
		text = fmt.Sprintf("total %s with %s of manager files, 95 %% %s\n", size(s.TotalMiB), size(s.ManagerMiB), sizes(s.LowMiB, s.HighMiB))
	}
	if !g.Quiet {
		text += "model " + s.Model + "\nbasis " + s.Basis + "\n"
		if s.Note != "" {
			text += "note  " + s.Note + "\n"
		}
	}
	return g.Printf("%s", text)
}

func decimal[F ~float64](v F) string { return strconv.FormatFloat(float64(v), 'f', 2, 64) }

// size and sizes format MiB, times a range of seconds.
func size[F ~float64](mib F) string { return ui.Bytes(float64(mib) * mebi) }

func sizes[F ~float64](low, high F) string {
	return ui.Between(float64(low), float64(high), size[float64])
}

func times(low, high float64) string { return ui.Between(low, high, ui.Seconds) }

const mebi = 1 << 20

// mostRankLines is how many kinds of ranks a table shows.
const mostRankLines = 8

// rankLines says what the ranks hold, where that differs. Ranks that hold as much by the likeliest
// rule share a line, whatever other rules say.
func rankLines(list []predict.RankKind) string {
	text := ""
	lines := 0
	for i := 0; i < len(list); {
		k := list[i]
		for i++; i < len(list) && list[i].Bytes == k.Bytes; i++ {
			k.Count, k.Low, k.High = k.Count+list[i].Count, min(k.Low, list[i].Low), max(k.High, list[i].High)
			k.Ranks = ""
		}
		if lines++; lines > mostRankLines {
			return text + fmt.Sprintf("ranks   %d kinds more, in --json\n", len(list)-i+1)
		}
		text += "ranks   "
		if k.Ranks != "" {
			text += namedRanks(k.Ranks) + ": "
		}
		text += fmt.Sprintf("%d × %d bytes, %s", k.Count, k.Bytes, ui.Bytes(float64(k.Bytes)))
		if k.Low < k.High {
			text += fmt.Sprintf(", or %d to %d bytes", k.Low, k.High)
		}
		text += "\n"
	}
	return text
}

// namedRanks shortens a list of ranks for a table.
func namedRanks(ranks string) string {
	const most = 40
	if len(ranks) <= most {
		return ranks
	}
	return ranks[:strings.LastIndexByte(ranks[:most], ',')+1] + "…"
}
