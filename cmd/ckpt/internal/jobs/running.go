package jobs

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/doctor"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/protocol"
	"ckpt/internal/vfs/slowfs"
)

// running are the flags of every command that runs a job.
type running struct {
	fail        []string
	autoRestart bool
	silence     string
	patience    string
	restarts    int
	walltime    string
	onFull      string
	listen      string
	wait        ui.Wait
}

func (r *running) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.fail, "fail", nil, "inject a failure: rank=R@iter=I, node=K@iter=I, rank=R@t=DUR, mtbf=DUR[,seed=S]; node=K,lose-local@iter=I loses the node's directory of --local, too")
	f.BoolVar(&r.autoRestart, "auto-restart", false, "restart failed ranks automatically, from the last checkpoint")
	f.IntVar(&r.restarts, "restarts", protocol.DefaultLimits.Restarts, "with --auto-restart: restarts in a row without a new checkpoint before the job fails")
	f.StringVar(&r.patience, "patience", "", "time for which a rank may keep the others waiting for a checkpoint before it is declared dead (default: none; the checkpoint is aborted)")
	f.StringVar(&r.onFull, "on-full", "skip", "what to do when the storage is full: skip the checkpoint, or stop the job (exit status 6)")
	ui.Choices(f, "on-full", "skip", "stop")
	f.StringVar(&r.listen, "listen", "", "address of this host, HOST or HOST:PORT, at which ranks on other hosts reach the coordinator (default: all ranks run on this host)")
	f.StringVar(&r.walltime, "walltime", "", "time that this run may take, like 4h: it stops after a last checkpoint before, exit status 75; none for no limit (default: until $SLURM_JOB_END_TIME)")
	r.wait.AddFlags(f)
	f.StringVar(&r.silence, "silence", "10s", "heartbeat timeout after which a rank is declared dead")
}

func (r *running) options(g *ui.Globals) (coordinator.Options, error) {
	if err := g.CheckStore(); err != nil {
		return coordinator.Options{}, err
	}
	opt := coordinator.Options{Store: g.Store, Limits: protocol.DefaultLimits, Listen: r.listen, Observer: &ui.Narrator{G: g}, Log: g.Log(), StartTurns: startTurns, Room: doctor.Room}
	if err := doctor.Room(0); err != nil {
		return opt, err
	}
	for _, s := range r.fail {
		f, err := coordinator.ParseFailure(s)
		if err != nil {
			return opt, err
		}
		opt.Failures = append(opt.Failures, f)
	}
	var err error
	if opt.FS, err = slowfs.FromEnvironment(os.Getenv); err != nil {
		return opt, ui.BadUsage(err.Error(), "unset "+slowfs.Variable+" for the storage as it is")
	}
	if opt.Until, err = r.until(time.Now(), os.Getenv); err != nil {
		return opt, err
	}
	if opt.Limits.Silence, err = ui.ParseDuration("--silence", r.silence); err != nil {
		return opt, err
	}
	if opt.Limits.Restarts = r.restarts; r.restarts < 0 {
		return opt, ui.BadUsage(fmt.Sprintf("--restarts %d: want a number from 0", r.restarts), "")
	}
	if r.patience != "" {
		if opt.Limits.Patience, err = ui.ParseDuration("--patience", r.patience); err != nil {
			return opt, err
		}
		if opt.Limits.Patience < time.Second {
			return opt, ui.BadUsage(fmt.Sprintf("--patience %s: want a duration of at least 1s", r.patience), "")
		}
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

// until is when a run has to have ended, zero if it may take as long as it likes.
func (r *running) until(now time.Time, getenv func(string) string) (time.Time, error) {
	switch r.walltime {
	case "none":
		return time.Time{}, nil
	case "":
		end, err := strconv.ParseInt(getenv("SLURM_JOB_END_TIME"), 10, 64)
		if at := time.Unix(end, 0); err == nil && at.After(now) {
			return at, nil
		}
		return time.Time{}, nil
	}
	d, err := ui.ParseDuration("--walltime", r.walltime)
	if err == nil && d < time.Second {
		err = ui.BadUsage(fmt.Sprintf("--walltime %s: want a duration of at least 1s, or none", r.walltime), "")
	}
	return now.Add(d), err
}
