package predict

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// drawPoints draws a falling data zone at two or more process counts, off by up
// to a few percent, as measurements are.
func drawPoints(t *rapid.T) []fit.Point {
	n := rapid.IntRange(2, 8).Draw(t, "points")
	a := rapid.Float64Range(1, 1e5).Draw(t, "volume")
	b := rapid.Float64Range(0, 1e3).Draw(t, "surface")
	p, out := 1., []fit.Point{}
	for range n {
		p *= rapid.Float64Range(1.3, 3).Draw(t, "step")
		noise := rapid.Float64Range(0.97, 1.03).Draw(t, "noise")
		q := math.Ceil(p) + float64(len(out)) // different counts
		out = append(out, fit.Point{P: q, MiB: (a/q + b*math.Pow(q, -2./3)) * noise})
	}
	return out
}

// Predictions of the laws are positive and, for volume and surface, fall with p.
func TestLawsPositiveAndMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		set, err := fit.ChooseLaws(points)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range set.Laws() {
			last := math.Inf(1)
			for p := 1.; p < 1e5; p *= 1.5 {
				v := f.At(p)
				if !(v > 0) {
					t.Fatalf("%s is %g at %g", f.Law, v, p)
				}
				if v > last*(1+1e-9) && f.Law != fit.Power && f.Law != fit.PowerFloor {
					t.Fatalf("%s rises at %g", f.Law, p)
				}
				last = v
			}
		}
		for p := 1.; p < 1e5; p *= 5 {
			if e := set.Predict(p); !(e.Value > 0) || e.Low < 0 || e.Low > e.Value || e.High < e.Value {
				t.Fatalf("%+v at %g", e, p)
			}
		}
	})
}

// Measured in other units, everything scales.
func TestLawsScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		c := rapid.SampledFrom([]float64{1. / 1024, 1024, 1 << 20}).Draw(t, "unit")
		scaled := slices.Clone(points)
		for i := range scaled {
			scaled[i].MiB *= c
		}
		a, err := fit.ChooseLaws(points)
		if err != nil {
			t.Fatal(err)
		}
		b, err := fit.ChooseLaws(scaled)
		if err != nil {
			t.Fatal(err)
		}
		p := rapid.Float64Range(1, 1e4).Draw(t, "p")
		x, y := a.Predict(p), b.Predict(p)
		if math.Abs(y.Value/x.Value/c-1) > 1e-4 || math.Abs(y.High/x.High/c-1) > 1e-3 {
			t.Fatalf("%g at %g becomes %g, not %g times", x.Value, p, y.Value, c)
		}
	})
}

// Intervals widen away from the data: those of laws relative to the value, those
// of the runtime constant in MiB.
func TestIntervalsWiden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t)
		set, err := fit.ChooseLaws(points)
		if err != nil {
			t.Fatal(err)
		}
		edge := set.Predict(set.High)
		for p := set.High; p < 100*set.High; p *= 2.5 {
			if e := set.Predict(p); e.High/e.Value < edge.High/edge.Value*(1-1e-9) || e.Low/e.Value > edge.Low/edge.Value*(1+1e-9) {
				t.Fatalf("%g: interval of %+v is narrower than where the points end, %+v", p, e, edge)
			}
		}
		d := &fit.Drift{}
		for _, pt := range points {
			d.Add(pt.P, fit.Arrays{All: 100, Written: 100}, 100+rapid.Float64Range(0.3, 3).Draw(t, "constant"))
		}
		for _, step := range []float64{1.3, 1 / 1.3} {
			last, p := 0., set.High
			if step < 1 {
				p = set.Low
			}
			for range 10 {
				b, err := d.Predict(p, fit.Arrays{All: 100, Written: 100})
				if err != nil {
					t.Fatal(err)
				}
				if e := b.Estimate(1); e.High-e.Low < 0.85*last { // curves of several laws cross
					t.Fatalf("%g: constant surer than nearer to the data", p)
				} else {
					last, p = e.High-e.Low, p*step
				}
			}
		}
	})
}

// Sizes of any job are positive, files add up to the total, zones to the file,
// and the interval holds the value.
func TestSizesAddUp(t *testing.T) {
	m := model(t)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"bt", "sp", "lu", "cg", "minighost"}).Draw(t, "app")
		class := rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "class")
		np := map[string][]int{"bt": {1, 4, 9, 64, 144}, "sp": {1, 4, 9, 64, 144}, "cg": {1, 2, 32, 128}}[name]
		if np == nil {
			np = []int{1, 7, 48, 130}
		}
		w, err := dataset.LoadWorkload(name)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := w.Instance(class, rapid.SampledFrom(np).Draw(t, "np"))
		if err != nil {
			t.Fatal(err)
		}
		r := Request{App: AppOf(inst),
			MPI:     rapid.SampledFrom([]string{"mpich", "openmpi"}).Draw(t, "mpi"),
			IO:      rapid.SampledFrom([]IO{NoIO, SimpleIO, FullIO}).Draw(t, "io"),
			Mapping: Blocks(inst.NP, rapid.IntRange(1, inst.NP).Draw(t, "ppn"))}
		if r.IO == FullIO {
			r.Aggregators = rapid.IntRange(0, inst.NP).Draw(t, "aggregators")
			r.BufferMiB = rapid.SampledFrom([]float64{0, 1, 16, 64}).Draw(t, "buffer")
		}
		s, err := m.Size(r)
		if err != nil {
			t.Fatal(err)
		}
		count, total := 0, MiB(0)
		for _, f := range s.Files {
			count += f.Count
			total += MiB(f.Count) * f.MiB
			if !(f.MiB > 0) || f.Low > f.MiB || f.High < f.MiB || f.Low < 0 {
				t.Fatalf("file %+v", f)
			}
			if math.Abs(float64(f.Zones.Total()/f.MiB)-1) > 1e-6 {
				t.Fatalf("zones %+v add up to %g, not %g", f.Zones, f.Zones.Total(), f.MiB)
			}
		}
		if count != inst.NP || math.Abs(float64(s.TotalMiB/total)-1) > 1e-6 || s.LowMiB > s.TotalMiB || s.HighMiB < s.TotalMiB {
			t.Fatalf("%d files, %g of %g MiB [%g, %g]", count, total, s.TotalMiB, s.LowMiB, s.HighMiB)
		}
		for _, codec := range fit.Codecs() {
			tm, err := m.Time(r, codec, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !(tm.Latency.Total > 0) || tm.LowS > tm.Latency.Total || tm.HighS < tm.Latency.Total || tm.StoredMiB > tm.TotalMiB*(1+1e-9) {
				t.Fatalf("%s: %+v", codec, tm)
			}
		}
	})
}

// More processes on a node never make its shared zone smaller.
func TestSharedMonotone(t *testing.T) {
	m := model(t)
	for _, mpi := range []string{"mpich", "openmpi"} {
		last := 0.
		for pn := 1; pn <= 256; pn++ {
			e := m.SharedZone(mpi, "bt", pn)
			if e.Value < last {
				t.Errorf("%s: shared zone falls at %d", mpi, pn)
			}
			last = e.Value
		}
	}
}
