// Package service predicts what ckpt itself stores of a job, and how long that takes.
//
//	f, err := service.New(runs)        // what jobs measured
//	s := f.Size(job)                   // the first checkpoint and those that follow
//	t := f.Time(job, s.Next)           // coordination + management + storage
//
// An image of another checkpointer is the memory of its process. Of that memory ckpt
// stores less, for known reasons, and each has its own term:
//
//   - the library once for a job, the segment once for a node
//   - nothing of extents that are zeros: of an array the program may write the leading
//     part only, its used share
//   - nothing of extents that have not changed since the checkpoint before: an iteration
//     rewrites the leading part of an array, its changed share
//   - packed extents: each array by its own ratio
//   - header and index of each file
//
// The shares come from the workload spec. Jobs confirm or replace them: how many extents
// of an array were stored bounds its share from both sides. Intervals hold these bounds,
// and what earlier predictions of the measured jobs were off by.
//
// A checkpoint refers to files of the last 15 only, so each sixteenth stores the memory
// that never changes again.
//
// Sizes are in bytes, times in seconds, both of all ranks together.
//
// # Modes
//
// The package predicts, too, what the modes of checkpointing and the logs of messages cost:
//
//	groups, err := service.Groups(service.Semi, mapping, 0)  // group of each rank
//	t := service.CountTraffic(inst, groups)                  // traffic between the groups
//	bytes := t.Logged(service.Receiver).Bytes                // of an iteration
//	c := service.CostOf(&service.ModeCase{…})                // all of it
//
// The thesis (León Otero, UAB 2022, section 3.3.2) splits the time of a checkpoint of one
// group into management and storage, Eq 3.6, and names three cases of contention without
// a model: no other group stores at the same time, all do, or a share of them. [ModeCase]
// has that share as a number. Every cost is a [fit.Range] whose ends come from all
// quantities that it depends on, so that it holds whatever depends on whatever;
// [ModeCost.Assumed] names the quantities that were not measured. Logged bytes are those
// of the frames of a message log of ckpt, heads and padding included.
package service

import (
	"errors"
	"fmt"
	"math"

	"ckpt/predict/fit"
)

// Times are how long checkpoints took, in their parts, with robust fits: a checkpoint
// that the machine disturbed does not move them.
//
//	coordination = base + per step of a tree of the ranks, or per rank
//	management   = the same
//	storage      = fixed + per byte, perhaps + per file
//
// Each is a mean over laws, from all of it fixed to nothing fixed.
//
// A checkpoint of any size costs its commits: the fixed part, which each group of a mode pays.
// A job waits for the library too, where it is stored beside a checkpoint. All ranks of a job
// share a storage here, so its rate is that of all of them together.
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
	// Parts is how many of the checkpoints were of a group, while other ranks computed.
	Parts int `json:"parts,omitempty"`
	// The ranges that were measured.
	NP    Range `json:"np"`
	Bytes Range `json:"bytes"`
}

// A Line is seconds as the mean of the laws that the measurements permit. A law has its
// coefficients, which are not negative, and its weight.
type Line struct {
	Law    Growth    `json:"law,omitempty"`
	Coef   []float64 `json:"coefficients"`
	Weight float64   `json:"weight,omitempty"`
	// Others are the other laws, Scatter the standard deviation of the logarithm of a
	// measured time by a predicted one.
	Others  []Line  `json:"other_laws,omitempty"`
	Scatter float64 `json:"scatter"`
}

// A Growth names the terms of a law. Models of an older ckpt have none: their lines are
// Linear, and of storage files and bytes without a fixed part.
type Growth string

// The laws.
const (
	Tree     Growth = "logarithm" // a + b·log2 ranks
	Linear   Growth = "linear"    // a + b·ranks
	ByBytes  Growth = "bytes"     // a + b·bytes
	ByFiles  Growth = "files"     // a + b·files + c·bytes
	ByNode   Growth = "node"      // a + b·bytes of the fullest node
	perFiles Growth = ""          // a·files + b·bytes
)

// A Load is what the time of a checkpoint depends on. Ranks agree on it first, and Node is what
// the fullest node has of the bytes.
type Load struct{ Ranks, Files, Bytes, Node float64 }

// NewLoad is the load of a checkpoint of ranks that are spread over nodes.
func NewLoad(ranks, files, bytes float64, mapping []int) Load {
	return Load{ranks, files, bytes, bytes * fullest(mapping)}
}

// row has the terms of a law.
func (g Growth) row(w Load) []float64 {
	switch g {
	case Tree:
		return []float64{1, math.Log2(max(1, w.Ranks))}
	case Linear:
		return []float64{1, w.Ranks}
	case ByBytes:
		return []float64{1, w.Bytes}
	case ByFiles:
		return []float64{1, w.Files, w.Bytes}
	case ByNode:
		return []float64{1, w.Node}
	}
	return []float64{w.Files, w.Bytes}
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

// reach is the factor beyond the measured ranks up to which a law that is linear in them is
// believed. From there on it continues as a tree does, without a step.
const reach = 8

// at is the time of a load by one law.
func (l *Line) at(w Load, most float64) float64 {
	if knee := reach * most; l.Law == Linear && knee > 0 && w.Ranks > knee {
		w.Ranks = knee * (1 + math.Log(w.Ranks/knee))
	}
	sum := 0.0
	for i, term := range l.Law.row(w) {
		sum += l.Coef[i] * term
	}
	return sum
}

// of is a line's time of a load: the geometric mean of its laws, and a standard deviation of
// their logarithms both ways.
func (t *Times) of(l *Line, w Load) fit.Range {
	if len(l.Others) == 0 {
		return fit.Exactly(l.at(w, t.NP.High))
	}
	var weights, sum, squares float64
	add := func(l *Line) {
		v := math.Log(max(fastest, l.at(w, t.NP.High)))
		weights, sum, squares = weights+l.Weight, sum+l.Weight*v, squares+l.Weight*v*v
	}
	add(l)
	for i := range l.Others {
		add(&l.Others[i])
	}
	mean := sum / weights
	return within(math.Exp(mean), math.Exp(math.Sqrt(max(0, squares/weights-mean*mean))))
}

// The scatter of times between equal runs, as a standard deviation of logarithms, and how
// many jobs this assumption is worth.
const (
	timePrior       = 0.2
	timePriorWeight = 2
	// timeDrift is how uncertain a time becomes when it is extrapolated by a factor of e.
	timeDrift = 0.2
	// partDoubt is how uncertain the time of a group is where no group was timed, or that of all
	// ranks where groups alone were: beside a group other ranks compute.
	partDoubt = 0.5
	// fastest is the least time that is told from none.
	fastest = 1e-4
)

// A Time is the predicted latency of one checkpoint in its parts.
type Time struct {
	Coordination, Management, Storage float64
	// Total has the interval of their sum; Pause is how long the application stands
	// still.
	Total, Pause fit.Range
	// Extrapolation is the factor by which it lies outside the measured checkpoints, TooFar
	// an error if it is far larger than all of them.
	Extrapolation float64
	TooFar        error
	// Default says that no job was timed: the rates are assumptions. CopyAssumed says so of
	// the copy of an asynchronous checkpoint.
	Default, CopyAssumed bool
}

// defaults are the times of jobs on one machine with a local disk. They say little about
// another, so their interval spans a factor.
var defaults = Times{Coordination: Line{Law: Tree, Coef: []float64{0.0005, 0.0005}}, Management: Line{Law: Linear, Coef: []float64{0, 0.0003}},
	Storage: Line{Law: ByFiles, Coef: []float64{0.02, 0.005, 1 / 300e6}}}

const defaultFactor = 5

// usualCopy is the pause for a copy of the memory where no asynchronous job was timed: 1 GB/s,
// within a factor of 3.
var usualCopy = Line{Law: ByBytes, Coef: []float64{0, 1e-9}, Scatter: math.Log(3) / 2}

// Time predicts the latency of a checkpoint that adds so many bytes to the store. A probe
// is the rate in bytes per second that was measured now, 0 for the jobs'.
func (f *Fit) Time(job *Job, c *Checkpoint, library fit.Range, async bool, probe float64) Time {
	t := &defaults
	if f != nil && f.Times != nil {
		t = f.Times
	}
	size := 0.0
	if c.Total.Value > 0 {
		size = c.Total.Half() / c.Total.Value / 2
	}
	w := NewLoad(float64(job.NP), float64(c.Files), c.Total.Value+library.Value, job.Mapping)
	out := t.Of(w, size, job.Part, probe)
	if async {
		t.async(&out, c.Data.Value)
	}
	return out
}

// Image is the time of images of another checkpointer. Where ckpt stored them behind the program
// the pause is shorter than the latency.
func (t *Times) Image(w Load, size float64, part bool, probe float64) Time {
	out := t.Of(w, size, part, probe)
	if t.Copy != nil {
		t.async(&out, w.Bytes)
	}
	return out
}

// fullest is the share of the fullest node.
func fullest(mapping []int) float64 {
	most, all := 0, 0
	for _, n := range mapping {
		most, all = max(most, n), all+n
	}
	if all == 0 {
		return 1
	}
	return float64(most) / float64(all)
}

// Of predicts the parts of a latency. Size is the relative doubt about the bytes, and part says
// that only some of the ranks store, while the others compute.
func (t *Times) Of(w Load, size float64, part bool, probe float64) Time {
	coordination, management, storage := t.of(&t.Coordination, w), t.of(&t.Management, w), t.of(&t.Storage, w)
	out := Time{Extrapolation: t.NP.beyond(w.Ranks), TooFar: t.tooFar(w, probe), Default: t == &defaults}
	if probe > 0 { // of the jobs' storage only what is not its rate stays
		fixed := t.of(&t.Storage, Load{Ranks: w.Ranks, Files: w.Files})
		storage = fixed.Plus(fit.Exactly(w.Bytes / probe))
	} else {
		out.Extrapolation = max(out.Extrapolation, t.Bytes.beyond(w.Bytes))
	}
	out.Coordination, out.Management, out.Storage = coordination.Value, management.Value, storage.Value
	total := coordination.Plus(management).Plus(storage)
	if out.Default {
		out.Total = within(total.Value, defaultFactor)
	} else {
		out.Total = within(total.Value, t.factor(out.Extrapolation, math.Hypot(size, laws(total)), part))
	}
	out.Pause = out.Total
	return out
}

// tooFar refuses a load far above the measured ones. A probe measures the storage anew.
func (t *Times) tooFar(w Load, probe float64) error {
	if t.NP.High == 0 { // nothing was measured, the rates are assumed
		return nil
	}
	err := fit.TooFar(w.Ranks/t.NP.High, fmt.Sprintf("%.0f ranks", t.NP.High), fmt.Sprintf("%.0f ranks", math.Ceil(w.Ranks/fit.Farthest)))
	if err == nil && probe == 0 && t.Bytes.High > 0 {
		const mebi = 1 << 20
		err = fit.TooFar(w.Bytes/t.Bytes.High, fmt.Sprintf("%.2f MiB", t.Bytes.High/mebi), fmt.Sprintf("%.2f MiB", math.Ceil(100*w.Bytes/fit.Farthest/mebi)/100))
	}
	return err
}

// laws is how uncertain a time is since several laws fit, as a standard deviation of its
// logarithm.
func laws(total fit.Range) float64 {
	return math.Log(max(fastest, total.High)/max(fastest, total.Low)) / 2
}

// async replaces the pause by coordination and the copy of so much memory, if that is shorter.
func (t *Times) async(out *Time, bytes float64) {
	line := t.Copy
	if line == nil {
		line = &usualCopy
	}
	copying := t.of(line, Load{Bytes: bytes})
	pause := out.Coordination + copying.Value
	if pause >= out.Total.Value {
		return
	}
	doubt := math.Sqrt(line.Scatter*line.Scatter + laws(copying)*laws(copying) + timePrior*timePrior)
	out.Pause, out.CopyAssumed = within(pause, math.Exp(2*doubt)), t.Copy == nil
}

// factor returns the factor of a time's interval: the scatter of the jobs, beside that between
// equal runs, and more outside of what was measured. Doubt is a standard deviation that does
// not come from the jobs.
func (t *Times) factor(extrapolation, doubt float64, part bool) float64 {
	jobs := float64(t.Jobs)
	variance := (timePriorWeight*timePrior*timePrior + jobs*t.Scatter*t.Scatter) / (timePriorWeight + jobs)
	drift := timeDrift * math.Log(extrapolation)
	if t.Checkpoints > 0 && (part && t.Parts == 0 || !part && t.Parts == t.Checkpoints) {
		doubt = math.Hypot(doubt, partDoubt)
	}
	return fit.Positive(1, math.Sqrt(variance*(1+1/jobs)+drift*drift+doubt*doubt), timePriorWeight+jobs-1, 1).High
}

// renew gives the lines of a model of an older ckpt their laws.
func (t *Times) renew() {
	for _, l := range []*Line{&t.Coordination, &t.Management} {
		if l.Law == "" {
			l.Law = Linear
		}
	}
	if c := t.Copy; c != nil && c.Law == "" && len(c.Coef) == 1 {
		c.Law, c.Coef = ByBytes, []float64{0, c.Coef[0]}
	}
}

// Check verifies what predictions rely on, of a model from a file.
func (t *Times) Check() error {
	t.renew()
	lines := map[string]*Line{"coordination": &t.Coordination, "management": &t.Management, "storage": &t.Storage}
	if t.Copy != nil {
		lines["copy"] = t.Copy
	}
	for name, l := range lines {
		if len(l.Others) > maxLaws {
			return fmt.Errorf("times: %s: too many laws", name)
		}
		for _, law := range append([]Line{*l}, l.Others...) {
			if err := law.check(); err != nil {
				return fmt.Errorf("times: %s: %w", name, err)
			}
		}
	}
	if !(t.Scatter >= 0 && t.Scatter < 100) || t.Jobs < 1 || !(t.NP.Low > 0 && t.NP.High >= t.NP.Low) || !(t.Bytes.Low >= 0 && t.Bytes.High >= t.Bytes.Low) {
		return errors.New("times: impossible range")
	}
	return nil
}

// maxLaws bounds the laws of a model from a file.
const maxLaws = 100

func (l *Line) check() error {
	if len(l.Coef) != len(l.Law.row(Load{})) {
		return fmt.Errorf("law %q has a wrong number of coefficients", l.Law)
	}
	for _, c := range l.Coef {
		if !(c >= 0 && c < 1e6) {
			return errors.New("coefficient is out of range")
		}
	}
	if !(l.Weight >= 0 && l.Weight <= 1) || !(l.Scatter >= 0 && l.Scatter < 100) || len(l.Others) > 0 && l.Weight == 0 {
		return errors.New("weight or scatter is out of range")
	}
	return nil
}
