package jobs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image/pfs"
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

// clashes are the rows of the table about numbers of package plan.
var clashes = map[string]string{"aggregators": job.ClashWriters, "buffer": job.ClashBuffer}

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
	text := fmt.Sprintf("--%s %s: %s", setting.Setting, value, setting.Reason)
	if key, ok := clashes[setting.Setting]; ok && strings.HasPrefix(setting.Reason, "must be at") || setting.Setting == "aggregators" {
		return job.Clash(key, text, setting.Remedy)
	}
	return ui.BadUsage(text, setting.Remedy)
}

// combination refuses flags that make no sense together.
func (w *writePath) combination() error {
	return job.CheckCombinations(flagLookup(w.flags, "layout", "strategy", "aggregators", "p2", "p3", "p4"))
}

// chosenTargets is the flag that says on which targets of a described storage files lie.
type chosenTargets struct{ text string }

func (o *chosenTargets) addFlag(f *pflag.FlagSet) {
	f.StringVar(&o.text, "osts", "", "with --on: OSTs that the files lie on, like 0-3,8 (default: as the file system deals them)")
}

// needStorage refuses a choice among OSTs that no storage describes.
func (o *chosenTargets) needStorage() error {
	if o.text == "" {
		return nil
	}
	return ui.BadUsage("--osts "+o.text+": only a described storage has OSTs to choose", "add --on, like --on eos-spider2")
}

// of reads the OSTs; nil without a choice.
func (o *chosenTargets) of(sys *pfs.System) (list []int, err error) {
	if o.text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(o.text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to-from >= sys.Targets.Count {
			return nil, ui.BadUsage("--osts "+o.text+": want numbers of OSTs and ranges of them", "write them like 0-3,8")
		}
		for n := from; n <= to; n++ {
			list = append(list, n)
		}
	}
	if err := sys.Targets.CheckChoice(list); err != nil {
		return nil, ui.BadUsage("--osts "+o.text+": "+err.Error(), "ckpt layout with --on shows the targets of a storage")
	}
	return list, nil
}
