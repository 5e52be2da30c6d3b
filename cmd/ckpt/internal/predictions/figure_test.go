package predictions

import (
	"math"
	"testing"
	"time"

	"gonum.org/v1/plot"

	"ckpt/interval"
	"ckpt/predict"
)

// within reports whether a point is inside the axes, not at their edge.
func within(a *plot.Axis, x float64) bool { return a.Norm(x) > 0 && a.Norm(x) < 1 }

// TestAskedPointInside: the point that is asked for is inside the axes with its
// interval, far outside the measured points as well.
func TestAskedPointInside(t *testing.T) {
	m, err := predict.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"bt.D.400", "bt.D.16", "bt.D.961", "lu.C.20", "sp.B.4"} {
		app, err := m.Application(job, 0)
		if err != nil {
			t.Fatal(err)
		}
		r := predict.Request{App: app, Mapping: []int{app.NP}}
		f, err := m.Figure(r)
		if err != nil {
			t.Fatalf("%s: %v", job, err)
		}
		s, err := m.Size(r)
		if err != nil {
			t.Fatal(err)
		}
		if f.Asked == nil || f.Asked.X != float64(app.NP) || f.Asked.Y != float64(s.Zones.Data) || f.Asked.Low >= f.Asked.Y || f.Asked.High <= f.Asked.Y {
			t.Fatalf("%s: asked %+v, the prediction is %v", job, f.Asked, s.Zones.Data)
		}
		p, err := sizePlot(f)
		if err != nil {
			t.Fatalf("%s: %v", job, err)
		}
		if !within(&p.X, f.Asked.X) || !within(&p.Y, f.Asked.Low) || !within(&p.Y, f.Asked.High) {
			t.Errorf("%s: %+v is not inside x %v to %v, y %v to %v", job, *f.Asked, p.X.Min, p.X.Max, p.Y.Min, p.Y.Max)
		}
		for _, pt := range f.Fitted {
			if !within(&p.X, pt.X) || !within(&p.Y, pt.Y) {
				t.Errorf("%s: measured point %+v is not inside", job, pt)
			}
		}
		for _, b := range f.Curve {
			if !within(&p.X, b.X) || !within(&p.Y, b.High) {
				t.Errorf("%s: the curve leaves the axes at %+v", job, b)
			}
		}
	}
}

// TestResidualsInside: below the law stand the differences of all points and the interval
// of the point asked for, on the same horizontal axis.
func TestResidualsInside(t *testing.T) {
	m, err := predict.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"bt.D.400", "sp.B.4", "lu.C.20"} {
		app, err := m.Application(job, 0)
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.Figure(predict.Request{App: app})
		if err != nil {
			t.Fatal(err)
		}
		above, err := sizePlot(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := residualPlot(f, above)
		if err != nil {
			t.Fatal(err)
		}
		if p.X.Min != above.X.Min || p.X.Max != above.X.Max || len(f.Residuals) != len(f.Fitted)+len(f.Held) || len(f.Residuals) == 0 {
			t.Errorf("%s: %d residuals, x from %v to %v", job, len(f.Residuals), p.X.Min, p.X.Max)
		}
		for i, r := range f.Residuals {
			want := f.Fitted[i].Y
			if at := want / (1 + r.Share); !within(&p.Y, 100*r.Share) || !within(&p.Y, 100*r.Low) || !within(&p.Y, 100*r.High) || math.Abs(at/want-1) > 0.2 || r.X != f.Fitted[i].X {
				t.Errorf("%s: %+v of %v is not inside y %v to %v", job, r, f.Fitted[i], p.Y.Min, p.Y.Max)
			}
		}
		if a := f.Asked; !within(&p.Y, 100*(a.High/a.Y-1)) || !within(&p.Y, 100*(a.Low/a.Y-1)) {
			t.Errorf("%s: the interval of %+v is not inside y %v to %v", job, *a, p.Y.Min, p.Y.Max)
		}
	}
}

// TestGivenIntervalInside: an interval far from the best one is inside the axes.
func TestGivenIntervalInside(t *testing.T) {
	m := &interval.Model{Cost: 5 * time.Minute, MTBF: 24 * time.Hour, Restart: 10 * time.Minute}
	for _, given := range []time.Duration{time.Minute, 2 * time.Hour, 100 * time.Hour} {
		waste, err := m.Waste(given)
		if err != nil {
			t.Fatal(err)
		}
		rules := []interval.RuleRow{{Rule: "exact", Interval: 7000, Waste: 0.0874}, {Rule: "given", Interval: given.Seconds(), Waste: waste}}
		p, err := wastePlot(m, rules)
		if err != nil {
			t.Fatal(err)
		}
		if !within(&p.X, given.Seconds()) || !within(&p.Y, 100*waste) || p.Y.Min != 0 {
			t.Errorf("%v with a waste of %.1f %% is not inside x %v to %v, y %v to %v", given, 100*waste, p.X.Min, p.X.Max, p.Y.Min, p.Y.Max)
		}
	}
}
