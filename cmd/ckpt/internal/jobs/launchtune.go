package jobs

import (
	"context"
	"strings"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
)

// tuneSpec has a job begin with the best way to write on the storage of --tune.
func (o *launchOptions) tuneSpec(ctx context.Context, s *job.Spec) error {
	background, err := o.tune.Background()
	if err != nil {
		return err
	}
	if o.tune.On == "" {
		if o.flags.Changed("objective") {
			return ui.BadUsage("--objective "+o.objective+": only --tune looks for the least of something", "add --tune")
		}
		return nil
	}
	objective, err := tune.ParseObjective(o.objective)
	if err != nil {
		return ui.BadUsage("--objective "+o.objective+": want pause, latency or bytes", "")
	}
	if background > 0 {
		return ui.BadUsage("--background: a running job measures what others leave of the storage", "leave it out")
	}
	sys, err := o.tune.Load()
	if err != nil {
		return err
	}
	s.Tuning = &job.Tuning{Objective: string(objective), Before: s.Way(), BeforeAsync: s.Async}
	r, err := s.Resolve()
	if err != nil {
		return err
	}
	c, err := caseOfJob(r)
	if err != nil {
		return err
	}
	if o.model != "" {
		if err := predictions.AddContents(o.model, &c); err != nil {
			return err
		}
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	choice, err := tune.SearchIn(ctx, sys, c, objective, tune.Start)
	if err != nil {
		return o.usage(err)
	}
	best := &choice.Best
	s.WritePath, s.Codec, s.Async, s.Tuning.Why = best.Settings, best.Codec, best.Async, best.Why
	var text strings.Builder
	if err := sys.Encode(&text); err != nil {
		return err
	}
	s.Tuning.Storage = text.String()
	return nil
}

// caseOfJob is the first checkpoint of a job. Its copies must fit this machine, if all
// ranks run here.
func caseOfJob(r *job.Resolved) (tune.Case, error) {
	inst, err := r.Instance()
	if err != nil {
		return tune.Case{}, err
	}
	c := tune.Case{Instance: inst, Mapping: r.Mapping, MPI: r.MPI, Settings: r.WritePath, Codec: r.Codec.String(), Async: r.Async, Incremental: r.Incremental}
	data, shared, err := r.Memory()
	if err != nil {
		return c, err
	}
	if have, ok := job.AvailableMemory(); ok && r.Launcher == job.LocalLauncher {
		c.Limit = max(1, (have-data-shared)/int64(len(r.Mapping))/2)
	}
	return c, nil
}
