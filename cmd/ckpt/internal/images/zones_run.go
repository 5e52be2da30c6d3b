package images

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"ckpt/cmd/ckpt/internal/program"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/zones"
	"ckpt/zones/proc"
	"ckpt/zones/source"
)

const (
	lookEvery   = 200 * time.Millisecond
	steadyShare = 0.005 // memory that changes less is steady
)

// running starts a command, looks at its processes until their memory is steady, and
// ends it.
func (o *zonesOptions) running(ctx context.Context, g *ui.Globals, rules *zones.Rules, measure proc.Measure, command []string) ([]*zones.Process, error) {
	settle, err := ui.ParseDuration("--settle", o.settle)
	if err != nil {
		return nil, err
	}
	within, err := ui.ParseDuration("--within", o.within)
	if err != nil {
		return nil, err
	}
	if err := ui.CheckProgram(command[0]); err != nil {
		return nil, err
	}
	p, err := program.Start(command, g.Err)
	if err != nil {
		return nil, err
	}
	defer p.End()
	w := watch{settle: settle}
	deadline := time.After(within)
	for ticks := time.NewTicker(lookEvery); ; {
		select {
		case <-ctx.Done():
			return nil, ui.ErrInterrupted
		case <-p.Over():
			return w.ended(g, command[0], p.Err())
		case <-deadline:
			if w.best == nil {
				return nil, fmt.Errorf("%s: no process had its memory within %s", command[0], o.within)
			}
			g.Warn("%s: its memory was not steady within %s; the largest is shown", command[0], o.within)
			return w.best, nil
		case <-ticks.C:
		}
		ps, _, err := proc.Tree(ctx, p.PID(), proc.Options{Measure: measure})
		if err != nil {
			continue // it ends, or has just begun
		}
		for _, q := range ps {
			rules.Classify(q)
		}
		if w.steady(ps, time.Now()) {
			return ps, nil
		}
	}
}

// A watch decides when the memory of a program is steady.
type watch struct {
	settle time.Duration
	since  time.Time // when the memory last changed
	ranks  int
	bytes  int64
	best   []*zones.Process // the look with the most memory
	most   int64
}

// steady notes a look, and reports whether number and memory of the ranks have not
// changed for the time to settle.
func (w *watch) steady(ps []*zones.Process, now time.Time) bool {
	source.Settle(ps)
	ranks, bytes := 0, int64(0)
	for _, p := range ps {
		if p.Role == zones.RoleRank {
			ranks++
			bytes += p.Image()
		}
	}
	if ranks > 0 && bytes > w.most {
		w.best, w.most = ps, bytes
	}
	if ranks == 0 || ranks != w.ranks || math.Abs(float64(bytes-w.bytes)) > steadyShare*float64(w.bytes) {
		w.ranks, w.bytes, w.since = ranks, bytes, now
		return false
	}
	return now.Sub(w.since) >= w.settle
}

// ended returns what was seen of a program that ended before its memory was steady.
func (w *watch) ended(g *ui.Globals, name string, err error) ([]*zones.Process, error) {
	switch {
	case w.best == nil && err != nil:
		return nil, fmt.Errorf("%s ended before its memory was seen: %w", name, err)
	case w.best == nil:
		return nil, ui.WithHint(errors.New(name+" ended before its memory was seen"), "let it run for some seconds")
	}
	g.Warn("%s ended before its memory was steady; the largest is shown", name)
	return w.best, nil
}
