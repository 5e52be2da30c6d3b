package study

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/tune"
	"ckpt/dataset"
	"ckpt/image/pfs"
	"ckpt/internal/wording"
	"ckpt/predict/life"
)

// besideJob is a job of --with, which stores in the same store.
type besideJob struct {
	name      string
	nodes, np int
	bytes     int64 // of a node
	every     float64
	start     float64 // NaN: at any time
	write     float64 // seconds alone
}

// readBeside reads the file of a job of --with.
func readBeside(path string) (b besideJob, err error) {
	wrong := func(reason, hint string) (besideJob, error) {
		return b, ui.BadUsage(fmt.Sprintf("--with %s: %s", path, reason), hint)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return b, ui.AsNotFound(dataset.CannotRead("job", path, err))
	}
	var keys map[string]any
	if err := wording.DecodeYAML(src, &keys); err != nil {
		return wrong(err.Error(), "write lines like nodes: 512, node-bytes: 64GiB and interval: 2h")
	}
	set := pflag.NewFlagSet(path, pflag.ContinueOnError)
	var bytes, every, start string
	set.StringVar(&b.name, "name", strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), "")
	set.IntVar(&b.nodes, "nodes", 0, "")
	set.IntVar(&b.np, "np", 0, "")
	set.StringVar(&bytes, "node-bytes", "", "")
	set.StringVar(&every, "interval", "", "")
	set.StringVar(&start, "start", "", "")
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value := keys[key]
		if err := set.Set(strings.ReplaceAll(key, "_", "-"), fmt.Sprint(value)); err != nil {
			return wrong(fmt.Sprintf("%s: %v does not suit it", key, value), "the keys are name, nodes, np, node-bytes, interval and start")
		}
	}
	var q ui.Quantities
	b.bytes, b.every, b.start = q.Size("node-bytes", bytes), q.Duration("interval", every).Seconds(), math.NaN()
	if start != "" {
		b.start = q.Duration("start", start).Seconds()
	}
	b.np = cmp.Or(b.np, b.nodes)
	switch {
	case q.Err != nil:
		return wrong(q.Err.Error(), "")
	case b.nodes < 1 || b.bytes < 1 || b.every <= 0 || b.np < b.nodes:
		return wrong("nodes, node-bytes and interval have to be over 0, and each node has a rank", "write lines like nodes: 512, node-bytes: 64GiB and interval: 2h")
	}
	return b, nil
}

// readWith reads the jobs beside, and what they make of the costs of groups.
func (o *lifeCosts) readWith(ctx context.Context, c *costs, sys *pfs.System, background float64) error {
	for _, path := range o.with {
		b, err := readBeside(path)
		if err != nil {
			return err
		}
		c.with = append(c.with, b)
	}
	spread := slices.Contains(c.staggers, supervisor.Spread) && slices.ContainsFunc(c.modes, func(m job.Mode) bool { return m != job.Coordinated })
	set := slices.ContainsFunc(c.with, func(b besideJob) bool { return !math.IsNaN(b.start) })
	switch {
	case len(c.with) == 0:
		return nil
	case spread && c.local > 0:
		return ui.BadUsage("--with and --local-rate: how long drains of groups that store one after the other wait for room beside another job is not simulated", "add --stagger none, or leave --local-rate out")
	case spread && set:
		return ui.BadUsage("--with: groups that store one after the other meet another job at any time, and a file has a start", "add --stagger none, or leave start out of the file")
	case sys == nil:
		for i := range c.with {
			c.with[i].write = float64(c.with[i].bytes) * float64(c.with[i].nodes) / c.alone(c.with[i].nodes)
		}
		c.beside = c.byShares
	case len(c.with) > 1:
		return ui.BadUsage("--with: a described storage is simulated with one other job", "leave the others out, or give --store-rate in place of --on")
	default:
		both, err := c.onPair(ctx, sys, background)
		if err != nil {
			return err
		}
		c.beside = func(int) *life.Beside { return both }
	}
	for _, p := range append(c.parts.all()[:len(c.parts.mode):len(c.parts.mode)], &c.parts.node) {
		c.crowded(p)
	}
	all := c.beside(c.nodes)
	for i := range c.with {
		b, both := &c.with[i], all.Speeds[1|2<<i]
		c.neighbours = append(c.neighbours, fmt.Sprintf("%s beside stores %s on each of %s every %s, in %s alone; while both store, it has %s of its speed and this job %s", b.name, ui.Bytes(float64(b.bytes)), ui.Count(b.nodes, "node"),
			ui.Seconds(b.every), ui.Seconds(b.write), ui.Percent(both[i+1]), ui.Percent(both[0])))
	}
	return nil
}

// alone is the rate of so many nodes that have the store to themselves.
func (c *costs) alone(nodes int) float64 {
	if c.network > 0 {
		return min(c.store, float64(nodes)*c.network)
	}
	return c.store
}

// byShares has all jobs share the rate of the store, while so many nodes of this one store.
func (c *costs) byShares(nodes int) *life.Beside {
	weights, rates := []float64{float64(nodes)}, []float64{c.alone(nodes)}
	for i := range c.with {
		weights, rates = append(weights, float64(c.with[i].nodes)), append(rates, c.alone(c.with[i].nodes))
	}
	return &life.Beside{Bursts: c.bursts(), Speeds: life.Share(c.store, weights, rates)}
}

func (c *costs) bursts() (list []life.Burst) {
	for i := range c.with {
		list = append(list, life.Burst{Interval: c.with[i].every, Write: c.with[i].write, Start: c.with[i].start})
	}
	return list
}

// mostOfPair bounds what is simulated of two jobs that store at the same time: their speeds depend
// little on how much they store.
const mostOfPair = 8 << 30

// onPair has two jobs share a described storage.
func (c *costs) onPair(ctx context.Context, sys *pfs.System, background float64) (*life.Beside, error) {
	b := &c.with[0]
	mine, other := *c, costs{nodes: b.nodes, np: b.np, bytes: b.bytes}
	all := func(c *costs) *unit { return &unit{nodes: c.nodes, ranks: max(c.np, c.nodes), count: 1} }
	of, err := other.caseOf(all(&other), 1, background)
	if err != nil {
		return nil, err
	}
	forecast, err := tune.Predict(ctx, sys, of)
	if err != nil {
		return nil, err
	}
	b.write = forecast.Latency.Value
	var jobs []tune.Contender
	for _, j := range []*costs{&mine, &other} {
		j.bytes = min(j.bytes, max(int64(4<<20*j.ranksOfNode()), int64(mostOfPair/j.nodes)))
		part, err := j.caseOf(all(j), 1, background)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, tune.Contender{Case: part})
	}
	flows, err := tune.Contend(ctx, sys, jobs, tune.Policies{})
	if err != nil {
		return nil, err
	}
	return &life.Beside{Bursts: c.bursts(), Speeds: pairOf(flows)}, nil
}

// pairOf are the speeds of two jobs that begin to store at the same time.
func pairOf(flows *tune.Contention) [][]float64 {
	together := flows.Orders[0].Jobs
	return life.Pair([2]float64{flows.Jobs[0].Seconds, flows.Jobs[1].Seconds}, [2]float64{together[0].Seconds, together[1].Seconds})
}

// crowded says how much longer jobs beside make transfers of groups on average. Reading takes as much
// longer.
func (c *costs) crowded(p *unit) {
	if p.count == 1 {
		return
	}
	var known sync.Map
	p.beside = func(parts int) float64 {
		x, ok := known.Load(parts)
		if !ok {
			x = c.beside(c.spread(p, parts)).Slower(p.write * p.stretch(parts))
			known.Store(parts, x)
		}
		return x.(float64)
	}
	p.read *= c.beside(c.spread(p, 1)).Slower(p.read)
}

// besideOf are the jobs beside a job whose groups store at the same time: it meets each of their
// checkpoints. Spread groups meet them on average, as one of them or another always stores.
func (c *costs) besideOf(j *life.Job, p *unit) *life.Beside {
	switch {
	case c.beside == nil:
		return nil
	case j.Spread && p.count > 1:
		one, stretch := p.beside(1), j.Stretch
		store := &j.Levels[0]
		store.Cost = store.Agree + (store.Cost-store.Agree)*one
		j.Stretch = func(parts int) float64 { return stretch(parts) * p.beside(parts) / one }
		return nil
	}
	return c.beside(c.nodes)
}
