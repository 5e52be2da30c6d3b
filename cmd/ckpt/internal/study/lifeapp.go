package study

import (
	"cmp"
	"fmt"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/image/nodes"
	"ckpt/predict"
	"ckpt/predict/plan"
	"ckpt/zones"
)

// A nodeSize is what a node stores in a checkpoint: by a flag, or predicted for an application.
type nodeSize struct {
	bytes, model, app string
}

func (o *nodeSize) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.bytes, "node-bytes", "", "what a node stores in a checkpoint, like 64GiB")
	f.StringVar(&o.model, "model", "", "in place of --node-bytes: predict it with this model of ckpt predict fit (with APP: default the built-in tables)")
}

func (o *nodeSize) predicted() bool { return o.app != "" || o.model != "" }

// read sets what a node stores in the costs, and the ranks where only APP says how many there are.
func (o *nodeSize) read(c *costs) error {
	var q ui.Quantities
	switch {
	case o.bytes != "" && o.predicted():
		return ui.BadUsage("--node-bytes and "+cmp.Or(o.app, "--model")+" both say what a node stores", "leave one of them out")
	case !o.predicted():
		if c.bytes = q.Size("--node-bytes", o.bytes); c.bytes == 0 && q.Err == nil {
			return ui.Missing("--node-bytes", "64GiB")
		}
		return q.Err
	}
	m, err := predict.LoadModel(o.model, o.app)
	if err != nil {
		return err
	}
	app, err := m.Application(o.app, c.np)
	if err != nil {
		return err
	}
	c.np = app.NP
	placement := ui.Placement{Nodes: c.nodes}
	mapping, err := placement.Resolve(c.np)
	if err != nil {
		return err
	}
	// Times and rates change no size.
	p := plan.Planning{App: app, MPI: []string{m.UsualMPI(app)}, IO: "none", Mapping: mapping, Codecs: []string{"none"}, AppSeconds: 86400, MTBFS: 86400,
		Levels: &plan.Levels{LocalMiBPerS: 1, StoreMiBPerS: 1, Share: 0.5, Slots: nodes.Slots}}
	if p.Engine, err = m.EngineOf(""); err != nil {
		return err
	}
	if p.Engine == dataset.Ckpt {
		p.Codecs = []string{""} // as measured jobs had
	}
	options, err := plan.Compare(m, p)
	if err != nil {
		return err
	}
	cost := options[0].LevelCosts
	node := cost.NodeMiB
	c.agreed = cost.FixedS
	c.bytes = zones.PageRound(int64(node.Value * (1 << 20)))
	size := func(mib float64) string { return ui.Bytes(mib * (1 << 20)) }
	c.predicted = []string{fmt.Sprintf("a node of %s stores %s (%s in 95 %%), as predicted for checkpoints of %s", app, size(node.Value), ui.Between(node.Low, node.High, size), cmp.Or(p.Engine, dataset.DMTCP))}
	return nil
}
