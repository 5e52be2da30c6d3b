package jobs

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/plan"
)

// writePath has the flags that decide which rank writes which bytes of a checkpoint
// into which file. docs/LAYOUTS.md explains them.
type writePath struct {
	base                            plan.Settings // values that need no parsing
	aggregators, buffer, stripeSize string
	flags                           *pflag.FlagSet
}

// addFlags adds the flags of every command that writes checkpoints.
func (w *writePath) addFlags(f *pflag.FlagSet) {
	d := plan.Defaults()
	w.base, w.flags = d, f
	f.StringVar((*string)(&w.base.Layout), "layout", string(d.Layout), "files of a checkpoint: per-rank, aggregated or shared")
	ui.Choices(f, "layout", string(plan.PerRank), string(plan.Aggregated), string(plan.Shared))
	f.StringVar(&w.aggregators, "aggregators", "", "ranks that write for the others: a number, or auto (default one per node)")
	f.StringVar(&w.buffer, "buffer", ui.FlagSize(d.Buffer), "collective buffer of a writer")
	f.StringVar(&w.stripeSize, "stripe-size", ui.FlagSize(d.StripeSize), "stripe of the file system, a multiple of 64KiB")
	f.IntVar(&w.base.StripeCount, "stripe-count", d.StripeCount, "number of OSTs that a file is striped over")
}

// addTuningFlags adds the flags of commands that compare ways of writing. Without
// them the defaults of package plan hold.
func (w *writePath) addTuningFlags(f *pflag.FlagSet) {
	d := plan.Defaults()
	f.StringVar((*string)(&w.base.Strategy), "strategy", string(d.Strategy), "writers: two-phase, dynamic or static (aggregators), or individual (every rank)")
	ui.Choices(f, "strategy", string(plan.TwoPhase), string(plan.Dynamic), string(plan.Static), string(plan.Individual))
	f.IntVar(&w.base.FirstOST, "first-ost", d.FirstOST, "OST of the first stripe")
	f.BoolVar(&w.base.P1, "p1", d.P1, "writers work at the same time")
	f.BoolVar(&w.base.P2, "p2", d.P2, "the gathers of a writer run at the same time")
	f.BoolVar(&w.base.P3, "p3", d.P3, "a writer gathers into one buffer while it writes from another")
	f.BoolVar(&w.base.P4, "p4", d.P4, "several aggregators per OST")
}

// settings reads the flags. plan.New finds out whether they suit a job; usage words
// its errors.
func (w *writePath) settings() (plan.Settings, error) {
	s := w.base
	var err error
	switch w.aggregators {
	case "": // one per node
	case "auto":
		s.Aggregators = plan.Auto
	default:
		if s.Aggregators, err = strconv.Atoi(w.aggregators); err != nil || s.Aggregators < 1 {
			return s, ui.BadUsage("--aggregators "+w.aggregators+": want a number of ranks, or auto", "give a number from 1, or auto")
		}
	}
	if s.Buffer, err = ui.ParseSize("--buffer", w.buffer); err != nil {
		return s, err
	}
	if s.StripeSize, err = ui.ParseSize("--stripe-size", w.stripeSize); err != nil {
		return s, err
	}
	if s.StripeCount == 0 { // which would mean the default
		return s, ui.BadUsage("--stripe-count 0: want a number of OSTs from 1", "give the number of OSTs for a file")
	}
	return s, nil
}

// usage makes an error of package plan about a setting one about its flag.
func (w *writePath) usage(err error) error {
	setting, ok := errors.AsType[*plan.SettingError](err)
	if !ok {
		return err
	}
	value := setting.Value
	if f := w.flags.Lookup(setting.Setting); f != nil {
		value = f.Value.String() // as the user wrote it
	}
	return ui.BadUsage(fmt.Sprintf("--%s %s: %s", setting.Setting, value, setting.Reason), setting.Remedy)
}

// idle names the given flags that have no effect, from the settings as they took
// effect.
func (w *writePath) idle(s plan.Settings) []string {
	var notes []string
	note := func(flag string, idle bool, why string) {
		if f := w.flags.Lookup(flag); f != nil && f.Changed && idle {
			notes = append(notes, fmt.Sprintf("--%s=%s has no effect: %s", flag, f.Value, why))
		}
	}
	const own = "every rank writes its own bytes"
	alone := s.Strategy == plan.Individual
	note("strategy", s.Strategy != w.base.Strategy, own)
	note("aggregators", alone && s.Layout != plan.Aggregated, own)
	note("p2", alone, own)
	note("p3", alone, own)
	note("p4", s.P4 != w.base.P4, "it applies to shared, two-phase only")
	return notes
}
