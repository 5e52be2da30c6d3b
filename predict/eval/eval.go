// Package eval sets every number of the built-in tables beside what is predicted for it from
// the other rows.
package eval

import (
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"fmt"
	"math"
	"slices"
)

// A Row compares a prediction with a measurement. Sizes are in MiB, times in seconds.
// Errors are signed fractions of the measured value. Missing values are nil.
type Row struct {
	Table       string   `json:"table"`
	Row         string   `json:"row"`
	Quantity    string   `json:"quantity"`
	Unit        string   `json:"unit"` // that of the table; empty for a count
	Measured    *float64 `json:"measured"`
	Thesis      *float64 `json:"thesis"`
	Ours        *float64 `json:"ours"`
	Low         *float64 `json:"low"`
	High        *float64 `json:"high"`
	ThesisError *float64 `json:"thesis_error"`
	OurError    *float64 `json:"our_error"`
	// Note explains an odd row, such as a misprint or a computed value.
	Note string `json:"note,omitempty"`
}

// An Evaluation sets every prediction printed in the thesis beside ours, with every
// row held out of our fits.
type Evaluation struct {
	Rows []Row `json:"rows"`
	// Tables are all built-in tables, those without rows as well.
	Tables  []TableUse `json:"table_list"`
	Summary Summary    `json:"summary"`
}

// A Summary has totals over the rows.
type Summary struct {
	Quantities []QuantityErrors `json:"quantities"`
	Coverage   []Coverage       `json:"coverage"`
	// Misprints are printed numbers that contradict the thesis's own formulas.
	Misprints []string `json:"misprints"`
}

// QuantityErrors are the absolute errors of one quantity, as fractions: over the rows
// that both predict, and for ours over all rows.
type QuantityErrors struct {
	Quantity     string  `json:"quantity"`
	Rows         int     `json:"row_count"`
	Both         int     `json:"rows_of_both"`
	ThesisMedian float64 `json:"thesis_median"`
	ThesisMax    float64 `json:"thesis_max"`
	OurMedian    float64 `json:"our_median"`
	OurMax       float64 `json:"our_max"`
	// OurMedianAll and OurMaxAll are over all rows.
	OurMedianAll float64 `json:"our_median_all"`
	OurMaxAll    float64 `json:"our_max_all"`
}

// Evaluate recomputes everything. Our predictions never use the predicted row: the
// data zone is structural with one calibration point (the smallest number of processes
// of each application, class and MPI library), the others leave out the predicted job
// or row.
func Evaluate() (*Evaluation, error) {
	ev := &evaluator{}
	var err error
	if ev.rows, err = dataset.Measurements(); err != nil {
		return nil, err
	}
	if ev.calibrated, err = onePoint(ev.rows); err != nil {
		return nil, err
	}
	if ev.base, err = predict.BuiltIn(); err != nil {
		return nil, err
	}
	for _, step := range []func() error{ev.estimates, ev.zones, ev.examples, ev.useCase, ev.imageFiles, ev.mappings, ev.buffers, ev.latencies,
		ev.volumes, ev.minighost, ev.traced, ev.tracedTime, ev.ioZones, ev.openMPIBuffers, ev.flash, ev.cloud, ev.areas, ev.collectiveWrites,
		ev.collectives, ev.runs, ev.increases} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	out := &Evaluation{Rows: ev.out}
	if out.Tables, err = tableUses(ev.out); err != nil {
		return nil, err
	}
	out.Summary.Quantities = summarise(ev.out)
	if out.Summary.Coverage, err = leaveOneOut(); err != nil {
		return nil, err
	}
	out.Summary.Misprints, err = misprints()
	return out, err
}

// onePoint calibrates with the first row of the smallest number of processes of
// each application, class and MPI library, and with nothing else.
func onePoint(rows []dataset.Measurement) (*predict.Model, error) {
	var chosen []dataset.Measurement
	index := map[string]int{}
	for _, r := range rows {
		i, ok := index[r.Series()]
		switch {
		case !ok:
			index[r.Series()] = len(chosen)
			chosen = append(chosen, r)
		case r.NP < chosen[i].NP:
			chosen[i] = r
		}
	}
	return predict.FitSizes(chosen)
}

// unitOf returns the unit in which the tables give a quantity.
func unitOf(quantity string) string {
	switch quantity {
	case "time":
		return "s"
	case "count", "write count":
		return ""
	}
	return "MiB"
}

type evaluator struct {
	rows       []dataset.Measurement
	base       *predict.Model
	calibrated *predict.Model
	out        []Row
}

// add appends a row. Zero or NaN stands for a missing value.
func (ev *evaluator) add(table, row, quantity string, measured, thesis float64, ours fit.Estimate, note string) {
	r := Row{Table: table, Row: row, Quantity: quantity, Unit: unitOf(quantity), Measured: number(measured), Thesis: number(thesis),
		Ours: number(ours.Value), Low: number(ours.Low), High: number(ours.High), Note: note}
	if r.Low == nil && r.Ours != nil {
		zero := 0.
		r.Low = &zero
	}
	if r.Measured != nil && r.Thesis != nil {
		r.ThesisError = number3(thesis/measured - 1)
	}
	if r.Measured != nil && r.Ours != nil {
		r.OurError = number3(ours.Value/measured - 1)
	}
	ev.out = append(ev.out, r)
}

func number(v float64) *float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// number3 keeps an error of exactly 0.
func number3(v float64) *float64 { return &v }

// sharedWithout predicts the shared zone of pn processes from rows of other pn.
func (ev *evaluator) sharedWithout(app, mpi string, pn int) (fit.Estimate, error) {
	var rest []dataset.Measurement
	for _, r := range ev.rows {
		if r.MPI == mpi && r.PPN != pn && r.Shared > 0 && !r.SharedDoubtful {
			rest = append(rest, r)
		}
	}
	f, err := fit.FitShared(mpi, rest)
	if err != nil {
		return fit.Estimate{}, err
	}
	return f.Predict(app, pn), nil
}

// heldOut predicts the zones of a process held out of the fits.
func (ev *evaluator) heldOut(app, class, mpi string, np, pn int) (data, library, shared fit.Estimate, err error) {
	a, err := ev.calibrated.Application(fmt.Sprintf("%s.%s.%d", app, class, np), 0)
	if err != nil {
		return data, library, shared, err
	}
	z, err := ev.calibrated.DataZone(a, mpi, fit.Structural, 1)
	if err != nil {
		return data, library, shared, err
	}
	shared, err = ev.sharedWithout(app, mpi, pn)
	return z.Estimate, ev.base.Library[mpi].Predict(), shared, err
}

// estimates are the predicted rows of Tables 4.1-4.3.
func (ev *evaluator) estimates() error {
	for _, t := range thesisTables {
		rows, err := t.read()
		if err != nil {
			return err
		}
		for _, r := range rows {
			data, library, shared, err := ev.heldOut(t.app, t.class, "mpich", r.np, r.pn)
			if err != nil {
				return err
			}
			file := fit.Independent(data, library, shared)
			note := ""
			if r.doubtful {
				note = "the measured shared zone equals Eq 3.11: computed, not measured"
			}
			ev.add(t.number, r.name, "data", r.measured.Data, r.estimated.Data, data, "")
			ev.add(t.number, r.name, "library", r.measured.Library, r.estimated.Library, library, "")
			ev.add(t.number, r.name, "shared", r.measured.Shared, r.estimated.Shared, shared, note)
			ev.add(t.number, r.name, "file", r.measuredFile, r.estimatedFile, file, note)
			if r.measuredTotal > 0 {
				ev.add(t.number, r.name, "total", r.measuredTotal, r.estimatedTotal, file.Scale(float64(r.pn*r.nodes)), note)
			}
		}
	}
	return nil
}

// zones are the other rows of zone sizes that calibrated nothing.
func (ev *evaluator) zones() error {
	for _, r := range ev.rows {
		if r.Table[0] == '4' {
			continue
		}
		s := ev.calibrated.SeriesOf(r.App, r.Class, r.MPI)
		name := fmt.Sprintf("%s.%s.%d %s", r.App, r.Class, r.NP, r.MPI)
		if s.Drift == nil {
			// Lulesh, whose structure is not known: measured once, so its data zone has
			// no prediction.
			shared, err := ev.sharedWithout(r.App, r.MPI, r.PPN)
			if err != nil {
				return err
			}
			ev.add(r.Table, name, "library", r.Library, fit.ThesisLibrary(r.MPI), ev.base.Library[r.MPI].Predict(), "")
			ev.add(r.Table, name, "shared", r.Shared, fit.ThesisShared(r.MPI, r.PPN), shared, "")
			continue
		}
		data, library, shared, err := ev.heldOut(r.App, r.Class, r.MPI, r.NP, r.PPN)
		if err != nil {
			return err
		}
		thesis := 0.
		if c, ok := thesisFor(r); ok {
			thesis = c.A * math.Pow(float64(r.NP), c.B)
		}
		if s.Points[0].P != float64(r.NP) {
			ev.add(r.Table, name, "data", r.Data, thesis, data, "")
		}
		if r.Library > 0 {
			ev.add(r.Table, name, "library", r.Library, fit.ThesisLibrary(r.MPI), library, "")
		}
		if r.Shared > 0 {
			note := ""
			if r.SharedDoubtful {
				note = "the measured shared zone equals Eq 3.11: computed, not measured"
			}
			ev.add(r.Table, name, "shared", r.Shared, fit.ThesisShared(r.MPI, r.PPN), shared, note)
		}
		if r.File > 0 {
			t := 0.
			if thesis > 0 {
				t = thesis + fit.ThesisLibrary(r.MPI) + fit.ThesisShared(r.MPI, r.PPN)
			}
			ev.add(r.Table, name, "file", r.File, t, fit.Independent(data, library, shared), "")
		}
	}
	return nil
}

// thesisFor is the law that the thesis would use for a row.
func thesisFor(r dataset.Measurement) (fit.Coefficients, bool) {
	all, err := fit.ThesisCoefficients()
	if err != nil || r.MPI != "mpich" {
		return fit.Coefficients{}, false
	}
	key := map[string]string{"bt.B": fit.ThesisBTB, "sp.B": fit.ThesisSPB, "bt.D": fit.ThesisBTDOneNode}[r.App+"."+r.Class]
	c, ok := all[key]
	return c, ok
}

// summarise sorts absolute errors by quantity.
func summarise(rows []Row) []QuantityErrors {
	var out []QuantityErrors
	for _, q := range []string{"data", "library", "shared", "file", "total", "write", "write count", "time", "count"} {
		e := QuantityErrors{Quantity: q}
		var thesis, ours, all []float64
		for _, r := range rows {
			if r.Quantity != q || r.OurError == nil {
				continue
			}
			all = append(all, math.Abs(*r.OurError))
			if r.ThesisError != nil {
				thesis, ours = append(thesis, math.Abs(*r.ThesisError)), append(ours, math.Abs(*r.OurError))
			}
		}
		if len(all) == 0 {
			continue
		}
		e.Rows, e.Both = len(all), len(ours)
		e.ThesisMedian, e.ThesisMax = medianMax(thesis)
		e.OurMedian, e.OurMax = medianMax(ours)
		e.OurMedianAll, e.OurMaxAll = medianMax(all)
		out = append(out, e)
	}
	return out
}

func medianMax(list []float64) (median, most float64) {
	if len(list) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(list))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2, s[n-1]
}

// A TableUse tells what the evaluation does with a built-in table: it compares its
// numbers with predictions, or it says why it cannot.
type TableUse struct {
	// Table is the short name of the table, Name that of ckpt dataset show.
	Table string `json:"table"`
	Name  string `json:"name"`
	// Evaluated is false for tables that are only described; Reason then says why.
	Evaluated bool   `json:"evaluated"`
	Reason    string `json:"reason,omitempty"`
	// Compared are the quantities, in the order of their rows.
	Compared []string `json:"compared"`
	// Rows have a measurement and a prediction of ours. Median and Max are over
	// their absolute errors. Cases have a 95 % interval, and Covered counts those of
	// them whose measurement lies inside; a rule that gives a number exactly has none.
	Rows    int     `json:"row_count"`
	Median  float64 `json:"our_median"`
	Max     float64 `json:"our_max"`
	Covered int     `json:"covered"`
	Cases   int     `json:"cases"`
}

// described are the tables without any quantity that ckpt predicts.
var described = map[string]string{
	"fig_3_14_3_15_bt_b4_write_counts":   "counts of writes: a property of the checkpointer, not predicted",
	"fig_3_17_bt_b_4_offsets":            "an excerpt of writes and their offsets, not predicted",
	"fig_5_1_bt_d_mapping":               "mappings only: the times exist as a picture",
	"fig_5_6_filesystem_mapping":         "mappings only: sizes and times exist as a picture",
	"fig_validation_set_time_equations":  "a list of runs: their times exist as a picture",
	"models_coefficients":                "the laws of the thesis, not its measurements",
	"platforms":                          "the machines",
	"table_2_4_instrumentation_overhead": "what tracing costs, not predicted",
	"tables_2_1_2_2_2_3_tool_features":   "features of tracers, in words",
	"text_numbers":                       "numbers of the running text, most of them in other tables",
}

// tableUses lists every built-in table with what rows say of it. It is an error if a
// table is neither evaluated nor described, or both.
func tableUses(rows []Row) ([]TableUse, error) {
	var out []TableUse
	for _, name := range dataset.TableNames() {
		u := TableUse{Table: dataset.TableLabel(name), Name: name, Reason: described[name], Compared: []string{}}
		var errs []float64
		for _, r := range rows {
			if r.Table != u.Table {
				continue
			}
			u.Evaluated = true
			if !slices.Contains(u.Compared, r.Quantity) {
				u.Compared = append(u.Compared, r.Quantity)
			}
			if r.OurError == nil {
				continue
			}
			errs = append(errs, math.Abs(*r.OurError))
			if *r.Low < *r.High {
				u.Cases++
			}
			if *r.Low < *r.High && *r.Low <= *r.Measured && *r.Measured <= *r.High {
				u.Covered++
			}
		}
		u.Rows = len(errs)
		u.Median, u.Max = medianMax(errs)
		if u.Evaluated == (u.Reason != "") {
			return nil, fmt.Errorf("table %s must be either evaluated or described", name)
		}
		out = append(out, u)
	}
	return out, nil
}
