package eval

import (
	"math"
	"slices"

	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// A Coverage counts how often intervals contained values left out of the fit.
type Coverage struct {
	What    string  `json:"what"`
	Covered int     `json:"covered"`
	Of      int     `json:"cases"`
	Share   float64 `json:"covered_share"`
	// Low and High hold the share that the intervals truly cover, in 95 of 100 draws of as many
	// independent cases. Rows of one job or one system are not independent: it is wider still.
	Low  float64 `json:"covered_low"`
	High float64 `json:"covered_high"`
	// MedianWidth is the median of half width divided by measured value.
	MedianWidth float64 `json:"median_half_width"`
	widths      []float64
	ratios      []float64 // error over half width
}

func (c *Coverage) add(e fit.Estimate, measured float64) {
	c.Of++
	if e.Contains(measured) {
		c.Covered++
	}
	c.widths, c.ratios = append(c.widths, e.Half()/measured), append(c.ratios, math.Abs(e.Value-measured)/e.Half())
}

// sum finishes a count.
func (c *Coverage) sum() error {
	slices.Sort(c.widths)
	c.Share, c.MedianWidth = float64(c.Covered)/float64(c.Of), c.widths[len(c.widths)/2]
	of, err := interval.FitShare(c.Covered, c.Of)
	c.Low, c.High = of.Low, of.High
	return err
}

// The share that intervals of 95 % have to cover.
const (
	leastCovered = 0.92
	mostCovered  = 0.98
)

// Agrees reports whether the cases leave room for such a share.
func (c *Coverage) Agrees() bool { return c.Low <= mostCovered && c.High >= leastCovered }

// coverages counts by what was left out, in the order of the report.
type coverages []Coverage

func (c coverages) of(what string) *Coverage {
	return &c[slices.IndexFunc(c, func(c Coverage) bool { return c.What == what })]
}

// leaveOneOut leaves out every row of every table in turn, predicts it from the
// others, and counts how many fall into the 95 % interval.
func (ev *evaluator) leaveOneOut() []Coverage {
	var out coverages
	for _, what := range []string{"data, structural", "data, laws", "library", "shared, mpich", "shared, openmpi",
		"image files with I/O, mpich", "image files with I/O, openmpi", "latency",
		"volume under gzip", "latency, shared file system", "latency, another system"} {
		out = append(out, Coverage{What: what})
	}
	left := func(what string, measured float64) func(fit.Estimate, error) {
		return func(e fit.Estimate, err error) {
			ev.note(err)
			out.of(what).add(e, measured)
		}
	}
	for i, r := range ev.rows {
		ev.leaveOutRow(i, func(what string, measured float64) func(fit.Estimate, error) {
			return func(e fit.Estimate, err error) {
				left(what, measured)(e, err)
				ev.code(r.App).add(e, measured)
			}
		})
	}
	for i, f := range ev.files {
		left("image files with I/O, "+f.MPI, f.MiB)(ev.heldFiles[i], nil)
	}
	for i, l := range ev.latencies {
		left("latency", l.Seconds)(predict.LatencyWithout(ev.latencies, i))
		if l.Codec == "gzip" {
			left("volume under gzip", l.StoredMiB)(predict.VolumeWithout(ev.latencies, i))
		}
	}
	for i, c := range ev.times {
		left("latency, shared file system", c.Seconds)(predict.CollectiveWithout(ev.base, ev.times, i, false))
		left("latency, another system", c.Seconds)(predict.CollectiveWithout(ev.base, ev.times, i, true))
	}
	all := Coverage{What: "all"}
	for _, c := range out {
		all.Covered, all.Of = all.Covered+c.Covered, all.Of+c.Of
		all.widths = append(all.widths, c.widths...)
	}
	out = append(out, all)
	for i := range out {
		ev.note(out[i].sum())
	}
	for _, c := range ev.codes {
		ev.note(c.sum())
	}
	return out
}

// code counts the zones of one application.
func (ev *evaluator) code(app string) *Coverage {
	if ev.codes == nil {
		ev.codes = map[string]*Coverage{}
	}
	if ev.codes[app] == nil {
		ev.codes[app] = &Coverage{What: app}
	}
	return ev.codes[app]
}

// leaveOutRow predicts the zones of one row from all other rows. Rows of other tables
// with the same process count stay, because they are measurements too.
func (ev *evaluator) leaveOutRow(i int, left func(what string, measured float64) func(fit.Estimate, error)) {
	r := ev.rows[i]
	var points, library []fit.Point
	var shared []dataset.Measurement
	for j, o := range ev.rows {
		if j == i || o.MPI != r.MPI {
			continue
		}
		if o.Series() == r.Series() && o.Data > 0 {
			points = append(points, fit.Point{P: float64(o.NP), MiB: o.Data})
		}
		if o.Library > 0 {
			library = append(library, fit.Point{P: float64(o.NP), MiB: o.Library})
		}
		if o.Shared > 0 && !o.SharedDoubtful {
			shared = append(shared, o)
		}
	}
	if w, err := dataset.LoadWorkload(r.App); err == nil && len(points) > 0 {
		left("data, structural", r.Data)(structureWithout(w, r, points))
	}
	if fit.Distinct(points) >= 2 {
		set, err := fit.ChooseLaws(points)
		if ev.note(err); err == nil {
			left("data, laws", r.Data)(set.Predict(float64(r.NP)), nil)
		}
	}
	if r.Library > 0 {
		left("library", r.Library)(fit.FitLibrary(library).Predict(), nil)
	}
	if r.Shared > 0 && !r.SharedDoubtful {
		f, err := fit.FitShared(r.MPI, shared)
		if ev.note(err); err == nil {
			left("shared, "+r.MPI, r.Shared)(f.Predict(r.App, r.PPN), nil)
		}
	}
}

// structureWithout predicts the data zone of a row by a structure that other points calibrate.
func structureWithout(w *dataset.Workload, r dataset.Measurement, points []fit.Point) (fit.Estimate, error) {
	d := &fit.Drift{}
	for _, pt := range points {
		inst, err := w.Instance(r.Class, int(pt.P))
		if err != nil {
			return fit.Estimate{}, err
		}
		d.Add(pt.P, fit.Structure(inst), pt.MiB)
	}
	inst, err := w.Instance(r.Class, r.NP)
	if err != nil {
		return fit.Estimate{}, err
	}
	b, err := d.Predict(float64(r.NP), fit.Structure(inst))
	return b.Estimate(1), err
}
