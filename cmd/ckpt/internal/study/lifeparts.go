package study

import (
	"context"
	"fmt"
	"math"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/zones"
)

// A unit of a job takes checkpoints by itself: all nodes, some of them, or a rank.
type unit struct {
	nodes, ranks int
	count        int   // of such parts
	bytes        int64 // of one

	// agree is the seconds until the ranks of a part have agreed to store, write and read are those
	// of a part that has the storage alone, stretch how many times longer it takes while so many do.
	agree, write, read float64
	stretch            func(parts int) float64

	// beside is how many times longer so many parts take beside other jobs, nil without.
	beside func(parts int) float64
}

// parts are the part of each mode, and a node.
type parts struct {
	mode map[job.Mode]*unit
	node unit
}

// divide divides the job as its modes do.
func (c *costs) divide() *parts {
	node := int(math.Ceil(c.ranksOfNode()))
	all := unit{nodes: c.nodes, ranks: max(c.np, c.nodes), count: 1, bytes: c.bytes * int64(c.nodes)}
	group := unit{nodes: c.groupNodes, ranks: c.groupNodes * node, count: c.nodes / c.groupNodes, bytes: c.bytes * int64(c.groupNodes)}
	rank := unit{nodes: 1, ranks: 1, count: max(c.np, c.nodes), bytes: zones.PageRound(int64(float64(c.bytes) / c.ranksOfNode()))}
	p := &parts{mode: map[job.Mode]*unit{}, node: unit{nodes: 1, ranks: node, count: c.nodes, bytes: c.bytes}}
	for _, mode := range c.modes {
		p.mode[mode] = map[job.Mode]*unit{job.Coordinated: &all, job.Semi: &group, job.Uncoordinated: &rank}[mode]
	}
	return p
}

func (p *parts) all() (list []*unit) {
	for _, mode := range []job.Mode{job.Coordinated, job.Semi, job.Uncoordinated} {
		if u := p.mode[mode]; u != nil {
			list = append(list, u)
		}
	}
	return append(list, &p.node)
}

// spread is on how many nodes so many parts lie: each on its own as long as there are nodes.
func (c *costs) spread(p *unit, parts int) int { return min(c.nodes, parts*p.nodes) }

// byRate takes the times of a part from the rate of the store, and from the network of the nodes.
func (c *costs) byRate(p *unit) {
	seconds := func(parts int) float64 {
		rate := c.store
		if c.network > 0 {
			rate = min(rate, float64(c.spread(p, parts))*c.network)
		}
		return float64(parts) * float64(p.bytes) / rate
	}
	alone := seconds(1)
	p.agree, p.write, p.read = c.agreement(p.ranks), alone, alone
	p.stretch = func(parts int) float64 { return seconds(parts) / alone }
}

// agreement is how long the ranks of a part take to stop and agree: as predicted for the application,
// or by --coordination, linear in them as far as was measured, and from there on as a tree
// (docs/PREDICT.md).
func (c *costs) agreement(ranks int) float64 {
	if c.coordination == 0 {
		return c.agreed
	}
	const knee = 512
	n := float64(ranks)
	if n > knee {
		n = knee * (1 + math.Log(n/knee))
	}
	return c.coordination * n
}

// on takes the times of a part from a simulation of what one, two, four and so on of them write, and
// of what one reads.
func (c *costs) on(ctx context.Context, sys *pfs.System, background float64, p *unit) error {
	var counts, seconds []float64
	for n := 1; ; n = min(2*n, p.count) {
		of, err := c.caseOf(p, n, background)
		if err != nil {
			return err
		}
		forecast, err := tune.Predict(ctx, sys, of)
		if err != nil {
			return err
		}
		counts, seconds = append(counts, math.Log(float64(n))), append(seconds, forecast.Latency.Value-forecast.Coordination)
		if n == 1 {
			restarts, err := tune.Restarts(ctx, sys, of, &forecast)
			if err != nil {
				return err
			}
			p.agree, p.write, p.read = c.agreement(p.ranks), seconds[0], restarts[0].Seconds.Value
			if p.agree == 0 { // each part agrees by itself
				p.agree = sys.Service.Coordination.Of(p.ranks, forecast.Files)
			}
			if p.count == 1 {
				between := func(s tune.Seconds) string { return ui.Between(s.Low, s.High, ui.Seconds) }
				c.described = append(c.described, fmt.Sprintf("%s stores a checkpoint in %s (%s), and reads it in %s (%s)", sys.Name, ui.Seconds(forecast.Latency.Value), between(forecast.Latency),
					ui.Seconds(p.read), between(restarts[0].Seconds)))
			}
		}
		if n == p.count {
			break
		}
	}
	if p.count > 1 {
		line := fmt.Sprintf("%s stores the part of a group in %s, and in %s while all %d store", sys.Name, ui.Seconds(seconds[0]), ui.Seconds(seconds[len(seconds)-1]), p.count)
		if !slices.Contains(c.described, line) {
			c.described = append(c.described, line)
		}
	}
	p.stretch = func(parts int) float64 { return interpolate(counts, seconds, math.Log(float64(parts))) / seconds[0] }
	return nil
}

// caseOf is a checkpoint of so many parts.
func (c *costs) caseOf(p *unit, count int, background float64) (tune.Case, error) {
	nodes := c.spread(p, count)
	mapping, err := job.EvenMapping(max(nodes, min(count*p.ranks, max(c.np, c.nodes))), nodes)
	if err != nil {
		return tune.Case{}, err
	}
	of := tune.Case{Mapping: mapping, Settings: plan.Defaults(), Codec: "none", Background: background, Memory: &tune.PlannedMemory{Regions: []string{"data"}}}
	bytes := zones.PageRound(int64(float64(c.bytes) / c.ranksOfNode()))
	for node, n := range mapping {
		for range n {
			of.Memory.Sources = append(of.Memory.Sources, plan.Source{Rank: len(of.Memory.Sources), Node: node, Pieces: []plan.Piece{{Bytes: bytes, Align: true}}})
		}
	}
	return of, nil
}

// interpolate is the value at x between points whose x ascend, straight where logarithms are.
func interpolate(xs, ys []float64, x float64) float64 {
	for i := 1; i < len(xs); i++ {
		if x <= xs[i] {
			at := (x - xs[i-1]) / (xs[i] - xs[i-1])
			return ys[i-1] * math.Pow(ys[i]/ys[i-1], at)
		}
	}
	return ys[len(ys)-1]
}
