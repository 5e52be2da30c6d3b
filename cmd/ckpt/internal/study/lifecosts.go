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
	"ckpt/coordinator/tune"
	"ckpt/image/nodes"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/interval"
	"ckpt/predict/life"
	"ckpt/zones"
)

// lifeCosts are the flags that say what checkpoints of a simulated job cost.
type lifeCosts struct {
	np                       int
	nodeBytes                string
	storage                  predictions.StorageOptions
	store, local, network    string
	protect, drain, slowdown string
	restart                  string
	modeNames                []string
	logging, logGrowth       string
	replay                   float64
}

func (o *lifeCosts) addFlags(f *pflag.FlagSet) {
	names := []string{string(job.Coordinated), string(job.Semi), string(job.Uncoordinated)}
	f.StringVar(&o.nodeBytes, "node-bytes", "", "what a node stores in a checkpoint, like 64GiB")
	f.StringVar(&o.store, "store-rate", "", "rate of the store, for all nodes together, like 500GiB/s")
	o.storage.AddFlags(f, "on", "in place of --store-rate, checkpoints and restarts are simulated on this storage")
	f.StringVar(&o.local, "local-rate", "", "checkpoints go to the nodes first, whose storage writes as fast, like 4GiB/s")
	f.StringVar(&o.network, "network-rate", "", "rate of a node's network (default: it delays nothing)")
	f.StringVar(&o.protect, "protect", "none", "with --local-rate: what survives a lost node: none, partner[:K], xor:N or rs:K+M")
	f.StringVar(&o.drain, "drain", nodes.DrainBehind, "with --local-rate: which checkpoints are copied into the store: behind (each), or every=N")
	f.StringVar(&o.slowdown, "drain-slowdown", "0%", "with --local-rate: speed that the job loses while a checkpoint is copied into the store")
	f.StringVar(&o.restart, "restart", "1m", "time to start the ranks again, before they read")
	f.StringSliceVar(&o.modeNames, "mode", names[:1], "modes to compare: "+strings.Join(names, ", "))
	ui.Choices(f, "mode", names...)
	f.IntVar(&o.np, "np", 0, "number of ranks, for --mode uncoordinated and --on (default there one a node)")
	f.StringVar(&o.logging, "logging", "", "speed lost to message logs between groups, like 2%")
	f.StringVar(&o.logGrowth, "log-growth", "0%", "time that logs add to a checkpoint, as a share of the interval")
	f.Float64Var(&o.replay, "replay", 1, "speed of repeated work of groups, whose messages come from logs")
}

// costs are what the flags say, in seconds and bytes per second.
type costs struct {
	modes                   []job.Mode
	nodes, np               int
	bytes                   int64 // of a node
	store, local, network   float64
	scheme                  nodes.Scheme
	drain                   nodes.Drain
	slow, restart           float64
	logging, growth, replay float64
	described               string // what a described storage says, "" without one

	// write is the time to store a checkpoint. The others are the time to read back the memory of
	// all ranks, of a node, of a rank.
	write                       float64
	readAll, readNode, readRank float64
}

// read reads the flags, for a job on so many nodes.
func (o *lifeCosts) read(ctx context.Context, f *pflag.FlagSet, count int) (*costs, error) {
	var q ui.Quantities
	c := &costs{nodes: count, np: o.np, bytes: q.Size("--node-bytes", o.nodeBytes), store: float64(q.Rate("--store-rate", o.store)), local: float64(q.Rate("--local-rate", o.local)),
		network: float64(q.Rate("--network-rate", o.network)), slow: q.Share("--drain-slowdown", o.slowdown), restart: q.Duration("--restart", o.restart).Seconds(),
		growth: q.Share("--log-growth", o.logGrowth), replay: o.replay}
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
	case c.bytes == 0:
		return nil, ui.Missing("--node-bytes", "64GiB")
	case c.store != 0 && o.storage.On != "":
		return nil, ui.BadUsage("--store-rate and --on both say how fast the store is", "leave one of them out")
	case c.store == 0 && o.storage.On == "":
		return nil, ui.Missing("--store-rate", "500GiB/s")
	}
	if err := o.check(f, c); err != nil {
		return nil, err
	}
	background, err := o.storage.Background()
	if err != nil {
		return nil, err
	}
	if o.storage.On == "" {
		c.byRate()
		return c, nil
	}
	sys, err := o.storage.Load()
	if err != nil {
		return nil, err
	}
	return c, c.on(ctx, sys, background)
}

// byRate takes the times of the store from its rate, and from the network of the nodes.
func (c *costs) byRate() {
	node := float64(c.bytes)
	seconds := func(bytes float64, nodes int) float64 {
		rate := c.store
		if c.network > 0 {
			rate = min(rate, float64(nodes)*c.network)
		}
		return bytes / rate
	}
	c.write = seconds(node*float64(c.nodes), c.nodes)
	c.readAll, c.readNode, c.readRank = c.write, seconds(node, 1), seconds(node/c.ranksOfNode(), 1)
}

func (c *costs) ranksOfNode() float64 { return max(1, float64(c.np)/float64(c.nodes)) }

// on takes the times of the store from a simulation of what all nodes write, and of what all
// read, a node, and a rank.
func (c *costs) on(ctx context.Context, sys *pfs.System, background float64) error {
	mapping, err := job.EvenMapping(max(c.np, c.nodes), c.nodes)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		mapping job.Mapping
		write   *float64
		read    *float64
	}{{mapping, &c.write, &c.readAll}, {mapping[:1], nil, &c.readNode}, {job.Mapping{1}, nil, &c.readRank}} {
		bytes := zones.PageRound(int64(float64(c.bytes) / c.ranksOfNode()))
		of := tune.Case{Mapping: x.mapping, Settings: plan.Defaults(), Codec: "none", Background: background, Memory: &tune.PlannedMemory{Regions: []string{"data"}}}
		for node, n := range x.mapping {
			for range n {
				of.Memory.Sources = append(of.Memory.Sources, plan.Source{Rank: len(of.Memory.Sources), Node: node, Pieces: []plan.Piece{{Bytes: bytes, Align: true}}})
			}
		}
		forecast, err := tune.Predict(ctx, sys, of)
		if err != nil {
			return err
		}
		restarts, err := tune.Restarts(ctx, sys, of, &forecast)
		if err != nil {
			return err
		}
		*x.read = restarts[0].Seconds.Value
		if x.write != nil {
			*x.write = forecast.Latency.Value
			between := func(s tune.Seconds) string { return ui.Between(s.Low, s.High, ui.Seconds) }
			c.described = fmt.Sprintf("%s stores a checkpoint in %s (%s), and reads it in %s (%s)", sys.Name, ui.Seconds(forecast.Latency.Value), between(forecast.Latency),
				ui.Seconds(*x.read), between(restarts[0].Seconds))
		}
	}
	return nil
}

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
	for _, m := range c.modes {
		if m != job.Coordinated && m != job.Semi && m != job.Uncoordinated {
			return ui.BadUsage(fmt.Sprintf("--mode %q is unknown", m), "choose coordinated, uncoordinated or semi")
		}
	}
	if err := c.scheme.Check(c.nodes); err != nil {
		return ui.BadUsage(fmt.Sprintf("--protect %s: %v", o.protect, err), fmt.Sprintf("run on more nodes, like --nodes %d", c.scheme.Nodes()))
	}
	switch uncoordinated := slices.Contains(c.modes, job.Uncoordinated); {
	case uncoordinated && c.np == 0:
		return ui.Missing("--np", "65536")
	case !uncoordinated && f.Changed("np") && o.storage.On == "":
		return ui.BadUsage("--np: ranks matter for --mode uncoordinated and --on only", "leave it out")
	case f.Changed("np") && c.np < c.nodes:
		return ui.BadUsage(fmt.Sprintf("--np %d: each of %d nodes has a rank", c.np, c.nodes), "give more ranks, or fewer nodes")
	case groups && o.logging == "":
		return ui.Missing("--logging", "2%")
	case !(c.replay >= 1 && c.replay <= 100):
		return ui.BadUsage(fmt.Sprintf("--replay %g: want 1 to 100", c.replay), "1 is the speed of the first time")
	}
	return nil
}

// job is the job in a mode. All groups store at the same time, and the job stands still meanwhile.
func (c *costs) job(mode job.Mode) life.Job {
	node := float64(c.bytes)
	j := life.Job{Nodes: c.nodes}
	died, lost := c.readAll, c.readAll // after the death of a process, and after the loss of a node
	part := node                       // of a node, that is read from its own storage
	if mode != job.Coordinated {
		j.Slowdown, j.Growth, j.Replay = c.logging, c.growth, c.replay
		died, lost = c.readNode, c.readNode
	}
	if mode == job.Uncoordinated {
		died = min(c.readRank, lost)
		part /= c.ranksOfNode()
	}
	store := life.Level{Name: "store", Cost: c.write, Restart: c.restart + died, Rebuild: lost - died, Share: 1}
	if c.local == 0 {
		j.Levels = []life.Level{store}
		return j
	}
	extra := float64(c.scheme.Strength()) / float64(max(1, c.scheme.Nodes()-c.scheme.Strength()))
	local := life.Level{Name: "nodes", OnNodes: true, Strength: c.scheme.Strength(), Cost: node * (1 + extra) / c.local, Restart: c.restart + part/c.local}
	again := node / c.local // what a lost node had
	if c.network > 0 {
		local.Cost, again = max(local.Cost, node*extra/c.network), max(again, node/c.network)
	}
	local.Rebuild, local.Restored = again, again
	store.Drain, store.Slow, store.Cost, store.Every = c.write, c.slow, 0, max(1, c.drain.Every)
	j.Levels = []life.Level{local, store}
	return j
}

// best is the best interval of a closed form, for the first level alone, or for both levels where
// some failures destroy what the nodes have.
func (c *costs) best(j *life.Job, mtbf, loss float64) (float64, error) {
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
	list = append(list, "all parts of the job wait for each other: a pause of one is a pause of all")
	if c.described != "" {
		list = append(list, c.described)
	} else {
		list = append(list, "reading is as fast as writing")
	}
	if c.network == 0 {
		list = append(list, "the network of a node delays nothing")
	}
	if c.local > 0 && c.slow == 0 {
		list = append(list, "a drain does not slow the job down")
	}
	return list
}
