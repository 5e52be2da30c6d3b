package benchmarks

import (
	"context"
	"errors"
	"fmt"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// A sweep is a series of runs of the write benchmark on one storage.
type sweep struct {
	system *pfs.System
	groups []sweepGroup
	nodes  int   // 0: one rank on each
	bytes  int64 // of each rank
	seed   uint64
	ranks  int    // unless the sweep varies them
	text   string // of --sweep
	found  [][]sweepRun
}

// A sweepRun is what became of a point.
type sweepRun struct {
	sweepPoint
	nodes, aggregators int
	pfs.JobResult
}

// newSweep reads what the user asked for. The base is what Larrosa settled on (section
// 2.4), on no more OSTs than there are.
func newSweep(system *pfs.System, o *storageOptions) (*sweep, error) {
	s := &sweep{system: system, nodes: o.nodes, seed: o.seed, ranks: o.ranks, text: o.sweep}
	size, err := ui.ParseSize("--bytes", o.bytes)
	if err != nil {
		return nil, err
	}
	if s.bytes = size; size%plan.PageSize != 0 {
		return nil, ui.BadUsage(fmt.Sprintf("--bytes %s: want a multiple of %d", o.bytes, plan.PageSize), "write --bytes 2GiB")
	}
	var terms []sweepTerm
	if o.sweep != "" {
		if terms, err = parseSweep(o.sweep); err != nil {
			return nil, err
		}
	}
	base := sweepPoint{settings: plan.Defaults(), ranks: o.ranks}
	base.settings.Layout = plan.Shared
	base.settings.Aggregators = plan.Auto
	base.settings.Buffer = 10 << 20
	base.settings.StripeCount = min(base.settings.StripeCount, system.Targets.Count)
	s.groups = sweepGroups(terms, base)
	for i := range s.groups {
		if err := s.check(&s.groups[i]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// check drops the usual values that suit no plan, and refuses those that the user chose.
func (s *sweep) check(g *sweepGroup) error {
	var sound []sweepPoint
	var last *plan.SettingError
	for _, p := range g.points {
		_, err := s.plan(p)
		setting, unsuitable := errors.AsType[*plan.SettingError](err)
		switch {
		case err == nil:
			sound = append(sound, p)
			continue
		case !unsuitable:
			return err
		case g.chosen():
			return s.refuse(setting)
		}
		last = setting
	}
	if g.points = sound; len(sound) == 0 {
		return s.refuse(last)
	}
	return nil
}

// refuse makes an error of package plan one about the sweep.
func (s *sweep) refuse(e *plan.SettingError) error {
	name := e.Setting
	switch name {
	case "stripe-size":
		name = "stripes"
	case "stripe-count":
		name = "osts"
	}
	if s.text != "" {
		name = "--sweep " + s.text + ": " + name
	}
	return ui.BadUsage(fmt.Sprintf("%s of %s: %s", name, e.Value, e.Reason), e.Remedy)
}

// segment is what a rank has of a row of the array.
const segment = 128 << 10

// array returns the array of a point: two-dimensional, in blocks as square as the ranks
// allow. Ranks that write for themselves, and files of several kinds, have none.
func (s *sweep) array(p sweepPoint) *pfs.Array {
	if p.settings.Layout != plan.Shared || p.settings.Strategy == plan.Individual || s.bytes%segment != 0 {
		return nil
	}
	columns := 1
	for c := 2; c*c <= p.ranks; c++ {
		if p.ranks%c == 0 {
			columns = c
		}
	}
	return &pfs.Array{Columns: columns, Segment: segment}
}

// plan makes the plan of a point: each rank has as many bytes. An array fills the file.
func (s *sweep) plan(p sweepPoint) (*plan.Plan, error) {
	if p.settings.StripeCount > s.system.Targets.Count {
		return nil, &plan.SettingError{Setting: "stripe-count", Value: fmt.Sprint(p.settings.StripeCount),
			Reason: fmt.Sprintf("%s has %d", s.system.Name, s.system.Targets.Count), Remedy: fmt.Sprintf("give at most %d", s.system.Targets.Count)}
	}
	p.settings.Unaligned = s.array(p) != nil
	nodes := s.nodesOf(p)
	sources := make([]plan.Source, p.ranks)
	for i := range sources {
		sources[i] = plan.Source{Rank: i, Node: i * nodes / p.ranks, Pieces: []plan.Piece{{Bytes: s.bytes, Align: true}}}
	}
	return plan.New(sources, p.settings)
}

func (s *sweep) nodesOf(p sweepPoint) int {
	if s.nodes == 0 {
		return p.ranks
	}
	return min(s.nodes, p.ranks)
}

// bytesOf returns the bytes of all runs.
func (s *sweep) bytesOf() (n int64) {
	for i := range s.groups {
		for _, p := range s.groups[i].points {
			n += int64(p.ranks) * s.bytes
		}
	}
	return n
}

// run carries out all runs, and tells how many bytes are written.
func (s *sweep) run(ctx context.Context, progress func(done int64)) error {
	before := int64(0)
	for _, g := range s.groups {
		var found []sweepRun
		for _, p := range g.points {
			r, err := s.one(ctx, p, func(done, of int64) {
				// A file may be longer than its data.
				progress(before + int64(float64(done)/float64(of)*float64(p.ranks)*float64(s.bytes)))
			})
			if err != nil {
				return err
			}
			found = append(found, r)
			before += int64(p.ranks) * s.bytes
		}
		s.found = append(s.found, found)
	}
	return nil
}

// one carries out one run. Larrosa's benchmark closes its file, and syncs nothing.
func (s *sweep) one(ctx context.Context, point sweepPoint, progress func(done, of int64)) (sweepRun, error) {
	p, err := s.plan(point)
	if err != nil {
		return sweepRun{}, err
	}
	result, err := pfs.Run(ctx, s.system, []pfs.Job{{Plan: p, Array: s.array(point)}}, pfs.Options{Seed: s.seed, Progress: progress})
	if err != nil {
		return sweepRun{}, err
	}
	return sweepRun{sweepPoint: point, nodes: s.nodesOf(point), aggregators: len(p.Writers), JobResult: result.Jobs[0]}, nil
}
