package ui

import (
	"github.com/spf13/pflag"

	"ckpt/coordinator/job"
)

// Placement are the flags that place ranks on nodes.
type Placement struct {
	Nodes   int
	mapping string
}

func (p *Placement) AddFlags(f *pflag.FlagSet) {
	f.IntVar(&p.Nodes, "nodes", 0, "spread the ranks over this many nodes")
	f.StringVar(&p.mapping, "map", "", "ranks of each node, like 8,8,4")
}

func (p *Placement) Given() bool { return p.Nodes != 0 || p.mapping != "" }

func (p *Placement) Resolve(np int) (job.Mapping, error) {
	switch {
	case p.Nodes != 0 && p.mapping != "":
		return nil, BadUsage("--nodes and --map exclude each other", "give one of them")
	case p.mapping != "":
		return job.ParseMapping(p.mapping, np)
	case p.Nodes != 0:
		return job.EvenMapping(np, p.Nodes)
	}
	return job.Mapping{np}, nil
}
