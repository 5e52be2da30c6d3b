package predict

import (
	"math"
	"sync"
	"testing"

	"ckpt/dataset"
)

var evaluateOnce = sync.OnceValues(func() (*Evaluation, error) { return Evaluate(budget) })

// evaluation returns the evaluation, which tests share.
func evaluation(t *testing.T) *Evaluation {
	t.Helper()
	ev, err := evaluateOnce()
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// Every table of the issue has its rows, every row its errors, and the worked
// examples their counts.
func TestEvaluate(t *testing.T) {
	ev := evaluation(t)
	tables, counts := map[string]int{}, 0
	for _, r := range ev.Rows {
		tables[r.Table]++
		if r.Measured != nil && r.Ours != nil && (r.OurError == nil || math.Abs(*r.OurError-(*r.Ours / *r.Measured - 1)) > 1e-12) {
			t.Errorf("%s %s %s: error is missing or wrong", r.Table, r.Row, r.Quantity)
		}
		if r.Ours == nil {
			t.Errorf("%s %s %s: no prediction", r.Table, r.Row, r.Quantity)
		}
		if r.Quantity == "count" {
			counts++
			if *r.Ours != 2 || *r.Thesis != 2 {
				t.Errorf("%s %s: %g checkpoints, the thesis %g", r.Table, r.Row, *r.Ours, *r.Thesis)
			}
		}
	}
	evaluated, described := 0, 0
	for _, u := range ev.Tables {
		if u.Evaluated {
			evaluated++
			t.Logf("%-9s %3d rows of %v: median %.2f %%, max %.2f %%, %d of %d covered", u.Table, u.Rows, u.Compared, 100*u.Median, 100*u.Max, u.Covered, u.Cases)
		} else {
			described++
			t.Logf("%-9s described: %s", u.Table, u.Reason)
		}
		if u.Evaluated && (u.Rows == 0 || tables[u.Table] < u.Rows || u.Rows < u.Cases || u.Cases < u.Covered) {
			t.Errorf("%s: %d rows have errors, of %d", u.Table, u.Rows, tables[u.Table])
		}
	}
	// PREDICT.md says so.
	if evaluated != 42 || described != 10 || len(ev.Tables) != len(dataset.TableNames()) {
		t.Errorf("%d tables evaluated and %d described, of %d", evaluated, described, len(dataset.TableNames()))
	}
	for _, table := range []string{"4.1", "4.2", "4.3", "4.5", "4.6", "4.7", "5.1", "5.2", "5.16", "5.3", "5.4", "5.5", "5.6", "5.8", "5.9", "5.10", "5.11", "3.1", "5.17", "5.18", "fig 4.2", "fig 5.9"} {
		if tables[table] == 0 {
			t.Errorf("no rows of %s", table)
		}
	}
	if counts != 2 {
		t.Errorf("%d counts, want those of Tables 4.5 and 4.6", counts)
	}
	for _, q := range ev.Summary.Quantities {
		t.Logf("%-8s %3d rows of both: thesis median %.2f %% max %.2f %%, ours %.2f %% and %.2f %%; all %d rows %.2f %% and %.2f %%", q.Quantity, q.Both,
			100*q.ThesisMedian, 100*q.ThesisMax, 100*q.OurMedian, 100*q.OurMax, q.Rows, 100*q.OurMedianAll, 100*q.OurMaxAll)
		if q.Both > 0 && q.OurMedian > q.ThesisMedian && q.Quantity != "library" && q.Quantity != "count" {
			t.Errorf("%s: our median error %.2f %% is above the thesis's %.2f %%", q.Quantity, 100*q.OurMedian, 100*q.ThesisMedian)
		}
	}
}

// The figures of the thesis can be drawn from its tables.
func TestFigures(t *testing.T) {
	for _, c := range []struct {
		name, table, series string
		q                   Quantity
		only                []int
		law                 Law
	}{
		{"3.21", "5.16", "bt.B mpich", DataQuantity, []int{4, 25, 36}, Auto},
		{"3.22", "5.1", "bt.B mpich", SharedQuantity, []int{36}, Auto},
		{"4.3", "4.1", "bt.D mpich", DataQuantity, []int{16, 25, 36}, Auto},
		{"4.4", "4.2", "sp.B mpich", DataQuantity, []int{4, 16, 25}, Thesis},
		{"4.5", "4.3", "bt.D mpich", DataQuantity, []int{16, 25, 36}, Structural},
		{"4.6", "4.3", "bt.D mpich", SharedQuantity, nil, Auto},
		{"5.1", "4.3", "bt.D mpich", TotalQuantity, []int{16}, Auto},
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
