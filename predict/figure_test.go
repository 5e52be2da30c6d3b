package predict

import (
	"ckpt/predict/fit"
	"testing"
)

// The figures of the thesis can be drawn from its tables.
func TestFigures(t *testing.T) {
	for _, c := range []struct {
		name, table, series string
		q                   Quantity
		only                []int
		law                 fit.Law
	}{
		{"3.21", "5.16", "bt.B mpich", DataQuantity, []int{4, 25, 36}, fit.Auto},
		{"3.22", "5.1", "bt.B mpich", SharedQuantity, []int{36}, fit.Auto},
		{"4.3", "4.1", "bt.D mpich", DataQuantity, []int{16, 25, 36}, fit.Auto},
		{"4.4", "4.2", "sp.B mpich", DataQuantity, []int{4, 16, 25}, fit.Thesis},
		{"4.5", "4.3", "bt.D mpich", DataQuantity, []int{16, 25, 36}, fit.Structural},
		{"4.6", "4.3", "bt.D mpich", SharedQuantity, nil, fit.Auto},
		{"5.1", "4.3", "bt.D mpich", TotalQuantity, []int{16}, fit.Auto},
	} {
		f, err := NewFigure(c.q, rowsOf(t, c.table, c.series), c.only, c.law)
		if err != nil {
			t.Errorf("Figure %s: %v", c.name, err)
			continue
		}
		if len(f.Fitted) == 0 || len(f.Curve) < 5 || f.CurveName == "" {
			t.Errorf("Figure %s: %d points, %d of curve %q", c.name, len(f.Fitted), len(f.Curve), f.CurveName)
		}
		for _, b := range f.Curve {
			if !(b.Low <= b.Y && b.Y <= b.High && b.Y > 0) {
				t.Errorf("Figure %s: %+v", c.name, b)
			}
		}
	}
}
