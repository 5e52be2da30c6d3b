package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image/nodes"
	"ckpt/interval"
	"ckpt/predict/life"
)

// lifeCosts are the flags that say what checkpoints of a simulated job cost.
type lifeCosts struct {
	np                       int
	nodeBytes                string
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
	f.StringVar(&o.local, "local-rate", "", "checkpoints go to the nodes first, whose storage writes as fast, like 4GiB/s")
	f.StringVar(&o.network, "network-rate", "", "rate of a node's network (default: it delays nothing)")
	f.StringVar(&o.protect, "protect", "none", "with --local-rate: what survives a lost node: none, partner[:K], xor:N or rs:K+M")
	f.StringVar(&o.drain, "drain", nodes.DrainBehind, "with --local-rate: which checkpoints are copied into the store: behind (each), or every=N")
	f.StringVar(&o.slowdown, "drain-slowdown", "0%", "with --local-rate: speed that the job loses while a checkpoint is copied into the store")
	f.StringVar(&o.restart, "restart", "1m", "time to start the ranks again, before they read")
	f.StringSliceVar(&o.modeNames, "mode", names[:1], "modes to compare: "+strings.Join(names, ", "))
	ui.Choices(f, "mode", names...)
	f.IntVar(&o.np, "np", 0, "number of ranks, for --mode uncoordinated")
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
}

// read reads the flags, for a job on so many nodes.
func (o *lifeCosts) read(f *pflag.FlagSet, count int) (*costs, error) {
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
	case c.store == 0:
		return nil, ui.Missing("--store-rate", "500GiB/s")
	}
	return c, o.check(f, c)
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
	case !uncoordinated && f.Changed("np"):
		return ui.BadUsage("--np: ranks matter for --mode uncoordinated only", "leave it out")
	case uncoordinated && c.np < c.nodes:
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
	all := node * float64(c.nodes)
	j := life.Job{Nodes: c.nodes}
	// A restart reads so much after the death of a process, and after the loss of a node, on so
	// many nodes.
	died, lost, readers := all, all, float64(c.nodes)
	part := node // of a node, that is read from its own storage
	if mode != job.Coordinated {
		j.Slowdown, j.Growth, j.Replay = c.logging, c.growth, c.replay
		died, lost, readers = node, node, 1
	}
	if mode == job.Uncoordinated {
		died = all / float64(c.np)
		part = died
	}
	into := c.store
	if c.network > 0 {
		into = min(into, readers*c.network)
	}
	write := all / c.store
	if c.network > 0 {
		write = max(write, node/c.network)
	}
	store := life.Level{Name: "store", Cost: write, Restart: c.restart + died/into, Rebuild: (lost - died) / into, Share: 1}
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
	store.Drain, store.Slow, store.Cost, store.Every = write, c.slow, 0, max(1, c.drain.Every)
	j.Levels = []life.Level{local, store}
	return j
}

// best is the best interval of a closed form: that of the first level, or of both levels where
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
	list = append(list, "all parts of the job wait for each other: a pause of one is a pause of all", "reading is as fast as writing")
	if c.network == 0 {
		list = append(list, "the network of a node delays nothing")
	}
	if c.local > 0 && c.slow == 0 {
		list = append(list, "a drain does not slow the job down")
	}
	return list
}
