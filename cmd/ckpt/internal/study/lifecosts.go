package study

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image/nodes"
	"ckpt/image/pfs"
	"ckpt/interval"
	"ckpt/predict/life"
)

// lifeCosts are the flags that say what checkpoints of a simulated job cost.
type lifeCosts struct {
	np, ppn                  int
	size                     nodeSize
	storage                  ui.StorageOptions
	store, local, network    string
	protect, drain, slowdown string
	restart                  string
	modeNames                []string
	logNames                 []string
	logging, logGrowth       string
	replay                   float64
	staggers                 []string
	slack, coordination      string
	groupNodes               int
	with                     []string
	room                     lifeCapacity
}

func (o *lifeCosts) addFlags(f *pflag.FlagSet) {
	names := []string{string(job.Coordinated), string(job.Semi), string(job.Uncoordinated)}
	o.size.addFlags(f)
	f.StringVar(&o.store, "store-rate", "", "rate of the store, for all nodes together, like 500GiB/s")
	o.storage.AddFlags(f, "on", "in place of --store-rate, checkpoints and restarts are simulated on this storage")
	f.StringArrayVar(&o.with, "with", nil, "another job in the same store, as a YAML file with nodes, node-bytes and interval; may be repeated")
	f.StringVar(&o.local, "local-rate", "", "checkpoints go to the nodes first, whose storage writes as fast, like 4GiB/s")
	f.StringVar(&o.network, "network-rate", "", "rate of a node's network (default: it delays nothing)")
	f.StringVar(&o.protect, "protect", "none", "with --local-rate: what survives a lost node: none, partner[:K], xor:N or rs:K+M")
	f.StringVar(&o.drain, "drain", nodes.DrainBehind, "with --local-rate: which checkpoints are copied into the store: behind (each), or every=N")
	f.StringVar(&o.slowdown, "drain-slowdown", "0%", "with --local-rate: speed that the job loses while a checkpoint is copied into the store")
	f.StringVar(&o.restart, "restart", "1m", "time to start the ranks again, before they read")
	f.StringSliceVar(&o.modeNames, "mode", names[:1], "modes to compare: "+strings.Join(names, ", "))
	ui.Choices(f, "mode", names...)
	f.IntVar(&o.np, "np", 0, "number of ranks, for --mode uncoordinated, --on (default there one a node) and APP")
	f.StringSliceVar(&o.staggers, "stagger", []string{"none", "spread"}, "checkpoints of groups: none (all at the same time) or spread (one after the other); several are compared")
	ui.Choices(f, "stagger", "none", "spread")
	f.StringVar(&o.slack, "slack", "0s", "how far a group gets while another one stands still, like 20s: the iterations until messages are missing")
	f.IntVar(&o.groupNodes, "group-nodes", 1, "nodes of a group in mode semi")
	f.StringVar(&o.coordination, "coordination", "0s", "time that a rank adds to the agreement of its group on a checkpoint, like 100us")
	f.IntVar(&o.ppn, "ppn", 0, "ranks of a node, in place of --np")
	f.StringSliceVar(&o.logNames, "log", []string{"kept"}, "message logs of groups: kept, or none, without which all groups go back together; several are compared")
	ui.Choices(f, "log", "kept", "none")
	f.StringVar(&o.logging, "logging", "", "speed lost to message logs between groups, like 2%")
	f.StringVar(&o.logGrowth, "log-growth", "0%", "time that logs add to a checkpoint of all groups, as a share of the interval")
	o.room.addFlags(f)
	f.Float64Var(&o.replay, "replay", 1, "speed of repeated work of groups, whose messages come from logs")
}

// costs are what the flags say, in seconds and bytes per second.
type costs struct {
	modes                   []job.Mode
	nodes, np               int
	bytes                   int64 // of a node
	store, local, network   float64
	scheme                  nodes.Scheme
	survives                int // losses of a node at a time, or of a failure domain
	drain                   nodes.Drain
	slow, restart           float64
	logging, growth, replay float64
	staggers                []supervisor.Stagger
	bare                    []bool  // whether groups keep no logs
	slack, coordination     float64 // coordination is a rank's, by the flag
	agreed                  float64 // of all ranks, predicted
	slackGiven              bool
	groupNodes, keep        int
	described               []string // what a described storage says
	predicted               []string // what a node stores, if that is predicted
	parts                   *parts
	with                    []besideJob
	beside                  func(nodes int) *life.Beside // nil without
	neighbours              []string                     // what the jobs beside do
}

// read reads the flags, for a job on so many nodes.
func (o *lifeCosts) read(ctx context.Context, f *pflag.FlagSet, count int) (*costs, error) {
	var q ui.Quantities
	c := &costs{nodes: count, np: o.np, store: float64(q.Rate("--store-rate", o.store)), local: float64(q.Rate("--local-rate", o.local)),
		network: float64(q.Rate("--network-rate", o.network)), slow: q.Share("--drain-slowdown", o.slowdown), restart: q.Duration("--restart", o.restart).Seconds(),
		growth: q.Share("--log-growth", o.logGrowth), replay: o.replay, slack: q.Duration("--slack", o.slack).Seconds(), slackGiven: f.Changed("slack"), coordination: q.Duration("--coordination", o.coordination).Seconds(), groupNodes: o.groupNodes}
	if o.ppn > 0 {
		c.np = o.ppn * count
	}
	if o.logging != "" {
		c.logging = q.Share("--logging", o.logging)
	}
	var err error
	if c.scheme, err = nodes.Parse(o.protect); err != nil {
		return nil, ui.BadUsage("--protect "+o.protect+": want none, partner, partner:K, xor:N or rs:K+M", "--protect partner keeps a copy on another node")
	}
	if c.drain, err = nodes.ParseDrain(o.drain); err != nil || c.drain.Mode == nodes.DrainNone {
		return nil, ui.BadUsage("--drain "+o.drain+": want behind or every=N", "checkpoints have to reach the store at times, as nodes do not survive all failures")
	}
	for _, name := range o.modeNames {
		c.modes = append(c.modes, job.Mode(name))
	}
	switch {
	case q.Err != nil:
		return nil, q.Err
	case c.store != 0 && o.storage.On != "":
		return nil, ui.BadUsage("--store-rate and --on both say how fast the store is", "leave one of them out")
	case c.store == 0 && o.storage.On == "":
		return nil, ui.Missing("--store-rate", "500GiB/s")
	}
	if err := o.size.read(c); err != nil {
		return nil, predictions.InputErrors(err)
	}
	if err := o.check(f, c); err != nil {
		return nil, err
	}
	if err := o.room.check(f, c); err != nil {
		return nil, err
	}
	background, err := o.storage.Background()
	if err != nil {
		return nil, err
	}
	c.parts = c.divide()
	if o.storage.On == "" {
		for _, p := range c.parts.all() {
			c.byRate(p)
		}
		return c, o.readWith(ctx, c, nil, 0)
	}
	sys, err := o.storage.Load()
	if err != nil {
		return nil, err
	}
	if c.coordination > 0 && sys.Service.Coordination != (pfs.Cost{}) {
		return nil, ui.BadUsage("--coordination and --on both say how long ranks take to agree", "leave one of them out")
	}
	for _, p := range c.parts.all() {
		if err := c.on(ctx, sys, background, p); err != nil {
			return nil, err
		}
	}
	return c, o.readWith(ctx, c, sys, background)
}

func (c *costs) ranksOfNode() float64 { return max(1, float64(c.np)/float64(c.nodes)) }

// check refuses flags that would change nothing.
func (o *lifeCosts) check(f *pflag.FlagSet, c *costs) error {
	groups := slices.ContainsFunc(c.modes, func(m job.Mode) bool { return m != job.Coordinated })
	for _, name := range []string{"protect", "drain", "drain-slowdown"} {
		if c.local == 0 && f.Changed(name) {
			return ui.BadUsage("--"+name+" belongs to checkpoints on the nodes", "add the rate of their storage, like --local-rate 4GiB/s")
		}
	}
	for _, name := range []string{"logging", "log-growth", "replay"} {
		if !groups && f.Changed(name) {
			return ui.BadUsage("--"+name+": coordinated checkpoints need no message logs", "leave it out, or add --mode semi or --mode uncoordinated")
		}
	}
	for _, name := range o.logNames {
		if name != "kept" && name != "none" {
			return ui.BadUsage(fmt.Sprintf("--log %q: want kept or none", name), "--logging says what kept logs cost")
		}
		if bare := name == "none"; !slices.Contains(c.bare, bare) {
			c.bare = append(c.bare, bare)
		}
	}
	kept := slices.Contains(c.bare, false)
	for _, name := range []string{"logging", "log-growth", "replay"} {
		if groups && !kept && f.Changed(name) {
			return ui.BadUsage("--"+name+": groups keep no message logs", "leave it out, or add --log kept")
		}
	}
	for _, name := range []string{"stagger", "slack", "log"} {
		if !groups && f.Changed(name) {
			return ui.BadUsage("--"+name+" is of groups of ranks, and coordinated checkpoints have one", "leave it out, or add --mode semi or --mode uncoordinated")
		}
	}
	for _, name := range o.staggers {
		s, err := supervisor.ParseStagger(name)
		if err != nil || s == supervisor.Random {
			return ui.BadUsage(fmt.Sprintf("--stagger %q: want none or spread", name), "both are compared without it")
		}
		c.staggers = append(c.staggers, s)
	}
	for _, m := range c.modes {
		if m != job.Coordinated && m != job.Semi && m != job.Uncoordinated {
			return ui.BadUsage(fmt.Sprintf("--mode %q is unknown", m), "choose coordinated, uncoordinated or semi")
		}
	}
	if err := c.scheme.Check(c.nodes); err != nil {
		return ui.BadUsage(fmt.Sprintf("--protect %s: %v", o.protect, err), fmt.Sprintf("run on more nodes, like --nodes %d", c.scheme.Nodes()))
	}
	switch uncoordinated := slices.Contains(c.modes, job.Uncoordinated); {
	case o.np > 0 && o.ppn > 0:
		return ui.BadUsage("--np and --ppn both say how many ranks there are", "leave one of them out")
	case f.Changed("network-rate") && o.storage.On != "" && c.local == 0:
		return ui.BadUsage("--network-rate and --on both say how fast a node's network is", "leave one of them out")
	case f.Changed("group-nodes") && !slices.Contains(c.modes, job.Semi):
		return ui.BadUsage("--group-nodes is of --mode semi", "leave it out, or add that mode")
	case c.groupNodes < 1 || c.nodes%c.groupNodes != 0:
		return ui.BadUsage(fmt.Sprintf("--group-nodes %d: does not divide %d nodes", c.groupNodes, c.nodes), "give a divisor")
	case c.coordination > 0 && c.np == 0:
		return ui.Missing("--np", "65536")
	case uncoordinated && c.np == 0:
		return ui.Missing("--np", "65536")
	case !uncoordinated && (o.np > 0 || o.ppn > 0) && o.storage.On == "" && c.coordination == 0 && !o.size.predicted():
		return ui.BadUsage("--np: ranks matter for --mode uncoordinated, --coordination, --on and APP only", "leave it out")
	case f.Changed("np") && c.np < c.nodes:
		return ui.BadUsage(fmt.Sprintf("--np %d: each of %d nodes has a rank", c.np, c.nodes), "give more ranks, or fewer nodes")
	case groups && kept && o.logging == "":
		return ui.Missing("--logging", "2%")
	case c.restart < 0 || c.slack < 0 || c.coordination < 0:
		return ui.BadUsage("--restart, --slack and --coordination: want times from 0", "write --restart 1m")
	case !(c.replay >= 1 && c.replay <= 100):
		return ui.BadUsage(fmt.Sprintf("--replay %g: want 1 to 100", c.replay), "1 is the speed of the first time")
	}
	return nil
}

// within refuses a protection that does not survive the loss of a failure domain, of so many.
func (c *costs) within(domains int) error {
	c.survives = c.scheme.Strength()
	if domains == 0 || c.scheme.Kind() == nodes.None {
		return nil
	}
	var t nodes.Topology
	for n := range c.nodes {
		t.NodeOf, t.Domains = append(t.NodeOf, n), append(t.Domains, life.Domain(n, c.nodes, domains))
	}
	if err := c.scheme.Fits(t); err != nil {
		return ui.BadUsage(fmt.Sprintf("--protect with --domains %d: %v", domains, err), "give more domains, or another protection")
	}
	c.survives = c.scheme.Survives(t)
	return nil
}

// job is the job in a mode.
func (c *costs) job(w way) life.Job {
	mode, stagger := w.mode, w.stagger
	p, node := c.parts.mode[mode], &c.parts.node
	j := life.Job{Nodes: c.nodes}
	store := life.Level{Name: "store", Cost: p.agree + p.write, Agree: p.agree, Restart: c.restart + p.read, Share: 1}
	if mode != job.Coordinated {
		j.Slowdown, j.Growth, j.Replay = c.logging, c.growth, c.replay
		if j.Bare = w.bare; j.Bare {
			j.Slowdown, j.Growth, j.Replay = 0, 0, 0
		}
		j.Groups, j.Spread, j.Slack, j.Stretch = p.count, stagger == supervisor.Spread, c.slack, p.stretch
		store.Read = p.read
	}
	if mode == job.Uncoordinated { // the ranks of a node share its network
		store.ReadLost = max(p.read, node.read/p.stretch(node.ranks))
		store.Rebuild = store.ReadLost - p.read
	}
	j.Levels = []life.Level{store}
	if j.Beside = c.besideOf(&j, p); j.Beside != nil {
		j.Levels[0].Read = p.read
	}
	if c.local == 0 {
		return j
	}
	store = j.Levels[0]
	own := float64(c.bytes) // what a node writes and reads at a time
	if mode == job.Uncoordinated && stagger == supervisor.Spread {
		own /= c.ranksOfNode()
		j.Growth /= c.ranksOfNode()
	}
	extra := c.protection()
	local := life.Level{Name: "nodes", OnNodes: true, Strength: c.survives, Cost: own * (1 + extra) / c.local, Restart: c.restart + min(own, float64(p.bytes))/c.local}
	again := float64(c.bytes) / c.local // what a lost node had
	if c.network > 0 {
		local.Cost, again = max(local.Cost, own*extra/c.network), max(again, float64(c.bytes)/c.network)
	}
	local.Cost += p.agree
	local.Agree, local.Rebuild, local.Restored = p.agree, again, again
	store.Drain, store.Slow, store.Cost, store.Agree, store.Every = p.write*p.stretch(p.count), c.slow, 0, 0, max(1, c.drain.Every)
	j.Levels = []life.Level{local, store}
	return j
}

// best is the best interval of a closed form, for the first level alone, or for both levels where
// some failures destroy what the nodes have. Below it checkpoints must not wait for a drain.
func (c *costs) best(j *life.Job, mtbf, loss float64) (float64, error) {
	if j.Groups > 1 {
		return j.Promising(mtbf), nil
	}
	best, err := c.closed(j, mtbf, loss)
	last := j.Levels[len(j.Levels)-1]
	return max(best, last.Drain/float64(max(1, last.Every))-j.Levels[0].Cost), err
}

func (c *costs) closed(j *life.Job, mtbf, loss float64) (float64, error) {
	l := j.Levels
	m := interval.Model{Cost: interval.Lasting(l[0].Cost), MTBF: interval.Lasting(mtbf), Restart: interval.Lasting(min(l[0].Restart, mtbf))}
	if len(l) == 1 || l[0].Strength > 0 || loss == 0 {
		o, err := m.Optimum()
		return o.Exact.Seconds(), err
	}
	h := interval.Hierarchy{MTBF: m.MTBF, Slots: nodes.Slots, Levels: []interval.StorageLevel{
		{Name: "nodes", Cost: m.Cost, Restart: m.Restart, Share: min(max(1-loss, 1e-3), 1-1e-3)},
		{Name: "store", Cost: interval.Lasting(l[1].Drain * l[1].Slow), Restart: interval.Lasting(min(l[1].Restart, mtbf)), Drain: interval.Lasting(l[1].Drain), Share: 1}}}
	p, err := h.Best(interval.Pattern{Every: []int{l[1].Every}})
	return p.Interval.Seconds(), err
}

// assumed is what the costs take for granted.
func (c *costs) assumed() (list []string) {
	list = slices.Clone(c.predicted)
	if slices.ContainsFunc(c.modes, func(m job.Mode) bool { return m != job.Coordinated }) {
		list = append(list, "groups wait for messages of a group that stands still once they are --slack further")
		if !c.slackGiven {
			list = append(list, "--slack is "+ui.Seconds(c.slack))
		}
	}
	if slices.Contains(c.bare, true) {
		list = append(list, "without logs groups that store apart have no recovery line but the beginning")
	}
	if list = append(list, c.described...); len(c.described) == 0 {
		list = append(list, "reading is as fast as writing")
	}
	if list = append(list, c.neighbours...); c.network == 0 && (len(c.described) == 0 || c.local > 0) {
		list = append(list, "the network of a node delays nothing")
	}
	if c.local > 0 && c.slow == 0 {
		list = append(list, "a drain does not slow the job down")
	}
	return list
}
