package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/zones"
	"ckpt/zones/source"
)

// A moment is what a checkpoint would hold if it were taken then.
type moment struct {
	Elapsed float64     `json:"elapsed_s"`
	Zones   zones.Sizes `json:"zones"` // of all processes
	Bytes   int64       `json:"gstored_bytes"`
}

// A course is the memory of processes over time. A checkpoint is cheapest at the smallest
// moment (León 2022, Algorithm 1, line 4).
type course struct {
	Moments  []moment `json:"moment_list"`
	Smallest moment   `json:"smallest_moment"`
	Largest  moment   `json:"largest_moment"`
}

// watched looks at live processes every now and then, until they end, the time is up, or the
// user interrupts it.
func (o *zonesOptions) watched(ctx context.Context, g *ui.Globals, rules *zones.Rules, measure source.Measure, every, within time.Duration) error {
	var c course
	line := func(cells ...any) {
		if !g.JSON {
			g.Printf("%9s %12s %12s %12s %12s %12s\n", cells...)
		}
	}
	line("at", "library", "data", "shared", "iobuffer", "checkpoint")
	begin := time.Now()
	over := begin.Add(within)
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		at := time.Since(begin)
		ps, err := o.live(ctx, g, rules, measure)
		if len(c.Moments) == 0 && err != nil {
			return ui.SourceError(err)
		}
		if err != nil {
			break
		}
		m := momentOf(ps, at)
		c.Moments = append(c.Moments, m)
		line(ui.Seconds(at.Seconds()), ui.Bytes(float64(m.Zones.Library)), ui.Bytes(float64(m.Zones.Data)),
			ui.Bytes(float64(m.Zones.Shared)), ui.Bytes(float64(m.Zones.IOBuffer)), ui.Bytes(float64(m.Bytes)))
		select {
		case <-ticks.C:
			continue
		case <-time.After(time.Until(over)):
		case <-ctx.Done():
		}
		break
	}
	size := func(a, b moment) int { return cmp.Compare(a.Bytes, b.Bytes) }
	c.Smallest, c.Largest = slices.MinFunc(c.Moments, size), slices.MaxFunc(c.Moments, size)
	if g.JSON {
		return g.PrintJSON(c)
	}
	return g.Printf("\n%s\n", c.cheapest())
}

// cheapest says at which moment a checkpoint is the smallest.
func (c *course) cheapest() string {
	at := func(m moment) string { return ui.Seconds(m.Elapsed) }
	if len(c.Moments) == 1 {
		return "one look has no moment to choose: give a shorter --every, or a longer --within"
	}
	if c.Smallest.Bytes == c.Largest.Bytes {
		return fmt.Sprintf("a checkpoint is as large at any of %d moments: %s", len(c.Moments), ui.Bytes(float64(c.Smallest.Bytes)))
	}
	return fmt.Sprintf("a checkpoint is smallest at %s: %s, %.0f %% less than the largest, %s at %s", at(c.Smallest), ui.Bytes(float64(c.Smallest.Bytes)),
		100*(1-float64(c.Smallest.Bytes)/float64(c.Largest.Bytes)), ui.Bytes(float64(c.Largest.Bytes)), at(c.Largest))
}

func momentOf(ps []*zones.Process, at time.Duration) moment {
	source.Settle(ps)
	m := moment{Elapsed: at.Seconds()}
	for _, p := range ps {
		m.Zones = m.Zones.Plus(p.Sizes())
	}
	for _, c := range source.Checkpoints(ps) {
		m.Bytes += c.Gstored
	}
	return m
}

// everyAndWithin reads --every and --within.
func (o *zonesOptions) everyAndWithin() (every, within time.Duration, err error) {
	if every, err = ui.ParseDuration("--every", o.every); err != nil {
		return 0, 0, err
	}
	if o.pid == 0 || o.csv || o.areas {
		return 0, 0, errors.New("--every needs --pid, and excludes --csv and --areas")
	}
	within = 365 * 24 * time.Hour
	if o.limited {
		within, err = ui.ParseDuration("--within", o.within)
	}
	if err == nil && (every < time.Millisecond || within < every) {
		err = fmt.Errorf("--every %s: want 1ms or more, and no more than --within", o.every)
	}
	return every, within, err
}
