package predictions

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/image/nodes"
	"ckpt/interval"
	"ckpt/predict/fit"
	"ckpt/predict/plan"
)

// needOptions are the flags of ckpt predict storage.
type needOptions struct {
	jobOptions
	FailingOptions
	memory, size, waste, downtime string
	share, protect, rate          string
	keep                          int
	storage                       ui.StorageOptions
}

func newPredictStorageCommand(g *ui.Globals) *cobra.Command {
	var o needOptions
	cmd := &cobra.Command{
		Use:   "storage [APP]",
		Short: "Find the bandwidth and capacity that a machine needs for an accepted waste",
		Long: `Find the bandwidth and the capacity with which checkpoints, restarts and repeated work
waste no more than an accepted share of the time: of a store that the job waits for, and
of storage on the nodes with a store behind it (docs/TIERS.md). The formulas are those of
ckpt interval, solved for the rate (docs/INTERVAL.md).

A checkpoint has the --memory of all nodes, or --size, or what is predicted for an APP on
its nodes, with the flags of ckpt predict size. The table around the answer has other
wastes and failure rates. --on says which waste a described storage gives, and what an
object storage costs.`,
		Example: `  ckpt predict storage --nodes 200 --memory 512GiB --node-mtbf 5y --waste 5%
  ckpt predict storage --size 911GiB --nodes 128 --node-mtbf 5y --waste 2% --node-rate 5GiB/s
  ckpt predict storage llama70b.yaml --np 1024 --nodes 128 --level application --node-mtbf 264d --waste 2%
  ckpt predict storage --nodes 16 --memory 64GiB --node-mtbf 5y --waste 5% --on s3
  ckpt predict storage bt.D.64 --nodes 4 --mtbf 12h --waste 5% --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return InputErrors(runPredictStorage(cmd, g, &o, appOf(args)))
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *needOptions) addFlags(f *pflag.FlagSet) {
	o.jobOptions.addFlags(f)
	o.FailingOptions.AddFlags(f, "")
	o.addLevelFlag(f)
	f.StringVar(&o.memory, "memory", "", "memory of a node that a checkpoint has, like 512GiB")
	f.StringVar(&o.size, "size", "", "size of a checkpoint of all nodes, like 90TiB, in place of --memory and APP")
	f.StringVar(&o.waste, "waste", "", "accepted share of the time that checkpoints, restarts and repeated work take, like 5%")
	f.StringVar(&o.downtime, "downtime", "", "time from a failure to the start of the restart (default 0)")
	f.StringVar(&o.share, "share-local", "85%", "share of the failures that checkpoints on the nodes survive")
	f.StringVar(&o.protect, "protect", "partner", "what survives a lost node: none, partner[:K], xor:N or rs:K+M (of one node: none)")
	f.StringVar(&o.rate, "node-rate", "", "rate of the storage of a node, like 5GiB/s (default: asked for, too)")
	f.IntVar(&o.keep, "keep", 1, "checkpoints that stay in the store while one more is written")
	o.storage.AddFlags(f, "on", "also say which waste this storage gives, where each node writes one file")
}

// A StorageNeed is the storage that a machine needs, as --json prints it.
type StorageNeed struct {
	App    string           `json:"app,omitempty"`
	Engine dataset.Engine   `json:"engine,omitempty"` // of a predicted checkpoint
	Nodes  int              `json:"nodes"`
	Bytes  int64            `json:"checkpoint_bytes"`
	Low    int64            `json:"low_bytes"`
	High   int64            `json:"high_bytes"`
	Node   int64            `json:"node_image_bytes"` // of the fullest node
	MTBF   float64          `json:"mtbf_s"`
	Down   float64          `json:"downtime_s"`
	Waste  float64          `json:"waste"`
	Share  float64          `json:"survived_share"`
	Scheme string           `json:"protection"`
	Alone  interval.Needed  `json:"store_alone"`
	First  *interval.Needed `json:"nodes_first"` // null if no store is fast enough behind the nodes
	// The store and a node have to hold so much.
	Kept         int                `json:"keep"`
	Capacity     int64              `json:"capacity_bytes"`
	NodeCapacity int64              `json:"node_capacity_bytes"`
	Around       []interval.NeedRow `json:"needed_list"`
	Assumed      []string           `json:"assumption_list"`
	On           *NeedOn            `json:"on_storage,omitempty"`

	size    fit.Range // of a checkpoint, in bytes
	failing FailingOptions
}

func runPredictStorage(cmd *cobra.Command, g *ui.Globals, o *needOptions, app string) error {
	r, need, err := o.need(cmd, app)
	if err != nil {
		return err
	}
	if r.Alone, err = need.StoreAlone(); err != nil {
		return err
	}
	first, err := need.NodesFirst()
	if outOfRange(err) != nil {
		return err
	}
	if err == nil {
		r.First = &first
	}
	r.Around = need.Around()
	on, err := described(cmd.Context(), &o.storage)
	if err == nil && on != nil {
		r.On, err = on.Need(r, need)
	}
	if err != nil {
		return err
	}
	return g.Show(r, func() error { return printStorageNeed(g, r) })
}

// need reads the flags.
func (o *needOptions) need(cmd *cobra.Command, app string) (*StorageNeed, *interval.Need, error) {
	switch {
	case o.waste == "":
		return nil, nil, ui.Missing("--waste", "5%")
	case !o.FailingOptions.Given():
		return nil, nil, ui.Missing("--node-mtbf", "5y")
	case o.Placement.Count() < 1:
		return nil, nil, ui.Missing("--nodes", "200")
	case o.keep < 1:
		return nil, nil, ui.BadUsage(fmt.Sprintf("--keep %d: want at least 1", o.keep), "one checkpoint stays while the next is written")
	}
	r := &StorageNeed{Nodes: o.Placement.Count(), Assumed: []string{}}
	r.failing = o.FailingOptions
	share, err := o.bytes(cmd.Flags(), r, app)
	if err != nil {
		return nil, nil, err
	}
	mtbf, err := o.Job(r.Nodes)
	if err != nil {
		return nil, nil, err
	}
	if r.Nodes == 1 && !cmd.Flags().Changed("protect") {
		o.protect = string(nodes.None)
	}
	scheme, err := schemeOf(o.protect, r.Nodes)
	if err != nil {
		return nil, nil, err
	}
	var q ui.Quantities
	n := &interval.Need{Waste: q.Share("--waste", o.waste), Bytes: r.size.Value, Node: r.size.Value * share, MTBF: mtbf, Downtime: q.Duration("--downtime", o.downtime),
		Share: q.Share("--share-local", o.share), Redundancy: redundancyOf(scheme), Slots: nodes.Slots, NodeRate: float64(q.Rate("--node-rate", o.rate))}
	if q.Err == nil && !(n.Share > 0 && n.Share < 1) {
		q.Err = badShare(o.share)
	}
	r.Bytes, r.Low, r.High, r.Node = int64(r.size.Value), int64(r.size.Low), int64(r.size.High), int64(n.Node)
	r.MTBF, r.Down, r.Waste, r.Share, r.Scheme = mtbf.Seconds(), n.Downtime.Seconds(), n.Waste, n.Share, o.protect
	r.Kept, r.Capacity, r.NodeCapacity = o.keep, int64(r.size.Value*float64(o.keep+1)), int64(n.Node*(1+n.Redundancy)*nodes.Slots)
	r.Assumed = append(r.Assumed, "reading is as fast as writing", "a drain does not slow the job down")
	return r, n, q.Err
}

// bytes says what a checkpoint has, and returns the share that the fullest node has of it.
func (o *needOptions) bytes(f *pflag.FlagSet, r *StorageNeed, app string) (share float64, err error) {
	given := 0
	for _, is := range []bool{o.memory != "", o.size != "", app != "" || o.model != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return 0, ui.BadUsage("the size of a checkpoint must be given once", "give the --memory of a node, the --size of a checkpoint, or an APP whose checkpoint is predicted")
	}
	switch predicted := app != "" || o.model != ""; {
	case predicted && o.saved() && changed(f, ofCkpt...) == "":
		if name := changed(f, "aggregators", "buffer"); name != "" {
			return 0, ui.BadUsage("--"+name+" changes how a checkpoint is written, and not its size", "leave it out")
		}
		return o.savedExactly(r, app)
	case predicted:
		return o.predicted(r, app)
	}
	if name := changed(f, "level", "np", "vary", "engine", "codec", "layout", "async", "mpi", "io", "aggregators", "buffer", "law"); name != "" {
		return 0, ui.BadUsage("--"+name+" belongs to an APP whose checkpoint is predicted", "name one, or leave it out")
	}
	var q ui.Quantities
	bytes := float64(q.Size("--size", o.size))
	if o.memory != "" {
		bytes = float64(q.Size("--memory", o.memory)) * float64(r.Nodes)
		r.Assumed = append(r.Assumed, "a checkpoint has all of that memory, and no codec makes it smaller")
	}
	r.size = fit.Exactly(bytes)
	return 1 / float64(r.Nodes), q.Err
}

// predicted predicts the bytes of a whole checkpoint of APP.
func (o *needOptions) predicted(r *StorageNeed, app string) (share float64, err error) {
	m, err := o.load(app)
	if err != nil {
		return 0, err
	}
	own, err := o.own(m)
	if err != nil {
		return 0, err
	}
	if r.Engine = dataset.DMTCP; own {
		r.Engine = dataset.Ckpt
	}
	asked, err := o.requestFor(m, app, r.Engine)
	if err != nil {
		return 0, err
	}
	r.App = asked.App.String()
	c, err := plan.Way{Engine: r.Engine, Storing: o.storing()}.Size(m, asked)
	if err != nil {
		return 0, err
	}
	size, share := c.Whole()
	r.size = size.Scale(mebi)
	return share, nil
}

// savedExactly takes the bytes of a checkpoint at application level.
func (o *needOptions) savedExactly(r *StorageNeed, app string) (share float64, err error) {
	s, err := o.savedSize(app)
	if err != nil {
		return 0, err
	}
	r.App, r.size = s.App, fit.Exactly(float64(s.Total))
	r.Assumed = append(r.Assumed, "each rank writes as much")
	return float64(slices.Max(s.Mapping)) / float64(s.NP), nil
}

func printStorageNeed(g *ui.Globals, r *StorageNeed) error {
	if r.Engine != "" {
		explainEngine(g, r.Engine, "")
	}
	if !g.Quiet {
		g.Printf("%s\n", r.about())
	}
	row := func(name string, n *interval.Needed) []string {
		node, drain := "-", "-"
		if n.NodeRate > 0 {
			node, drain = ui.Rate(n.NodeRate), ui.Seconds(n.Drain)
		}
		return []string{name, ui.Rate(n.StoreRate), ui.Rate(n.StoreRate / float64(r.Nodes)), node, ui.Seconds(n.Checkpoint), drain, spanOf(n.Interval), spanOf(n.Period)}
	}
	rows := [][]string{row("store alone", &r.Alone)}
	if r.First != nil {
		rows = append(rows, row("nodes, then store", r.First))
	}
	if err := g.Table([]string{"checkpoints", "|rate to the store", "~|of each node", "|on each node", "|a checkpoint", "~|drain", "|every", "~|store every"},
		rows); err != nil {
		return err
	}
	text := fmt.Sprintf("the store holds %s, %s\n", scaled(r.Capacity), ui.Count(r.Kept+1, "checkpoint"))
	if r.First != nil {
		text += fmt.Sprintf("for nodes first each node holds %s, two of its checkpoints with their redundancy (%s)\n", scaled(r.NodeCapacity), r.Scheme)
	} else {
		text += "nodes, then store: no store is fast enough behind such nodes\n"
	}
	if r.size.High > r.size.Low {
		text += fmt.Sprintf("the rates follow the size of a checkpoint: in 95 %% they are %s to %s times these\n", decimal(r.size.Low/r.size.Value), decimal(r.size.High/r.size.Value))
	} else {
		whose := "the size is yours"
		if r.App != "" {
			whose = "the size is exact"
		}
		text += "no interval: " + whose + ", and the formulas are exact for exponential failures\n"
	}
	text += r.On.text(r.Waste)
	if g.Quiet {
		return g.Printf("%s", text)
	}
	for _, a := range r.Assumed {
		text += "assumed: " + a + "\n"
	}
	if err := g.Printf("%s", text); err != nil {
		return err
	}
	if err := r.printAround(g, "store alone: rate to the store", func(n *interval.NeedRow) *interval.Needed { return n.Alone }); err != nil {
		return err
	}
	return r.printAround(g, "nodes, then store: rate to the store", func(n *interval.NeedRow) *interval.Needed { return n.First })
}

// text says what a storage gives; nothing without one.
func (n *NeedOn) text(accepted float64) string {
	if n == nil {
		return ""
	}
	verdict := "may be accepted or not"
	if n.WasteHigh <= accepted {
		verdict = "is accepted"
	} else if n.WasteLow > accepted {
		verdict = "is too much"
	}
	text := fmt.Sprintf("on %s a checkpoint takes %s, 95 %% %s to %s, where each node writes one file; the waste of %s, 95 %% %s to %s, %s\n", n.Name,
		ui.Seconds(n.Seconds), ui.Seconds(n.Low), ui.Seconds(n.High), ui.Percent(n.Waste), ui.Percent(n.WasteLow), ui.Percent(n.WasteHigh), verdict)
	for _, line := range n.Lines() {
		text += line[0] + " " + line[1] + "\n"
	}
	return text
}

// about tells what is asked.
func (r *StorageNeed) about() string {
	mtbf := interval.Lasting(r.MTBF)
	return fmt.Sprintf("a checkpoint of %s, %s on each of %s; MTBF %s; %s waste accepted\n", scaled(r.Bytes), scaled(r.Node), ui.Count(r.Nodes, "node"),
		r.failing.about(mtbf, r.Nodes), ui.Percent(r.Waste))
}

// printAround prints the rates for other wastes, below each other, and failure rates.
func (r *StorageNeed) printAround(g *ui.Globals, title string, of func(*interval.NeedRow) *interval.Needed) error {
	header := []string{"|waste"}
	columns := 0
	for columns < len(r.Around) && r.Around[columns].Waste == r.Around[0].Waste {
		header = append(header, "|MTBF "+spanOf(r.Around[columns].MTBF))
		columns++
	}
	var rows [][]string
	for i := 0; i < len(r.Around); i += columns {
		row := []string{ui.Percent(r.Around[i].Waste)}
		for k := range columns {
			cell := "none"
			if n := of(&r.Around[i+k]); n != nil {
				cell = ui.Rate(n.StoreRate)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	g.Printf("\n%s\n", title)
	return g.Table(header, rows)
}
