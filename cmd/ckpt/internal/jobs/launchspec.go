package jobs

import (
	"fmt"
	"strconv"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/internal/wording"
)

// spec describes the job that the flags ask for.
func (o *launchOptions) spec(name string) (job.Spec, error) {
	inst, err := dataset.ParseApp(name, o.np)
	if err != nil {
		return job.Spec{}, err
	}
	s := job.NewSpec(inst)
	if s.Mapping, err = o.Resolve(inst.NP); err != nil {
		return s, err
	}
	s.MPI, s.Mode, s.AutoRestart = o.mpi, job.Mode(o.mode), o.autoRestart
	s.Launcher = o.launcher
	if o.level != string(job.System) {
		s.Level = job.Level(o.level)
	}
	s.GroupSize, s.Log, s.Stagger, s.Seed, s.Residuals = o.groupSize, o.log, o.stagger, o.seed, o.residuals
	if o.jitter != "" {
		if s.Jitter, err = ui.ParseShare("--jitter", o.jitter); err != nil {
			return s, err
		}
	}
	s.SharedOnce, s.LibraryOnce = o.sharedOnce, o.libsOnce
	if o.iterations != 0 {
		s.Iterations = o.iterations
	}
	if o.every == epochWord {
		if inst.Epoch == 0 {
			return s, ui.BadUsage(fmt.Sprintf("--every epoch: %s has no epochs", inst.Name), "give a number of iterations, or add epoch: ITERATIONS to the workload")
		}
		o.every = strconv.Itoa(inst.Epoch)
	}
	return s, o.common(&s)
}

// epochWord is the value of --every that stands for the iterations of an epoch.
const epochWord = "epoch"

// noInterval is the value of --interval that stands for no checkpoints but those that
// somebody asks for.
const noInterval = "none"

// common completes the description with what all jobs have.
func (o *launchOptions) common(s *job.Spec) error {
	var err error
	s.Codec, s.Incremental = o.codec, o.incremental
	s.Async, s.Trace, s.Keep = o.async, o.trace, o.keep
	if o.staging != "" {
		if !o.async {
			return ui.BadUsage("--staging "+o.staging+": only --async stages memory", "add --async")
		}
		if s.Staging, err = ui.ParseSize("--staging", o.staging); err != nil {
			return err
		}
	}
	if s.WritePath, err = o.settings(); err != nil {
		return err
	}
	if err = o.tier(s); err != nil {
		return err
	}
	if taken, err := o.turnsOption.setting(); err != nil {
		return err
	} else if taken != nil {
		s.StorageTurns = *taken
	}
	s.Schedule, err = o.schedule()
	return err
}

func (o *launchOptions) schedule() (job.Schedule, error) {
	var s job.Schedule
	var err error
	given := 0
	bad := func(flag, value, want string) error {
		return ui.BadUsage(fmt.Sprintf("%s %s: %s", flag, value, want), "")
	}
	if o.every != "" {
		given++
		if s.Every, s.Interval, err = parseEvery(o.every); err != nil {
			return s, err
		}
	}
	if s.Count = o.count; o.count != 0 {
		given++
	}
	switch o.interval {
	case "":
	case noInterval:
		given++
	default:
		given++
		if s.Interval, err = ui.ParseDuration("--interval", o.interval); err != nil {
			return s, err
		}
		if s.Interval <= 0 {
			return s, bad("--interval", o.interval, "want a positive duration, like 90s or 10m")
		}
	}
	if o.overhead != "" {
		given++
		if s.Overhead, err = ui.ParseShare("--overhead", o.overhead); err != nil {
			return s, err
		}
		if s.Overhead <= 0 || s.Overhead > 10 {
			return s, bad("--overhead", o.overhead, "want a percentage above 0 and at most 1000%, like 10%")
		}
	}
	if given > 1 {
		return s, ui.BadUsage("--every, --count, --interval and --overhead exclude each other", "give one of them")
	}
	return s, nil
}

// parseEvery reads a number of iterations, or a time, which needs a unit.
func parseEvery(text string) (iterations int, interval time.Duration, err error) {
	bad := ui.BadUsage(fmt.Sprintf("--every %s: want a number of iterations from 1, or a time with its unit, like 30s", text), "")
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		if iterations, err = strconv.Atoi(text); err != nil || iterations < 1 {
			return 0, 0, bad
		}
		return iterations, 0, nil
	}
	if interval, err = wording.Duration(text); err != nil || interval <= 0 {
		return 0, 0, bad
	}
	return 0, interval, nil
}
