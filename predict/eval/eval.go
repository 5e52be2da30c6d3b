// Package eval sets every number of the built-in tables beside what is predicted for it from
// the other rows.
package eval

import (
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Row compares a prediction with a measurement. Sizes are in MiB, times in seconds.
// Errors are signed fractions of the measured value. Missing values are nil.
type Row struct {
	Table       string   `json:"table"`
	Row         string   `json:"row"`
	Quantity    string   `json:"quantity"`
	Unit        string   `json:"unit"` // the table's; empty for a count
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
	codes     map[string]*Coverage
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
	ev, err := newEvaluator()
	if err != nil {
		return nil, err
	}
	for _, c := range comparisons {
		t := ev.sheet(c.table)
		if c.rows(ev, t); ev.err != nil {
			return nil, fmt.Errorf("table %s: %w", c.table, ev.err)
		}
	}
	out := &Evaluation{Rows: ev.out}
	if out.Tables, err = tableUses(ev.out); err != nil {
		return nil, err
	}
	out.Summary = Summary{summarise(ev.out), ev.leaveOneOut(), ev.misprints(), ev.codes}
	return out, ev.err
}

// comparisons are the tables in the order of their rows, and what is compared of each. They
// calibrate nothing of what predicts them.
var comparisons = []struct {
	table string
	rows  func(ev *evaluator, t *sheet)
}{
	{"4.1", (*evaluator).estimates}, {"4.2", (*evaluator).estimates}, {"4.3", (*evaluator).estimates},
	{"5.1", (*evaluator).zones},
	{"4.5", (*evaluator).example}, {"4.6", (*evaluator).example},
	{"fig_4_2", (*evaluator).useCase},
	{"5.8", (*evaluator).imageFiles},
	{"3.1", (*evaluator).mappings}, {"5.17", (*evaluator).mappings}, {"5.18", (*evaluator).mappings},
	{"5.10", (*evaluator).aggregators}, {"fig_5_9", (*evaluator).buffers},
	{"5.3", (*evaluator).latency}, {"5.3", (*evaluator).volumes},
	{"4.7", (*evaluator).minighost},
	{"2.5", (*evaluator).tracers}, {"2.6", (*evaluator).tracers},
	{"fig_5_14", (*evaluator).bursts}, {"fig_5_10", (*evaluator).tracedSizes}, {"fig_5_10", (*evaluator).tracedTimes},
	{"5.7", (*evaluator).ioZones},
	{"5.12", (*evaluator).openMPIAggregators}, {"fig_5_8", (*evaluator).openMPIComponents},
	{"5.15", (*evaluator).flash}, {"5.19", (*evaluator).cloud},
	{"5.20", (*evaluator).area}, {"5.21", (*evaluator).area},
	{"fig_3_5", (*evaluator).collectiveWrite},
	{"5.13", (*evaluator).collectives},
	{"5.22", (*evaluator).runs}, {"5.23", (*evaluator).runs}, {"5.24", (*evaluator).increases},
}

// An evaluator adds rows. After its first error what it returns means nothing.
type evaluator struct {
	rows       []dataset.Measurement
	base       *predict.Model
	calibrated *predict.Model
	latencies  []dataset.Latency
	times      []dataset.CollectiveTime
	files      []dataset.ImageFile
	heldFiles  []fit.Estimate // files, each predicted from the jobs other than its own
	laws       map[string]fit.Coefficients
	codes      map[string]*Coverage // of zones, by application
	out        []Row
	err        error
}

func newEvaluator() (*evaluator, error) {
	ev := &evaluator{}
	var errs [7]error
	ev.rows, errs[0] = dataset.Measurements()
	ev.calibrated, errs[1] = onePoint(ev.rows)
	ev.base, errs[2] = predict.BuiltIn()
	ev.latencies, errs[3] = dataset.Latencies()
	ev.times, errs[4] = dataset.CollectiveTimes()
	ev.files, ev.heldFiles, errs[5] = predict.HeldOutFiles()
	ev.laws, errs[6] = fit.ThesisCoefficients()
	return ev, errors.Join(errs[:]...)
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

// note keeps the first error.
func (ev *evaluator) note(err error) {
	if ev.err == nil {
		ev.err = err
	}
}

// units are those in which the tables give quantities other than sizes.
var units = map[string]string{"time": "s", "count": "", "write count": "", "read count": ""}

// add appends a row. Zero or NaN stands for a missing value.
func (ev *evaluator) add(table, row, quantity string, measured, thesis float64, ours fit.Estimate, note string) {
	unit, ok := units[quantity]
	if !ok {
		unit = "MiB"
	}
	r := Row{Table: table, Row: row, Quantity: quantity, Unit: unit, Measured: number(measured), Thesis: number(thesis),
		Ours: number(ours.Value), Low: number(ours.Low), High: number(ours.High), Note: note}
	if r.Low == nil && r.Ours != nil {
		r.Low = new(float64)
	}
	if r.Measured != nil && r.Thesis != nil {
		r.ThesisError = exactly(thesis/measured - 1)
	}
	if r.Measured != nil && r.Ours != nil {
		r.OurError = exactly(ours.Value/measured - 1)
	}
	ev.out = append(ev.out, r)
}

func number(v float64) *float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// exactly keeps an error of 0.
func exactly(v float64) *float64 { return &v }

// A sheet reads the numbers of a table for an evaluator, which keeps the errors.
type sheet struct {
	*dataset.Table
	label string
	ev    *evaluator
}

func (ev *evaluator) sheet(name string) *sheet {
	t, err := dataset.LoadTable(name)
	if ev.note(err); err != nil {
		t = &dataset.Table{}
	}
	return &sheet{t, dataset.TableLabel(t.Name), ev}
}

// value is 0 for an empty cell.
func (s *sheet) value(row int, column string) float64 {
	v, err := s.Number(row, column)
	s.ev.note(err)
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// nodesOf reads a mapping of equal nodes, as in 4N x 1P, 4n x 1p or 4I x 1P.
func (s *sheet) nodesOf(row int, column string) (nodes, ppn int) {
	text := strings.NewReplacer("N", "", "n", "", "I", "", "P", "", "p", "").Replace(s.Text(row, column))
	if _, err := fmt.Sscanf(text, "%d x %d", &nodes, &ppn); err != nil {
		s.ev.note(fmt.Errorf("mapping %q: %w", s.Text(row, column), err))
	}
	return nodes, ppn
}

// app is an application of the tables.
func (ev *evaluator) app(name string) predict.App {
	a, err := ev.base.Application(name, 0)
	ev.note(err)
	return a
}

// size predicts a job.
func (ev *evaluator) size(r predict.Request) *predict.Size {
	s, err := ev.base.Size(r)
	if ev.note(err); err != nil {
		return &predict.Size{Files: make([]predict.File, 1)}
	}
	return s
}

// time predicts a checkpoint of a job.
func (ev *evaluator) time(r predict.Request) *predict.Time {
	t, err := ev.base.Time(r, "none", nil)
	if ev.note(err); err != nil {
		return &predict.Time{}
	}
	return t
}

// heldZones are the zones of a process held out of the fits.
type heldZones struct{ data, library, shared fit.Estimate }

func (z heldZones) file() fit.Estimate { return fit.Independent(z.data, z.library, z.shared) }

// heldOut predicts them.
func (ev *evaluator) heldOut(app, class, mpi string, np, pn int) (z heldZones) {
	a, err := ev.calibrated.Application(fmt.Sprintf("%s.%s.%d", app, class, np), 0)
	ev.note(err)
	if err != nil {
		return z
	}
	data, err := ev.calibrated.DataZone(a, mpi, fit.Structural, 1)
	ev.note(err)
	return heldZones{data.Estimate, ev.base.Library[mpi].Predict(), ev.sharedWithout(app, mpi, pn)}
}

// imageOf predicts the file of a process without I/O, held out of the fits.
func (ev *evaluator) imageOf(app, class string, np, pn int) fit.Estimate {
	return ev.heldOut(app, class, "mpich", np, pn).file()
}

// sharedWithout predicts the shared zone of pn processes from rows of other pn.
func (ev *evaluator) sharedWithout(app, mpi string, pn int) fit.Estimate {
	var rest []dataset.Measurement
	for _, r := range ev.rows {
		if r.MPI == mpi && r.PPN != pn && r.Shared > 0 && !r.SharedDoubtful {
			rest = append(rest, r)
		}
	}
	f, err := fit.FitShared(mpi, rest)
	if ev.note(err); err != nil {
		return fit.Estimate{}
	}
	return f.Predict(app, pn)
}

// managers adds the files of the processes that manage a job, within 30 %.
func managers(files fit.Estimate, nodes int) fit.Estimate {
	mib := predict.ManagerMiB(nodes)
	return fit.Independent(files, fit.Around(mib, 0.3*mib, 1))
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
	// Table is the short name of the table, Name the one of ckpt dataset show.
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
