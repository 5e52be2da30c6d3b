package eval

import (
	"math"
	"slices"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// A Coverage counts how often intervals contained values left out of the fit.
type Coverage struct {
	What    string  `json:"what"`
	Covered int     `json:"covered"`
	Of      int     `json:"cases"`
	Share   float64 `json:"covered_share"`
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
	slices.Sort(c.widths)
	c.Share, c.MedianWidth = float64(c.Covered)/float64(c.Of), c.widths[len(c.widths)/2]
}

// leaveOneOut leaves out every row of every table in turn, predicts it from the
// others, and counts how many fall into the 95 % interval.
func leaveOneOut() ([]Coverage, error) {
	rows, err := dataset.Measurements()
	if err != nil {
		return nil, err
	}
	out := []Coverage{{What: "data, structural"}, {What: "data, laws"}, {What: "library"}, {What: "shared, mpich"}, {What: "shared, openmpi"},
		{What: "image files with I/O, mpich"}, {What: "image files with I/O, openmpi"}, {What: "latency"},
		{What: "volume under gzip"}, {What: "latency, shared file system"}, {What: "latency, another system"}}
	by := func(what string) *Coverage {
		return &out[slices.IndexFunc(out, func(c Coverage) bool { return c.What == what })]
	}
	for i := range rows {
		if err := leaveOutRow(rows, i, by); err != nil {
			return nil, err
		}
	}
	if err := leaveOutFiles(by); err != nil {
		return nil, err
	}
	latencies, err := dataset.Latencies()
	if err != nil {
		return nil, err
	}
	for i, l := range latencies {
		e, err := predict.LatencyWithout(latencies, i)
		if err != nil {
			return nil, err
		}
		by("latency").add(e, l.Seconds)
	}
	if err := leaveOutTimes(latencies, by); err != nil {
		return nil, err
	}
	all := Coverage{What: "all"}
	for _, c := range out {
		all.Covered, all.Of = all.Covered+c.Covered, all.Of+c.Of
		all.widths = append(all.widths, c.widths...)
	}
	slices.Sort(all.widths)
	all.Share, all.MedianWidth = float64(all.Covered)/float64(all.Of), all.widths[len(all.widths)/2]
	return append(out, all), nil
}

// leaveOutTimes predicts volumes under gzip, and times on shared file systems.
func leaveOutTimes(latencies []dataset.Latency, by func(string) *Coverage) error {
	for i, l := range latencies {
		if l.Codec != "gzip" {
			continue
		}
		e, err := predict.VolumeWithout(latencies, i)
		if err != nil {
			return err
		}
		by("volume under gzip").add(e, l.StoredMiB)
	}
	base, err := predict.BuiltIn()
	if err != nil {
		return err
	}
	times, err := dataset.CollectiveTimes()
	if err != nil {
		return err
	}
	for i, c := range times {
		for what, stranger := range map[string]bool{"latency, shared file system": false, "latency, another system": true} {
			e, err := predict.CollectiveWithout(base, times, i, stranger)
			if err != nil {
				return err
			}
			by(what).add(e, c.Seconds)
		}
	}
	return nil
}

// leaveOutRow predicts the zones of one row from all other rows. Rows of other tables
// with the same process count stay, because they are measurements too.
func leaveOutRow(rows []dataset.Measurement, i int, by func(string) *Coverage) error {
	r := rows[i]
	var points []fit.Point
	var library []fit.Point
	var shared []dataset.Measurement
	for j, o := range rows {
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
	p := float64(r.NP)
	if w, err := dataset.LoadWorkload(r.App); err == nil && len(points) > 0 {
		d := &fit.Drift{}
		for _, pt := range points {
			inst, err := w.Instance(r.Class, int(pt.P))
			if err != nil {
				return err
			}
			d.Add(pt.P, fit.Structure(inst), pt.MiB)
		}
		inst, err := w.Instance(r.Class, r.NP)
		if err != nil {
			return err
		}
		b, err := d.Predict(p, fit.Structure(inst))
		if err != nil {
			return err
		}
		by("data, structural").add(b.Estimate(1), r.Data)
	}
	if fit.Distinct(points) >= 2 {
		set, err := fit.ChooseLaws(points)
		if err != nil {
			return err
		}
		by("data, laws").add(set.Predict(p), r.Data)
	}
	if r.Library > 0 {
		by("library").add(fit.FitLibrary(library).Predict(), r.Library)
	}
	if r.Shared > 0 && !r.SharedDoubtful {
		f, err := fit.FitShared(r.MPI, shared)
		if err != nil {
			return err
		}
		by("shared, "+r.MPI).add(f.Predict(r.App, r.PPN), r.Shared)
	}
	return nil
}

// leaveOutFiles predicts the files of each job of Tables 5.8, 5.9 and 5.11 from
// the other jobs.
func leaveOutFiles(by func(string) *Coverage) error {
	files, predicted, err := predict.HeldOutFiles()
	if err != nil {
		return err
	}
	for i, f := range files {
		by("image files with I/O, "+f.MPI).add(predicted[i], f.MiB)
	}
	return nil
}
