package service

import (
	"ckpt/dataset"
	"ckpt/predict/fit"
	"errors"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Times are how long checkpoints took, in their parts, with robust fits: a checkpoint
// that the machine disturbed does not move them.
//
//	coordination = base + per rank
//	management   = base + per rank
//	storage      = per file + per byte
//
// A file costs its creation and its fsyncs. A job waits for the library too, where it is
// stored beside a checkpoint. All ranks of a job share a storage here, so its rate is that
// of all of them together.
type Times struct {
	Storages     []string `json:"storages"` // directories of the stores
	Jobs         int      `json:"jobs"`
	Checkpoints  int      `json:"checkpoints"`
	Coordination Line     `json:"coordination"`
	Management   Line     `json:"management"`
	Storage      Line     `json:"storage"`
	// Copy is the pause of asynchronous checkpoints beyond coordination, by the bytes of
	// the data zone, or nil.
	Copy *Line `json:"copy,omitempty"`
	// Latency is the scatter of whole latencies about the sum of the parts.
	Scatter float64 `json:"scatter"`
	// The ranges that were measured.
	NP    Range `json:"np"`
	Bytes Range `json:"bytes"`
}

// A Line is seconds as a linear function with coefficients that are not negative. Scatter
// is the standard deviation of the logarithm of a measured time by a predicted one.
type Line struct {
	Coef    []float64 `json:"coefficients"`
	Scatter float64   `json:"scatter"`
}

// A Range is from the least to the largest value measured.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

func (r *Range) add(v float64) {
	if r.High == 0 {
		*r = Range{v, v}
	}
	r.Low, r.High = min(r.Low, v), max(r.High, v)
}

func (r Range) beyond(v float64) float64 {
	if v <= 0 || r.Low <= 0 {
		return 1
	}
	return max(1, r.Low/v, v/r.High)
}

func (l *Line) at(row []float64) float64 {
	sum := 0.0
	for i, c := range l.Coef {
		sum += c * row[i]
	}
	return sum
}

// The scatter of times between equal runs, as a standard deviation of logarithms, and how
// many jobs this assumption is worth.
const (
	timePrior       = 0.2
	timePriorWeight = 2
	// timeDrift is how uncertain a time becomes when it is extrapolated by a factor of e.
	timeDrift = 0.2
	// fastest is the least time that is told from none.
	fastest = 1e-4
)

// a timed checkpoint, as rows of the lines.
type timed struct {
	ranks, storage, copied             []float64
	coordination, management, storageS float64
	pause                              float64 // beyond coordination
}

// fitTimes fits the times of timed jobs; nil without any.
func fitTimes(runs []dataset.JobRun) *Times {
	t := &Times{}
	var list []timed
	copies := 0
	for i := range runs {
		run := &runs[i]
		before := len(list)
		for k := range run.Checkpoints {
			c := &run.Checkpoints[k]
			if c.LatencyS() <= 0 {
				continue
			}
			bytes := float64(c.StoredBytes + c.Stored.Library)
			row := timed{ranks: []float64{1, float64(c.Ranks)}, storage: []float64{float64(c.Files), bytes}, coordination: c.CoordinationS,
				management: c.ManagementS, storageS: c.StorageS}
			if run.Async {
				row.copied, row.pause = []float64{float64(c.Memory.Data)}, c.PauseS-c.CoordinationS
				copies++
			}
			list = append(list, row)
			t.NP.add(float64(c.Ranks))
			t.Bytes.add(bytes)
		}
		if len(list) > before {
			t.Jobs++
			if dir := filepath.Clean(run.Storage); !slices.Contains(t.Storages, dir) {
				t.Storages = append(t.Storages, dir)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	t.Checkpoints = len(list)
	t.fit(list, copies > 0)
	return t
}

func (t *Times) fit(list []timed, async bool) {
	var ranks, storage, copied [][]float64
	var coordination, management, stored, pauses []float64
	for _, c := range list {
		ranks, storage = append(ranks, c.ranks), append(storage, c.storage)
		coordination, management, stored = append(coordination, c.coordination), append(management, c.management), append(stored, c.storageS)
		if c.copied != nil {
			copied, pauses = append(copied, c.copied), append(pauses, c.pause)
		}
	}
	t.Coordination, t.Management, t.Storage = fitMedian(ranks, coordination), fitMedian(ranks, management), fitMedian(storage, stored)
	if async {
		l := fitMedian(copied, pauses)
		t.Copy = &l
	}
	var off []float64
	for _, c := range list {
		model := t.Coordination.at(c.ranks) + t.Management.at(c.ranks) + t.Storage.at(c.storage)
		off = append(off, math.Log(max(fastest, c.coordination+c.management+c.storageS)/max(fastest, model)))
	}
	t.Scatter = spread(off)
}

// spread estimates a standard deviation from the median distance to the median, which a
// few wild values do not move.
func spread(values []float64) float64 {
	middle := Median(values)
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - middle)
	}
	return 1.4826 * Median(away)
}

func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// A Time is the predicted latency of one checkpoint in its parts.
type Time struct {
	Coordination, Management, Storage float64
	// Total has the interval of their sum; Pause is how long the application stands
	// still.
	Total, Pause fit.Range
	// Extrapolation is the factor by which it lies outside the measured checkpoints.
	Extrapolation float64
	// Default says that no job was timed: the rates are assumptions.
	Default bool
}

// defaults are the times of jobs on one machine with a local disk. They say little about
// another, so their interval spans a factor.
var defaults = Times{Coordination: Line{Coef: []float64{0, 0.0003}}, Management: Line{Coef: []float64{0, 0.0003}},
	Storage: Line{Coef: []float64{0.005, 1 / 300e6}}, Copy: &Line{Coef: []float64{1 / 2e9}}}

const defaultFactor = 5

// Time predicts the latency of a checkpoint that adds so many bytes to the store. A probe
// is the rate in bytes per second that was measured now, 0 for the jobs'.
func (f *Fit) Time(job *Job, c *Checkpoint, library fit.Range, async bool, probe float64) Time {
	t, timed := &defaults, false
	if f != nil && f.Times != nil {
		t, timed = f.Times, true
	}
	bytes := c.Total.Value + library.Value
	ranks := []float64{1, float64(job.NP)}
	line := t.Storage
	if probe > 0 {
		line = Line{Coef: []float64{t.Storage.Coef[0], 1 / probe}}
	}
	out := Time{Coordination: t.Coordination.at(ranks), Management: t.Management.at(ranks),
		Storage: line.at([]float64{float64(c.Files), bytes}), Extrapolation: 1, Default: !timed}
	total := out.Coordination + out.Management + out.Storage
	if !timed {
		out.Total = within(total, defaultFactor)
	} else {
		out.Extrapolation = max(t.NP.beyond(float64(job.NP)), t.Bytes.beyond(bytes))
		size := 0.0
		if c.Total.Value > 0 {
			size = c.Total.Half() / c.Total.Value / 2
		}
		out.Total = within(total, t.factor(out.Extrapolation, size))
	}
	out.Pause = out.Total
	if async && t.Copy != nil {
		pause := out.Coordination + t.Copy.at([]float64{c.Data.Value})
		out.Pause = within(pause, out.Total.High/max(out.Total.Value, fastest))
	}
	return out
}

// factor returns the factor of a time's interval: the scatter of the jobs, beside that between
// equal runs, and more outside of what was measured.
func (t *Times) factor(extrapolation, size float64) float64 {
	jobs := float64(t.Jobs)
	variance := (timePriorWeight*timePrior*timePrior + jobs*t.Scatter*t.Scatter) / (timePriorWeight + jobs)
	drift := timeDrift * math.Log(extrapolation)
	return math.Exp(student(timePriorWeight+jobs-1) * math.Sqrt(variance*(1+1/jobs)+drift*drift+size*size))
}

// check verifies what predictions rely on, of a model from a file.
func (t *Times) check() error {
	for _, l := range []struct {
		line Line
		n    int
	}{{t.Coordination, 2}, {t.Management, 2}, {t.Storage, 2}} {
		if len(l.line.Coef) != l.n {
			return errors.New("times: wrong number of coefficients")
		}
		for _, c := range l.line.Coef {
			if !(c >= 0 && c < 1e6) {
				return errors.New("times: coefficient is out of range")
			}
		}
	}
	if t.Copy != nil && (len(t.Copy.Coef) != 1 || !(t.Copy.Coef[0] >= 0 && t.Copy.Coef[0] < 1e6)) {
		return errors.New("times: coefficient is out of range")
	}
	if !(t.Scatter >= 0 && t.Scatter < 100) || t.Jobs < 1 || !(t.NP.Low > 0 && t.NP.High >= t.NP.Low) || !(t.Bytes.Low >= 0 && t.Bytes.High >= t.Bytes.Low) {
		return errors.New("times: impossible range")
	}
	return nil
}

// fitMedian fits seconds as a linear function whose coefficients are not negative, so that
// the sum of the relative distances is least: half of the measurements may be wild, and the
// line stays.
func fitMedian(rows [][]float64, seconds []float64) Line {
	k := len(rows[0])
	active := make([]bool, k)
	for i := range active {
		active[i] = true
	}
	var coef []float64
	for {
		coef = leastDistances(rows, seconds, active)
		worst := -1
		for i, c := range coef {
			if active[i] && c < 0 && (worst < 0 || c < coef[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		active[worst] = false
	}
	l := Line{Coef: coef}
	var off []float64
	for i, row := range rows {
		off = append(off, math.Log(max(fastest, seconds[i])/max(fastest, l.at(row))))
	}
	l.Scatter = spread(off)
	return l
}

// leastDistances weighs least squares again and again, until they are least absolute
// relative distances.
func leastDistances(rows [][]float64, seconds []float64, active []bool) []float64 {
	weights := make([]float64, len(rows))
	for i, s := range seconds {
		weights[i] = 1 / math.Pow(max(fastest, s), 2)
	}
	coef := weightedSquares(rows, seconds, weights, active)
	for range 100 {
		for i, row := range rows {
			value := 0.0
			for j, c := range coef {
				value += c * row[j]
			}
			s := max(fastest, seconds[i])
			weights[i] = 1 / (s * max(1e-4*s, math.Abs(seconds[i]-value)))
		}
		coef = weightedSquares(rows, seconds, weights, active)
	}
	return coef
}

// weightedSquares solves the normal equations of the active columns. A slight pull to 0
// decides between columns that the measurements cannot tell apart.
func weightedSquares(rows [][]float64, seconds, weights []float64, active []bool) []float64 {
	var columns []int
	for i, on := range active {
		if on {
			columns = append(columns, i)
		}
	}
	coef := make([]float64, len(active))
	k := len(columns)
	if k == 0 {
		return coef
	}
	a, b := mat.NewSymDense(k, nil), mat.NewVecDense(k, nil)
	for i, row := range rows {
		for x, cx := range columns {
			b.SetVec(x, b.AtVec(x)+weights[i]*row[cx]*seconds[i])
			for y := x; y < k; y++ {
				a.SetSym(x, y, a.At(x, y)+weights[i]*row[cx]*row[columns[y]])
			}
		}
	}
	for x := range k {
		a.SetSym(x, x, a.At(x, x)*(1+1e-9)+1e-300)
	}
	var c mat.VecDense
	if err := c.SolveVec(a, b); err != nil && c.Len() != k {
		return coef
	}
	for x, cx := range columns {
		coef[cx] = c.AtVec(x)
	}
	return coef
}
