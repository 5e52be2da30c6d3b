package predictions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image/nodes"
	"ckpt/interval"
	"ckpt/predict/fit"
	"ckpt/predict/plan"
	"ckpt/predict/service"
)

// intervalApp are the flags of ckpt interval APP, whose costs are predicted.
type intervalApp struct {
	jobOptions
	log, codec string
	inFlight   ui.InFlight
	groupSize  int
	engine     dataset.Engine // whose checkpoints were predicted, "" without APP
	name       string         // of what was predicted
}

func (o *intervalApp) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.model, "model", "", "with APP, or of one application: model of ckpt predict fit (default: the built-in tables)")
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not have it")
	f.StringVar(&o.mpi, "mpi", "", "with APP: MPI library, mpich or openmpi (default mpich, or what was measured)")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.StringVar(&o.codec, "codec", "none", "with APP: compression")
	ui.Choices(f, "codec", fit.Codecs()...)
	f.StringVar(&o.log, "log", string(service.Receiver), "with APP and --mode semi or uncoordinated: log of messages")
	ui.Choices(f, "log", string(service.Receiver), string(service.Sender), string(service.Optimistic))
	f.IntVar(&o.groupSize, "group-size", 0, "with APP and --mode semi: ranks of a group (default those of a node)")
}

// ofApp predicts the costs of APP, where flags do not give them.
func (o *intervalOptions) ofApp(cmd *cobra.Command, g *ui.Globals, app string) error {
	f := cmd.Flags()
	if f.Changed("from-job") {
		return ui.BadUsage("an APP and --from-job exclude each other: both say what checkpoints cost", "leave one of them out")
	}
	var rates *plan.Levels
	if f.Changed("storage-level") {
		var err error
		if rates, err = o.rates(); err != nil {
			return err
		}
	}
	o.predicted.inFlight = o.async
	option, err := o.predicted.fill(cmd, app, rates)
	if err != nil {
		return InputErrors(err)
	}
	app = cmp.Or(app, o.predicted.name)
	if rates != nil {
		return o.costsOfLevels(g, app, &option.LevelCosts)
	}
	if l := option.Lag; l != nil && !f.Changed("lag") {
		o.lag = plainSeconds(l.LagS)
		if !g.JSON && !g.Quiet {
			g.Printf("predicted for %s, durability lag %s (%s)\n", app, ui.Seconds(l.LagS), times(l.LagLowS, l.LagHighS))
		}
	}
	groups := option.Groups
	c := &groups.ModeCosts
	if !f.Changed("cost") {
		o.ends.Cost = (*interval.Estimated)(&c.AllS)
	}
	if !f.Changed("restart") {
		o.ends.Restart = (*interval.Estimated)(&c.RestartS)
	}
	return o.predicted.set(cmd, g, app, groups)
}

// rates reads the rates of two levels: of the storage of a node, and of the store.
func (o *levelOptions) rates() (*plan.Levels, error) {
	l := &plan.Levels{Share: 0.5, Slots: nodes.Slots} // the share changes no cost
	rates := []*float64{&l.LocalMiBPerS, &l.StoreMiBPerS}
	if len(o.levels) != len(rates) {
		return nil, ui.BadUsage("an APP has two levels of storage, the nodes and the store", "add both, like --storage-level local=2GiB/s --storage-level store=200MiB/s")
	}
	for i, text := range o.levels {
		_, value, _ := strings.Cut(text, "=")
		rate, _, _ := strings.Cut(value, ",")
		if !strings.HasSuffix(rate, "/s") {
			return nil, ui.BadUsage(fmt.Sprintf("--storage-level %q: of an APP the cost is predicted from a rate", text), "give bytes per second, of one node or of the store, like local=2GiB/s; or leave APP out")
		}
		var q ui.Quantities
		if *rates[i] = float64(q.Rate("--storage-level "+text, rate)) / mebi; q.Err != nil {
			return nil, q.Err
		}
	}
	return l, nil
}

// costsOfLevels replaces the rates of levels by predicted costs. The store is filled behind the
// job.
func (o *intervalOptions) costsOfLevels(g *ui.Globals, app string, c *plan.LevelCosts) error {
	told := ""
	for i, cost := range []struct {
		of            string
		cost, restart fit.Range
	}{{"%s=%fs,restart=%fs", c.LocalS, c.LocalRestartS}, {"%s=0s,drain=%fs,restart=%fs", c.DrainS, c.StoreRestartS}} {
		name, value, _ := strings.Cut(o.levels[i], "=")
		_, more, given := strings.Cut(value, ",")
		o.levels[i] = fmt.Sprintf(cost.of, name, cost.cost.Value, cost.restart.Value)
		if given {
			o.levels[i] += "," + more
		}
		told += fmt.Sprintf(", %s %s (%s)", name, ui.Seconds(cost.cost.Value), times(cost.cost.Low, cost.cost.High))
	}
	if g.JSON || g.Quiet {
		return nil
	}
	explainEngine(g, o.predicted.engine, "")
	return g.Printf("predicted for %s%s\n", app, told)
}

// fill predicts what checkpoints of the mode cost, or of levels.
func (o *intervalApp) fill(cmd *cobra.Command, app string, levels *plan.Levels) (*plan.Option, error) {
	f := cmd.Flags()
	var err error
	if o.Nodes, err = f.GetInt("nodes"); err != nil {
		return nil, err
	}
	m, err := o.load(app)
	if err != nil {
		return nil, err
	}
	o.io, o.law = "none", "auto"
	r, err := o.request(m, app)
	if err != nil {
		return nil, err
	}
	mode, _ := f.GetString("mode")
	// Of the time of the run the costs need only how long an iteration takes; the time
	// between failures changes none of them.
	p := plan.Planning{App: r.App, Law: r.Law, MPI: []string{r.MPI}, IO: r.IO, Mapping: r.Mapping, Codecs: []string{o.codec}, AppSeconds: 86400, MTBFS: 86400}
	groups := modeOptions{modes: []string{mode}, logs: []string{o.log}, groupSize: o.groupSize, staggers: []string{"spread"}}
	if err := groups.groups(&p); err != nil {
		return nil, err
	}
	if levels != nil {
		p.Levels = levels
	}
	if p.Engine, err = m.EngineOf(""); err != nil {
		return nil, err
	}
	if o.inFlight > 0 {
		p.Engine = dataset.Ckpt
	}
	p.Storing.Async, p.Storing.InFlight = o.inFlight.Setting()
	if p.Engine == dataset.Ckpt && !f.Changed("codec") {
		p.Codecs = []string{""} // as measured jobs had
	}
	text, _ := f.GetString("app-time")
	if s, err := ui.ParseDuration("--app-time", text); err == nil && s > 0 {
		p.AppSeconds = s.Seconds()
	}
	options, err := plan.Compare(m, p)
	if err != nil {
		return nil, err
	}
	o.engine, o.name = cmp.Or(p.Engine, dataset.DMTCP), p.App.String()
	return &options[0], nil
}

// set sets the flags.
func (o *intervalApp) set(cmd *cobra.Command, g *ui.Globals, app string, of *plan.Groups) error {
	c := &of.ModeCosts
	f := cmd.Flags()
	seconds := func(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }
	share := func(v float64) string { return strconv.FormatFloat(100*v, 'f', 6, 64) + "%" }
	values := map[string]string{"cost": seconds(c.AllS.Value), "restart": seconds(c.RestartS.Value)}
	if of.Mode != service.Coordinated {
		values["logging"], values["log-growth"] = share(c.Slowdown.Value), share(c.KeptS.Value)
		values["replay"] = strconv.FormatFloat(c.ReplaySpeed.Value, 'f', 3, 64)
	}
	var told []string
	for name, v := range values {
		if !f.Changed(name) {
			if err := f.Set(name, v); err != nil {
				return err
			}
			told = append(told, name)
		}
	}
	if g.JSON || g.Quiet {
		return nil
	}
	text := ""
	for _, part := range []struct {
		name string
		r    fit.Range
	}{{"cost", c.AllS}, {"restart", c.RestartS}} {
		if slices.Contains(told, part.name) {
			text += fmt.Sprintf(", %s %s (%s)", part.name, ui.Seconds(part.r.Value), times(part.r.Low, part.r.High))
		}
	}
	if text == "" {
		return nil
	}
	explainEngine(g, o.engine, "")
	return g.Printf("predicted for %s, %s%s\n", app, job.Mode(of.Mode), text)
}
