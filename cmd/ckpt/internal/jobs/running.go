package jobs

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/protocol"
)

// running are the flags of every command that runs a job.
type running struct {
	fail        []string
	autoRestart bool
	silence     string
	onFull      string
	listen      string
}

func (r *running) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.fail, "fail", nil, "inject a failure: rank=R@iter=I, node=K@iter=I, rank=R@t=DUR, mtbf=DUR[,seed=S]")
	f.BoolVar(&r.autoRestart, "auto-restart", false, "restart failed ranks automatically, from the last checkpoint")
	f.StringVar(&r.onFull, "on-full", "skip", "what to do when the storage is full: skip the checkpoint, or stop the job (exit status 6)")
	ui.Choices(f, "on-full", "skip", "stop")
	f.StringVar(&r.listen, "listen", "", "address of this host, HOST or HOST:PORT, at which ranks on other hosts reach the coordinator (default: all ranks run on this host)")
	f.StringVar(&r.silence, "silence", "10s", "heartbeat timeout after which a rank is declared dead")
}

func (r *running) options(g *ui.Globals) (coordinator.Options, error) {
	if err := g.CheckStore(); err != nil {
		return coordinator.Options{}, err
	}
	opt := coordinator.Options{Store: g.Store, Limits: protocol.DefaultLimits, Listen: r.listen, Observer: &ui.Narrator{G: g}, Log: g.Log()}
	for _, s := range r.fail {
		f, err := coordinator.ParseFailure(s)
		if err != nil {
			return opt, err
		}
		opt.Failures = append(opt.Failures, f)
	}
	var err error
	if opt.Limits.Silence, err = ui.ParseDuration("--silence", r.silence); err != nil {
		return opt, err
	}
	if opt.Limits.Silence < 100*time.Millisecond {
		return opt, ui.BadUsage(fmt.Sprintf("--silence %s: want a duration of at least 100ms", r.silence), "")
	}
	if r.onFull != "skip" && r.onFull != "stop" {
		return opt, ui.BadUsage(fmt.Sprintf("--on-full %s: want skip or stop", r.onFull), "")
	}
	opt.StopOnFull = r.onFull == "stop"
	return opt, nil
}
