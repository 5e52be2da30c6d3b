package predictions

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/nodes"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/modes"
	"ckpt/predict/plan"
)

// tierOptions are the flags of ckpt predict plan for checkpoints on the nodes.
type tierOptions struct {
	local, store, network, share, protect, slowdown string
}

func (o *tierOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.local, "local-rate", "", "with --mtbf: compare checkpoints on the nodes, whose storage writes as fast, with a plain store, like 2GiB/s")
	f.StringVar(&o.store, "store-rate", "", "rate of the store, for all nodes together, like 200MiB/s")
	f.StringVar(&o.network, "network-rate", "", "rate between nodes, of one of them (default: it delays nothing)")
	f.StringVar(&o.share, "share-local", "", "share of the failures that checkpoints on the nodes survive, like 85%")
	f.StringVar(&o.protect, "protect", "none", "what survives a lost node: none, partner[:K], xor:N or rs:K+M")
	f.StringVar(&o.slowdown, "drain-slowdown", "0%", "speed that the job loses while a checkpoint is copied into the store")
}

func (o *tierOptions) given() bool { return o.local != "" }

// tierFlagsUnused refuses flags that only checkpoints on the nodes need.
func tierFlagsUnused(f *pflag.FlagSet) error {
	for _, name := range []string{"store-rate", "network-rate", "share-local", "protect", "drain-slowdown"} {
		if f.Changed(name) {
			return ui.BadUsage("--"+name+" belongs to checkpoints on the nodes", "add the rate of their storage, like --local-rate 2GiB/s")
		}
	}
	return nil
}

// planning reads the flags, beside those of a comparison of modes.
func (o *tierOptions) planning(f *pflag.FlagSet, mp *plan.ModePlanning) (p plan.TierPlanning, share float64, err error) {
	for _, name := range []string{"mode", "log", "group-size", "stagger", "interval", "overhead"} {
		if f.Changed(name) {
			return p, 0, ui.BadUsage("--"+name+" and --local-rate exclude each other: checkpoints on the nodes are coordinated", "leave one of the two out")
		}
	}
	switch {
	case o.store == "":
		return p, 0, ui.Missing("--store-rate", "200MiB/s")
	case o.share == "":
		return p, 0, ui.Missing("--share-local", "85%")
	}
	scheme, err := nodes.Parse(o.protect)
	if err != nil {
		return p, 0, ui.BadUsage("--protect "+o.protect+": want none, partner, partner:K, xor:N or rs:K+M", "--protect partner keeps a copy on another node")
	}
	if err := scheme.Check(len(mp.Mapping)); err != nil {
		return p, 0, ui.BadUsage(fmt.Sprintf("--protect %s: %v", o.protect, err), fmt.Sprintf("spread the ranks over more nodes, like --nodes %d", scheme.Nodes()))
	}
	var q ui.Quantities
	p = plan.TierPlanning{Request: mp.Request, Codec: mp.Codec, Engine: mp.Engine, Storing: mp.Storing,
		LocalMiBPerS: float64(q.Rate("--local-rate", o.local)) / mebi, StoreMiBPerS: float64(q.Rate("--store-rate", o.store)) / mebi,
		NetworkMiBPerS: float64(q.Rate("--network-rate", o.network)) / mebi, Slowdown: q.Share("--drain-slowdown", o.slowdown),
		Redundancy: float64(scheme.Strength()) / float64(scheme.Nodes()-scheme.Strength())}
	share = q.Share("--share-local", o.share)
	if q.Err == nil && !(share > 0 && share < 1) {
		return p, 0, ui.BadUsage("--share-local "+o.share+": must be over 0 and below 1", "give the share of the failures that checkpoints on the nodes survive, like 85%")
	}
	return p, share, q.Err
}

// tierPlan is a comparison of checkpoints on the nodes with a plain store, as --json
// prints it.
type tierPlan struct {
	App     string         `json:"app"`
	Mapping []int          `json:"mapping"`
	MTBF    float64        `json:"mtbf_s"`
	AppS    float64        `json:"app_s"`
	Protect string         `json:"protection"`
	All     int64          `json:"checkpoint_image_bytes"`
	Node    int64          `json:"node_image_bytes"`
	Extra   int64          `json:"node_redundancy_bytes"`
	Levels  []storageLevel `json:"storage_level_list"`
	Options []tierOption   `json:"tier_option_list"`
	Assumed []string       `json:"assumption_list"`
	Flags   []string       `json:"launch_flags"` // of the best option; none for a plain store

	costs *plan.TierCosts
}

// tierOption is one way to store, with its best pattern.
type tierOption struct {
	Name     string         `json:"name"`
	Interval float64        `json:"interval_s"`
	Levels   []patternLevel `json:"pattern_level_list"`
	Waste    float64        `json:"waste"`
	Total    *float64       `json:"expected_total_s"` // null if the run never ends
	Low      *float64       `json:"expected_low_s"`
	High     *float64       `json:"expected_high_s"`
	Best     bool           `json:"best"`
}

func runPlanTier(cmd *cobra.Command, g *ui.Globals, o *planOptions, m *predict.Model, p *plan.Planning) error {
	mp, err := o.modeOptions.planning(cmd, p)
	if err != nil {
		return err
	}
	if mp.Engine, mp.Storing = p.Engine, p.Storing; cmd.Flags().Changed("codec") {
		mp.Storing.Codec = mp.Codec
	}
	tp, share, err := o.tierOptions.planning(cmd.Flags(), &mp)
	if err != nil {
		return err
	}
	costs, err := plan.Tier(m, tp)
	if err != nil {
		return err
	}
	r, err := planTier(costs, mp.MTBFS, mp.AppS, share)
	if err != nil {
		return rangeIsUsage(err)
	}
	r.App, r.Protect, r.Flags = mp.App.String(), o.protect, []string{}
	if best := &r.Options[0]; best.Best {
		r.Flags = append([]string{"--local", "/nvme/{node}", "--protect", o.protect}, launchFlags(best.Levels)...)
	}
	r.All, r.Node, r.Extra = bytesOf(costs.AllMiB.Value), bytesOf(costs.NodeMiB.Value), bytesOf(costs.NodeMiB.Value*tp.Redundancy)
	return g.Show(r, func() error { return printTier(g, r) })
}

// planTier finds the best pattern over the nodes and the store, and the best interval
// of a plain store.
func planTier(c *plan.TierCosts, mtbf, app, share float64) (*tierPlan, error) {
	r := &tierPlan{Mapping: c.Mapping, MTBF: mtbf, AppS: app, Assumed: append([]string{}, c.Assumed...), costs: c}
	both := func(end func(modes.Range) float64) *interval.Hierarchy {
		return &interval.Hierarchy{MTBF: durationOf(mtbf), Slots: nodes.Slots, Levels: []interval.StorageLevel{
			{Name: "local", Cost: durationOf(end(c.LocalS)), Restart: durationOf(end(c.LocalRestartS)), Share: share},
			{Name: "store", Cost: durationOf(end(c.DrainCostS)), Restart: durationOf(end(c.StoreRestartS)), Drain: durationOf(end(c.DrainS)), Share: 1},
		}}
	}
	plain := func(end func(modes.Range) float64) *interval.Hierarchy {
		return &interval.Hierarchy{MTBF: durationOf(mtbf), Levels: []interval.StorageLevel{
			{Name: "store", Cost: durationOf(end(c.StoreS)), Restart: durationOf(end(c.StoreRestartS)), Share: 1},
		}}
	}
	for _, l := range both(middle).Levels {
		r.Levels = append(r.Levels, storageLevel{l.Name, l.Cost.Seconds(), l.Restart.Seconds(), l.Share, l.Drain.Seconds()})
	}
	for _, way := range []struct {
		name string
		of   func(end func(modes.Range) float64) *interval.Hierarchy
	}{{"nodes, then store", both}, {"plain store", plain}} {
		option, err := newTierOption(way.name, app, way.of)
		if err != nil {
			return nil, err
		}
		r.Options = append(r.Options, *option)
	}
	best := &r.Options[0]
	if total := r.Options[1].Total; best.Total == nil || total != nil && *total < *best.Total {
		best = &r.Options[1]
	}
	best.Best = best.Total != nil
	return r, nil
}

func middle(r modes.Range) float64  { return r.Value }
func lowEnd(r modes.Range) float64  { return r.Low }
func highEnd(r modes.Range) float64 { return r.High }

// newTierOption finds the best pattern of a way, and what the run takes with the ends of
// all ranges. A job that makes no progress is a result here.
func newTierOption(name string, app float64, of func(end func(modes.Range) float64) *interval.Hierarchy) (*tierOption, error) {
	out := &tierOption{Name: name, Waste: 1, Levels: []patternLevel{}}
	for _, end := range []struct {
		of func(modes.Range) float64
		to **float64
	}{{middle, &out.Total}, {lowEnd, &out.Low}, {highEnd, &out.High}} {
		h := of(end.of)
		p, err := h.Best(interval.Pattern{})
		r := &levelsResult{work: durationOf(app)}
		if err == nil {
			err = r.add(name, h, p)
		}
		if outOfRange(err) != nil {
			return nil, err
		}
		if err != nil {
			continue
		}
		row := &r.Patterns[0]
		*end.to = &row.Total
		if end.to == &out.Total {
			out.Interval, out.Levels, out.Waste = row.Interval, row.Levels, row.Waste
		}
	}
	return out, nil
}

func printTier(g *ui.Globals, r *tierPlan) error {
	if !g.Quiet {
		extra := ""
		if r.Extra > 0 {
			extra = fmt.Sprintf(", and %s of redundancy (%s)", ui.MiB(r.Extra)+" MiB", r.Protect)
		}
		g.Printf("%s on nodes %s, work %s, a failure every %s\na checkpoint has %s, a node up to %s%s\n", r.App, ranksOfNodes(r.Mapping), spanOf(r.AppS), spanOf(r.MTBF),
			ui.MiB(r.All)+" MiB", ui.MiB(r.Node)+" MiB", extra)
		g.Printf("on the nodes %s, restart %s, survives %s of the failures\ndrain %s, restart %s; plain store %s\n\n", ui.Seconds(r.costs.LocalS.Value),
			ui.Seconds(r.costs.LocalRestartS.Value), ui.Percent(r.Levels[0].Share), ui.Seconds(r.costs.DrainS.Value), ui.Seconds(r.costs.StoreRestartS.Value),
			ui.Seconds(r.costs.StoreS.Value))
	}
	var rows [][]string
	for _, o := range r.Options {
		total := neverOf(o.Total, short)
		if o.Best {
			total += " *"
		}
		local, store := "-", "-"
		for _, l := range o.Levels {
			if l.Name == "local" {
				local = short(l.Period)
			} else {
				store = short(l.Period)
			}
		}
		rows = append(rows, []string{o.Name, local, store, ui.Percent(o.Waste), total})
	}
	if err := g.Table([]string{"checkpoints", "|local every s", "|store every s", "|waste", "|total s"}, rows); err != nil || g.Quiet {
		return err
	}
	return g.Printf("\n%s", explainTier(r))
}

// explainTier says how sure the comparison is, and what it assumes.
func explainTier(r *tierPlan) string {
	var text strings.Builder
	ended := false
	for i := range r.Options {
		if o, other := &r.Options[i], &r.Options[1-i]; o.Best {
			ended = true
			fmt.Fprintf(&text, "* %s ends after %s, between %s and %s\n", o.Name, spanOf(*o.Total), neverOf(o.Low, spanOf), neverOf(o.High, spanOf))
			if other.Low != nil && o.High != nil && *other.Low < *o.High {
				fmt.Fprintf(&text, "  %s may be as fast: the ranges overlap\n", other.Name)
			}
		}
	}
	if !ended {
		text.WriteString("the job is not expected to end: failures come faster than checkpoints\n")
	}
	if len(r.Flags) > 0 {
		text.WriteString("as flags of ckpt launch: " + strings.Join(r.Flags, " ") + "\n")
	}
	for _, a := range r.Assumed {
		text.WriteString("assumed: " + a + "\n")
	}
	return text.String()
}

func neverOf(v *float64, format func(float64) string) string {
	if v == nil {
		return "never"
	}
	return never(*v, format)
}
