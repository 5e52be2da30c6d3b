package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/nodes"
	"ckpt/image/nodes/timing"
)

// tierModel is a workload on a described machine.
type tierModel struct {
	setup timing.Setup
	ranks int
	bytes int64 // of a rank
	table tierTable
	plot  tierPlot
	lines any // as --json has them
	note  string
}

// tierTable is what the workload prints.
type tierTable struct {
	header []string
	rows   [][]string
}

// row adds one to the table.
func (t *tierTable) row(cells ...string) { t.rows = append(t.rows, cells) }

// tierRuns are the workloads.
var tierRuns = []struct {
	name string
	run  func(m *tierModel, ctx context.Context) error
}{
	{"checkpoints", (*tierModel).checkpoints},
	{"blocks", (*tierModel).blocks},
	{"random-walk", (*tierModel).walk},
	{"images", (*tierModel).images},
}

func tierWorkloads() []string {
	var names []string
	for _, w := range tierRuns {
		names = append(names, w.name)
	}
	return names
}

// workloadIndex returns the position of a workload among all.
func workloadIndex(name string) (int, error) {
	i := slices.Index(tierWorkloads(), name)
	if i < 0 {
		return i, ui.BadUsage(fmt.Sprintf("--workload %q: no such workload", name), "use one of "+strings.Join(tierWorkloads(), ", "))
	}
	return i, nil
}

// runTierModel times the workload in virtual time.
func runTierModel(ctx context.Context, g *ui.Globals, o *tierOptions) error {
	m, err := newTierModel(o)
	if err != nil {
		return err
	}
	i, err := workloadIndex(o.workload)
	if err != nil {
		return err
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	if err := tierRuns[i].run(m, ctx); err != nil {
		return err
	}
	if o.plot != "" {
		if err := m.draw(ctx, g, o.plot); err != nil {
			return err
		}
	}
	return g.Show(m.report(o.workload), func() error { return m.print(g) })
}

func newTierModel(o *tierOptions) (*tierModel, error) {
	if err := ui.CheckPlotName(o.plot); err != nil {
		return nil, err
	}
	bytes, err := ui.ParseSize("--bytes", o.bytes)
	if err != nil {
		return nil, err
	}
	machine, err := timing.Load(o.model)
	if err != nil {
		return nil, ui.BadUsage("--model: "+err.Error(), "")
	}
	m := &tierModel{setup: timing.Setup{Machine: machine, Nodes: o.nodes}, ranks: o.ranks, bytes: bytes}
	if o.nodes == 0 {
		m.setup.Nodes = machine.Nodes
	}
	if o.ranks == 0 {
		m.ranks = m.setup.Nodes * (machine.Cores - 1)
	}
	m.setup.PerNode = m.ranks / m.setup.Nodes
	if m.ranks%m.setup.Nodes != 0 {
		return nil, ui.BadUsage(fmt.Sprintf("--ranks %d: %d nodes of a described machine have as many ranks each", m.ranks, m.setup.Nodes), fmt.Sprintf("use a multiple of %d", m.setup.Nodes))
	}
	if err := m.setup.Check(); err != nil {
		return nil, ui.AsUsage(err)
	}
	return m, nil
}

// tierLine is a way to take checkpoints.
type tierLine struct {
	Protection string  `json:"protection"`
	Pause      float64 `json:"pause_s"`
	Rate       float64 `json:"bytes_per_s"`
	Redundancy int64   `json:"redundancy_bytes"`
	Restore    float64 `json:"restore_s"`
	NodeLost   float64 `json:"node_lost_restore_s"`
	Drain      float64 `json:"drain_s,omitempty"`
}

// tierSchemes are compared, where the nodes are enough for them.
var tierSchemes = []string{"none", "partner", "partner:2", "xor:4", "rs:4+2"}

// checkpoints compares ways to protect checkpoints with the storage.
func (m *tierModel) checkpoints(ctx context.Context) error {
	m.table.header = []string{"checkpoints", "|pause", "|MB/s", "|redundancy MiB", "|restore", "|after a lost node", "|stored after"}
	var lines []tierLine
	for _, name := range append(slices.Clone(tierSchemes), "store") {
		w := timing.Tier{Bytes: m.bytes, Checkpoints: 1, DrainEvery: 1, Store: name == "store"}
		if !w.Store {
			scheme, err := nodes.Parse(name)
			if err != nil {
				return err
			}
			if scheme.Check(m.setup.Nodes) != nil {
				continue
			}
			w.Scheme = scheme
		}
		line, err := m.checkpoint(ctx, name, w)
		if err != nil {
			return err
		}
		lines = append(lines, line)
		m.plot.bars = append(m.plot.bars, tierBar{name, line.Pause})
		stored := ui.Seconds(line.Drain)
		if w.Store {
			stored = "at once"
		}
		m.table.row(name, ui.Seconds(line.Pause), fmt.Sprintf("%.0f", line.Rate/1e6), ui.MiB(line.Redundancy),
			ui.Seconds(line.Restore), ui.Seconds(line.NodeLost), stored)
	}
	m.plot.y, m.lines = "pause [s]", lines
	return nil
}

// checkpoint takes one in a way, and restores it with all nodes and without one.
func (m *tierModel) checkpoint(ctx context.Context, name string, w timing.Tier) (tierLine, error) {
	r, err := w.Run(ctx, m.setup)
	if err != nil {
		return tierLine{}, err
	}
	whole, err := w.Recover(ctx, m.setup, 0)
	lost, errLost := w.Recover(ctx, m.setup, 1)
	return tierLine{name, r.Pause, r.Rate, r.Redundancy, whole, lost, r.Drain}, errors.Join(err, errLost)
}
