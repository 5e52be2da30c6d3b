package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/tune"
	"ckpt/image/bench"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// A calibration runs jobs in a directory that probes have measured.
type calibration struct {
	trials
	sys   *pfs.System
	until time.Time
	packs map[string][]pfs.CodecSpeed // by codec, of all rounds
}

// calibrationTrials are small and short.
func calibrationTrials() []trial {
	shape := func(layout plan.Layout, np, nodes int, app, codec string) trial {
		s := plan.Defaults()
		s.Layout = layout
		return trial{App: app, NP: np, Nodes: nodes, Settings: s, Codec: codec}
	}
	return []trial{
		shape(plan.PerRank, 4, 1, "minighost.W", "none"),
		shape(plan.Shared, 8, 2, "minighost.W", "none"),
		shape(plan.PerRank, 4, 1, packApp, "none"),
		shape(plan.PerRank, 2, 1, "minighost.S", "none"),
		shape(plan.PerRank, 8, 1, packApp, "none"),
		shape(plan.PerRank, 16, 1, "minighost.S", "none"),
		shape(plan.Aggregated, 16, 4, "minighost.S", "none"),
		shape(plan.Shared, 4, 2, "minighost.A", "none"),
		shape(plan.Aggregated, 8, 2, "minighost.A", "none"),
		shape(plan.PerRank, 8, 1, "minighost.A", "zstd"),
		shape(plan.Shared, 8, 2, "minighost.A", "s2"),
		shape(plan.Shared, 16, 1, "minighost.S", "none"),
		shape(plan.PerRank, 4, 1, "minighost.A", "s2"),
		shape(plan.PerRank, 16, 1, "minighost.W", "none"),
		shape(plan.Aggregated, 4, 1, "minighost.A", "none"),
		shape(plan.Aggregated, 8, 4, "minighost.W", "zstd"),
		shape(plan.Shared, 4, 1, "minighost.A", "zstd"),
		shape(plan.PerRank, 2, 1, "minighost.A", "none"),
		shape(plan.Shared, 16, 2, "minighost.A", "none"),
		shape(plan.PerRank, 2, 1, "minighost.W", "none"),
		shape(plan.Aggregated, 2, 2, "minighost.A", "none"),
	}
}

// heldOut says which of the trials are for the misfit.
func heldOut(i int) bool { return i%4 == 3 }

const (
	// checkpointsEach is how many checkpoints a trial takes; the first does not count.
	checkpointsEach = 6
	// fewestTrials run even if the time is over.
	fewestTrials = 2
	// packApp is the application whose images codecs are tried on, packBytes at most.
	packApp   = "minighost.A"
	packBytes = 16 << 20
)

// run runs the trials in turns, as the time and the space suffice, and calibrates.
func (c *calibration) run(ctx context.Context) (*pfs.System, []trialRow, error) {
	c.seen, c.packs = c.pack, make(map[string][]pfs.CodecSpeed)
	list := calibrationTrials()
	all, err := c.runUntil(ctx, list)
	if err != nil {
		return nil, nil, err
	}
	c.enterCodecs()
	return c.calibrate(ctx, list, all)
}

// runUntil runs trials in turns until the time is over.
func (c *calibration) runUntil(ctx context.Context, list []trial) ([][]outcome, error) {
	all := make([][]outcome, len(list))
	bar := c.g.NewBar("jobs", int64(len(list)), false)
	defer bar.Clear()
	for ran, n := 0, 0; n < ran+len(list) && !(ran >= fewestTrials && time.Now().After(c.until)); n++ {
		i := n % len(list)
		o, err := c.trials.run(ctx, &list[i], checkpointsEach)
		if errors.Is(err, errTooLarge) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all[i] = append(all[i], o)
		ran++
		bar.Set(int64(min(ran, len(list))))
	}
	return all, nil
}

// calibrate fits what the description gives to what the trials took.
func (c *calibration) calibrate(ctx context.Context, list []trial, all [][]outcome) (*pfs.System, []trialRow, error) {
	var runs []tune.Measured
	rows := []trialRow{}
	for i := range list {
		if len(all[i]) == 0 {
			continue
		}
		cs, err := list[i].forecast()
		if err != nil {
			return nil, nil, err
		}
		o := joined(all[i])
		runs = append(runs, tune.Measured{Case: cs, Coordination: o.Coordination, Latency: o.Latency, HeldOut: heldOut(i)})
		rows = append(rows, newTrialRow(list[i], o, &tune.Forecast{}))
	}
	if n := len(list) - len(rows); n > 0 {
		c.sys.Unknown = append(c.sys.Unknown, fmt.Sprintf("%d of %d jobs: the time or the space was too short", n, len(list)))
	}
	if len(rows) == 0 {
		c.sys.Unknown = append(c.sys.Unknown, "what ckpt itself costs: no job was run")
		return c.sys, rows, nil
	}
	sys, compared, err := tune.Calibrate(ctx, c.sys, runs)
	for i := range compared {
		rows[i].HeldOut = compared[i].HeldOut
		rows[i].predicted(&compared[i].Forecast)
	}
	return sys, rows, err
}

// pack tries the codecs on the image of a rank, of a trial that stores it raw.
func (c *calibration) pack(ctx context.Context, t *trial, store string) error {
	if t.App != packApp || t.Settings.Layout != plan.PerRank || t.Codec != "none" {
		return nil
	}
	images, err := imagesOf(store)
	if err != nil || len(images) == 0 {
		return err
	}
	x, err := bench.ReadExtents(ctx, images[len(images)-1], packBytes)
	if err != nil {
		return err
	}
	results, err := x.Codecs(ctx, nil)
	for _, r := range results {
		c.packs[r.Codec] = append(c.packs[r.Codec], pfs.CodecSpeed{Pack: pfs.Rate(r.Encode), Ratio: 1 / r.Ratio})
	}
	return err
}

// enterCodecs enters how fast the codecs are, and what they leave, in medians: data differ
// between numbers of ranks.
func (c *calibration) enterCodecs() {
	c.sys.Codecs = make(map[string]pfs.CodecSpeed)
	for name, list := range c.packs {
		if name == "none" {
			continue
		}
		var rates, ratios []float64
		for _, s := range list {
			rates, ratios = append(rates, float64(s.Pack)), append(ratios, s.Ratio)
		}
		c.sys.Codecs[name] = pfs.CodecSpeed{Pack: pfs.Rate(medianOf(rates)), Ratio: medianOf(ratios)}
	}
}
