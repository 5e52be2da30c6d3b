package study

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict/life"
)

// machine reads what fails.
func (o *simulateOptions) machine(f *pflag.FlagSet) (m life.Machine, err error) {
	if o.nodes == 0 {
		return m, ui.Missing("--nodes", "4096")
	}
	var q ui.Quantities
	each, weibull, bursts := strings.Cut(o.NodeMTBF, ",weibull=")
	if bursts {
		shape, err := strconv.ParseFloat(weibull, 64)
		if err != nil || f.Changed("shape") {
			return m, ui.BadUsage("--node-mtbf "+o.NodeMTBF+": want one shape, a number", "write --node-mtbf 5y,weibull=0.7, without --shape")
		}
		o.shape = shape
	}
	failing := predictions.FailingOptions{MTBF: o.MTBF, NodeMTBF: each}
	m = life.Machine{Shape: o.shape, Lost: q.Share("--node-loss", o.loss), Detect: q.Duration("--detect", o.detect).Seconds(), Spares: o.spares, Repair: q.Duration("--repair", o.repair).Seconds(),
		Domains: o.domains, DomainMTBF: q.Duration("--domain-mtbf", o.domainMTBF).Seconds(), StoreMTBF: q.Duration("--store-mtbf", o.storeMTBF).Seconds(), StoreRepair: q.Duration("--store-repair", o.storeRepair).Seconds()}
	switch {
	case q.Err != nil:
		return m, q.Err
	case o.spares < -1 || f.Changed("spares") && o.spares < 0:
		return m, ui.BadUsage(fmt.Sprintf("--spares %d: want a number of nodes from 0", o.spares), "leave it out if a spare is always there")
	case (o.spares >= 0) != f.Changed("repair"):
		return m, ui.BadUsage("--spares and --repair belong together: a lost node is replaced by a spare, or once it is repaired", "give both, like --spares 8 --repair 1d")
	case (o.domains > 0) != (o.domainMTBF != ""):
		return m, ui.BadUsage("--domains and --domain-mtbf belong together: how many fail as a whole, and how often", "give both, like --domains 128 --domain-mtbf 20y")
	case o.domains < 0 || o.domains > o.nodes:
		return m, ui.BadUsage(fmt.Sprintf("--domains %d: the job has %d nodes", o.domains, o.nodes), "a domain has a node or more")
	case (o.storeMTBF != "") != (o.storeRepair != ""):
		return m, ui.BadUsage("--store-mtbf and --store-repair belong together: how often the store is away, and for how long", "give both, like --store-mtbf 30d --store-repair 4h")
	case o.failures != "" && (o.FailingOptions.Given() || f.Changed("shape")):
		return m, ui.BadUsage("--failures says when nodes fail, and so do --mtbf, --node-mtbf and --shape", "leave one of them out")
	case o.failures != "":
		return m, o.log(&m)
	case f.Changed("system") || f.Changed("machine-nodes") || f.Changed("failures-from"):
		return m, ui.BadUsage("--system, --machine-nodes and --failures-from belong to a log of failures", "add --failures FILE")
	case !o.FailingOptions.Given():
		return m, ui.Missing("--node-mtbf", "5y")
	}
	mtbf, err := failing.Job(o.nodes)
	m.NodeMTBF = mtbf.Seconds() * float64(o.nodes)
	return m, err
}

// log reads the failures of a log.
func (o *simulateOptions) log(m *life.Machine) error {
	r, err := os.Open(o.failures)
	if err != nil {
		return dataset.CannotRead("log", o.failures, err)
	}
	defer r.Close()
	if m.Log, err = interval.ReadFailures(o.failures, o.system, r); err != nil {
		if bad := new(interval.LogError); errors.As(err, &bad) && bad.Systems != nil {
			err = ui.WithHint(err, "choose one with --system")
		}
		return ui.AsUsage(err)
	}
	machine := max(o.machineNodes, 0)
	if machine == 0 {
		machine = m.Log.Nodes
	}
	if machine == 0 {
		machine = o.nodes
	}
	named := map[string]bool{}
	for i := range m.Log.Failures {
		named[m.Log.Failures[i].Node] = true
	}
	if delete(named, ""); len(named) > machine {
		return ui.BadUsage(fmt.Sprintf("--failures %s: the log names %d nodes, of a machine of %d", o.failures, len(named), machine), fmt.Sprintf("give those of the machine, like --machine-nodes %d", len(named)))
	}
	if o.nodes > machine {
		return ui.BadUsage(fmt.Sprintf("--nodes %d: the machine of the log has %d", o.nodes, machine), "give the nodes of the job, and with --machine-nodes those of the machine")
	}
	m.LogShare = float64(o.nodes) / float64(machine)
	stats, err := m.Log.Stats(machine)
	if err != nil {
		return ui.AsUsage(err)
	}
	o.logMTBF = stats.MTBF.Value
	if o.failuresFrom != "" {
		var q ui.Quantities
		from := q.Duration("--failures-from", o.failuresFrom).Seconds()
		if span := m.Log.To - m.Log.From; q.Err == nil && !(from >= 0 && from < span) {
			return ui.BadUsage(fmt.Sprintf("--failures-from %s: the log covers %s", o.failuresFrom, ui.Seconds(span)), "give a time before its end")
		}
		m.LogFrom = &from
		return q.Err
	}
	return nil
}

// mtbf is the mean time between failures of the job, in seconds.
func (o *simulateOptions) mtbf(m *life.Machine) float64 {
	if m.Log != nil {
		return o.logMTBF / m.LogShare
	}
	rate := float64(o.nodes) / m.NodeMTBF
	if m.Domains > 0 {
		rate += float64(m.Domains) / m.DomainMTBF
	}
	return 1 / rate
}

// A preset has the numbers of a machine that its operators have published (docs/INTERVAL.md).
type preset struct {
	name, said string
	flags      [][2]string
}

var presets = []preset{
	{"frontier", "9,856 nodes with 512 GiB, a store of 4.6 TB/s (OLCF); it says nothing of failures",
		[][2]string{{"nodes", "9856"}, {"node-bytes", "512GiB"}, {"store-rate", "4.6TB/s"}}},
	{"summit", "4,608 nodes with 512 GiB, NVMe of 2.1 GB/s in each, a store of 2.5 TB/s (OLCF); it says nothing of failures",
		[][2]string{{"nodes", "4608"}, {"node-bytes", "512GiB"}, {"store-rate", "2.5TB/s"}, {"local-rate", "2.1GB/s"}}},
	{"fugaku", "158,976 nodes with 32 GiB (RIKEN); it says nothing of the store and of failures",
		[][2]string{{"nodes", "158976"}, {"node-bytes", "32GiB"}}},
	{"llama3", "16,384 GPUs on 2,048 nodes, 419 failures in 54 days, a store of 2 TB/s (Llama 3, 2024)",
		[][2]string{{"nodes", "2048"}, {"node-mtbf", "22804651s"}, {"store-rate", "2TB/s"}}},
}

func presetNames() (list []string) {
	for i := range presets {
		list = append(list, presets[i].name)
	}
	return list
}

// usePreset takes from a preset what no flag says.
func (o *simulateOptions) usePreset(f *pflag.FlagSet) error {
	if o.preset == "" {
		return nil
	}
	p := o.presetOf()
	if p == nil {
		return ui.BadUsage(fmt.Sprintf("--machine %q is unknown", o.preset), "choose "+strings.Join(presetNames(), ", "))
	}
	says := func(name string) bool {
		changes := func(of string) bool { return strings.HasPrefix(of, name+"=") }
		return f.Changed(name) || slices.ContainsFunc(o.vary, changes) || changes(o.solve)
	}
	instead := map[string][]string{"node-mtbf": {"node-mtbf", "mtbf", "failures"}, "store-rate": {"store-rate", "on"}}
	for _, x := range p.flags {
		names := cmp.Or(strings.Join(instead[x[0]], " "), x[0])
		if i := slices.IndexFunc(strings.Fields(names), says); i >= 0 {
			o.instead = append(o.instead, "--"+strings.Fields(names)[i])
			continue
		}
		if x[0] == "node-bytes" && o.size.predicted() {
			continue
		}
		if err := f.Set(x[0], x[1]); err != nil {
			return err
		}
	}
	return nil
}

func (o *simulateOptions) presetOf() *preset {
	for i := range presets {
		if presets[i].name == o.preset {
			return &presets[i]
		}
	}
	return nil
}

// assumed is what the machine takes for granted.
func (o *simulateOptions) assumed() (list []string) {
	if p := o.presetOf(); p != nil {
		line := p.name + ": " + p.said
		if len(o.instead) > 0 {
			line += "; instead " + strings.Join(o.instead, ", ")
		}
		list = append(list, line)
	}
	if o.failuresFrom != "" {
		list = append(list, "all runs meet the failures of the log from the same time on, so that the ends of runs say nothing of other failures")
	}
	return list
}
