package jobs

import (
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image/dmtcp"
)

// engineOptions are the flags for the engine that takes the checkpoints of a program.
type engineOptions struct{ engine string }

func (o *engineOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.engine, "engine", string(dataset.Ckpt), "of a program: ckpt, if it calls ckpt; dmtcp, for one that is not changed")
	ui.Choices(f, "engine", string(dataset.Ckpt), string(dataset.DMTCP))
}

// ckptOnly are the flags that mean nothing for a program under DMTCP: it writes images of
// its own, of processes on this host.
var ckptOnly = []string{"nodes-from-launcher", "nodes", "map", "grace", "fail", "listen", "local", "protect", "domains", "drain", "drain-rate", "storage-turns", "codec", "incremental", "async", "staging", "trace",
	"layout", "strategy", "aggregators", "buffer", "stripe-size", "stripe-count", "first-ost", "p1", "p2", "p3", "p4"}

// underDMTCP has a program run under DMTCP, if that is asked for.
func (o *launchOptions) underDMTCP(s *job.Spec) error {
	switch dataset.Engine(o.engine) {
	case dataset.Ckpt:
		return nil
	case dataset.DMTCP:
		s.Origin = dmtcp.Origin
		return refuse(o.flags, ckptOnly, "a program under DMTCP has it not", "leave it out with --engine dmtcp")
	}
	return ui.BadUsage("--engine "+o.engine+": want ckpt or dmtcp", "")
}
