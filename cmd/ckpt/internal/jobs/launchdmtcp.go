package jobs

import (
	"context"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/dmtcp"
	"ckpt/dataset"
)

// engineOptions are the flags for the engine that takes the checkpoints of a program.
type engineOptions struct{ engine string }

func (o *engineOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.engine, "engine", string(dataset.Ckpt), "of a program: ckpt, if it calls ckpt; dmtcp, for one that is not changed")
	ui.Choices(f, "engine", string(dataset.Ckpt), string(dataset.DMTCP))
}

// underDMTCP reports whether the program is to run under DMTCP.
func (o *engineOptions) underDMTCP() (bool, error) {
	switch dataset.Engine(o.engine) {
	case dataset.DMTCP:
		return true, nil
	case dataset.Ckpt:
		return false, nil
	}
	return false, ui.BadUsage("--engine "+o.engine+": want ckpt or dmtcp", "")
}

// ckptOnly are the flags that mean nothing for a program under DMTCP: it writes images of
// its own, of processes on this host.
var ckptOnly = []string{"nodes-from-launcher", "nodes", "map", "grace", "fail", "listen", "local", "protect", "domains", "drain", "drain-rate", "storage-turns", "codec", "incremental", "async", "staging", "trace",
	"layout", "strategy", "aggregators", "buffer", "stripe-size", "stripe-count", "first-ost", "p1", "p2", "p3", "p4"}

func runLaunchDMTCP(ctx context.Context, g *ui.Globals, o *launchOptions, command []string) error {
	if err := refuse(o.flags, ckptOnly, "a program under DMTCP has it not", "leave it out with --engine dmtcp"); err != nil {
		return err
	}
	spec, err := o.programSpec(g, command)
	if err != nil {
		return err
	}
	g, streams := forProgram(g)
	opt, err := o.options(g)
	if err != nil {
		return err
	}
	opt.Job, opt.Streams = o.job, streams
	return o.run(ctx, g, &opt, func() (*coordinator.Result, error) { return dmtcp.Launch(ctx, spec, dmtcp.Options{Options: opt}) })
}

// dmtcpJob reports whether a stored job runs under DMTCP.
func dmtcpJob(g *ui.Globals, name string) bool {
	store, err := g.OpenStore()
	if err != nil {
		return false
	}
	j, err := store.Job(name)
	return err == nil && dmtcp.Runs(j)
}

// restartDMTCP continues a job under DMTCP.
func restartDMTCP(ctx context.Context, g *ui.Globals, o *restartOptions, opt coordinator.Options) error {
	if o.Given() || o.withoutLog || len(o.fail) > 0 || o.listen != "" || o.turnsOption.text != "" || o.chdir != "" {
		return ui.BadUsage("--nodes, --map, --without-log, --fail, --listen, --storage-turns and --chdir: a program under DMTCP has them not", "ckpt restart "+opt.Job)
	}
	return runJob(g, &opt, func() (*coordinator.Result, error) {
		return dmtcp.Restart(ctx, dmtcp.Options{Options: opt}, o.checkpoint, o.autoRestart)
	})
}
