package fit

import (
	"ckpt/dataset"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Variant says why the laws are better than the structure: the spec describes another
// variant of the program. It is "" where they are not.
func (s *Series) Variant() string {
	if s == nil || s.Drift == nil || s.Laws == nil {
		return ""
	}
	miss, best := s.Drift.Missed(), math.Inf(1)
	if miss <= farStructure {
		return "" // without looking for laws, which takes the longest of a prediction
	}
	for _, f := range s.Laws.Laws() {
		if f.LOO > 0 {
			best = min(best, f.LOO)
		}
	}
	if miss > indistinct*best {
		return fmt.Sprintf("the measurements do not follow the workload spec of %s (off by %.0f %%), so laws are used", s.App, 100*miss)
	}
	return ""
}

// LawsFor returns the laws of a series that the user asks for, and their points.
func (s *Series) LawsFor(law Law, nodes int) (*LawSet, []Point, error) {
	switch {
	case law == Thesis:
		f, used, err := ThesisLaw(s, nodes)
		if err != nil {
			return nil, nil, err
		}
		f.Weight = 1
		set := &LawSet{Fits: []*LawFit{f}, N: len(used)}
		set.Low, set.High = Span(used)
		return set, used, nil
	case law != Auto:
		set, err := OneLaw(law, s.Points)
		return set, s.Points, err
	case s.Laws == nil:
		_, err := ChooseLaws(s.Points)
		return nil, nil, err
	}
	return s.Laws, s.Points, nil
}

// Table returns the table of a series; points do not store theirs.
func (s *Series) Table() string {
	if len(s.Tables) == 0 {
		return ""
	}
	return s.Tables[0]
}

// AutoLaw replaces the law auto by what predictions use: the structure, unless the
// measurements do not follow it.
func (s *Series) AutoLaw(law Law) Law {
	if (law == Auto || law == "") && s.Drift != nil && s.Variant() == "" {
		return Structural
	}
	return law
}

// Limits of fits: leaving out each point in turn costs the square of their number,
// calibrating the cube. The longest built-in series has 25 points.
const (
	MaxPoints = 400
	MaxRows   = 4000
)

// A Series is the data zone of one application, class and MPI library over
// process counts.
type Series struct {
	App    string   `json:"app"`
	Class  string   `json:"class"`
	MPI    string   `json:"mpi"`
	Tables []string `json:"tables"`
	Points []Point  `json:"points"`
	// Drift is the calibration of the structure, or nil if that is unknown.
	Drift *Drift `json:"drift,omitempty"`
	// Repeats are how repeated runs differ, nil without any.
	Repeats *repeats `json:"repeats,omitempty"`
	// Laws are those that the points support, or nil if there are too few.
	Laws *LawSet `json:"fit,omitempty"`
}

func (s *Series) Name() string { return s.App + "." + s.Class + " " + s.MPI }

// Fit calibrates the structure, unless w is nil, and fits the laws.
func (s *Series) Fit(w *dataset.Workload) error {
	if w != nil {
		d := &Drift{}
		for _, pt := range s.Points {
			inst, err := w.VariedInstance(s.Class, int(pt.P))
			if err != nil {
				d = nil
				break
			}
			d.Add(pt.P, Structure(inst), pt.MiB)
		}
		s.Drift = d
	}
	return s.FitLaws()
}

// FitLaws fits the laws, if the points support one.
func (s *Series) FitLaws() (err error) {
	if Distinct(s.Points) < 2 {
		return nil
	}
	if s.Laws, err = ChooseLaws(s.Points); err != nil {
		return fmt.Errorf("%s: %w", s.Name(), err)
	}
	return nil
}

// FitFiles fits the laws of whole files.
func (s *Series) FitFiles() (err error) {
	s.Laws, err = ChooseFileLaws(s.Points)
	return err
}

// Predict evaluates the laws at p. The interval is of a single run.
func (s *Series) Predict(p float64) Estimate { return s.Repeats.Widen(s.Laws.Predict(p)) }

// Basis names the points behind a prediction.
func (s *Series) Basis() string {
	low, high := Span(s.Points)
	return fmt.Sprintf("%s, %d points from %g to %g processes (%s)", s.Name(), len(s.Points), low, high, Tables(s.Tables))
}

// Structure returns the arrays of a process, on average, without the runtime constant of the
// spec.
func Structure(inst *dataset.Instance) Arrays {
	a := Arrays{All: (float64(inst.TotalBytes())/float64(inst.NP) - float64(inst.Runtime)) / (1 << 20)}
	var all, written float64
	for _, array := range inst.Arrays {
		bytes := float64(array.Bytes())
		all, written = all+bytes, written+bytes*min(1, max(array.Used, array.Rewrite))
	}
	if a.Written = a.All; all > 0 {
		a.Written = a.All * written / all
	}
	return a
}

// Check verifies a series from a file.
func (s *Series) Check() error { return s.check(dataPriors) }

// CheckFiles verifies a series of whole files from a file. They have no structure, so that they
// need a law.
func (s *Series) CheckFiles() error {
	if s != nil && s.Laws == nil {
		return errors.New("no law")
	}
	return s.check(filePriors)
}

// Refit fits the laws of a series from a file anew, with the structure that it has.
func (s *Series) Refit(laws func() error) error {
	if err := s.checkPoints(); err != nil {
		return err
	}
	s.Laws = nil
	if err := laws(); err != nil || s.Laws == nil {
		return err
	}
	s.Laws.described() // what check verifies
	return nil
}

func (s *Series) check(prior priors) error {
	if err := s.checkPoints(); err != nil {
		return err
	}
	if err := errors.Join(s.Repeats.Check(), s.checkFit(prior)); err != nil {
		return fmt.Errorf("series %s: %w", s.Name(), err)
	}
	return nil
}

func (s *Series) checkPoints() error {
	if s == nil || s.App == "" || len(s.Points) == 0 || len(s.Points) > MaxPoints {
		return errors.New("a series has no name, no points or too many")
	}
	for _, pt := range s.Points {
		if !(pt.P >= 1 && pt.P <= 1<<20 && pt.MiB > 0 && pt.MiB < 1<<40) {
			return fmt.Errorf("series %s: point (%g, %g MiB) is impossible", s.Name(), pt.P, pt.MiB)
		}
	}
	return nil
}

func (s *Series) checkFit(prior priors) error {
	if d := s.Drift; d != nil {
		if len(d.X) == 0 || len(d.X) != len(d.R) || len(d.X) > MaxPoints {
			return errors.New("calibration has no points")
		}
		for i := range d.X {
			if !(math.Abs(d.X[i]) < 20 && math.Abs(d.R[i]) < 1<<40) {
				return errors.New("calibration is impossible")
			}
		}
		if err := d.restore(s.Points); err != nil {
			return err
		}
	}
	if s.Laws == nil {
		if n := Distinct(s.Points); n >= 2 {
			return fmt.Errorf("points of %d numbers of processes have no law", n)
		}
		return nil
	}
	s.Laws.of(s.Points, prior)
	weight := 0.0
	for _, f := range s.Laws.Fits {
		if f == nil || !slices.Contains(FittedLaws(), f.Law) && f.Law != Thesis || !(math.Abs(f.Power()) < 10) || !(f.Weight >= 0 && f.Weight <= 1) {
			return errors.New("law is not known")
		}
		k := len(f.Law.basis(1, f.Exponent))
		if len(f.Coef) != k {
			return fmt.Errorf("law %s: %d coefficients, want %d", f.Law, len(f.Coef), k)
		}
		if g := len(f.slopes(1)); len(f.Gram) != g*g { // which uses the coefficients
			return fmt.Errorf("law %s: a matrix of %d numbers, want %d", f.Law, len(f.Gram), g*g)
		}
		if err := Finite(f.Coef, f.Gram, []float64{f.RSS}); err != nil {
			return fmt.Errorf("law %s: %w", f.Law, err)
		}
		weight += f.Weight
	}
	if len(s.Laws.Fits) == 0 || math.Abs(weight-1) > 1e-6 {
		return errors.New("weights of the laws do not add up to 1")
	}
	return nil
}

// The laws of the thesis by the names of its table of models.
const (
	ThesisBTB        = "BT class B (Eq 3.10)"
	ThesisBTDOneNode = "BT class D, 1 node (fig 4.3)"
	ThesisSPB        = "SP class B, 1 node (fig 4.4)"
	ThesisBTDNodes   = "BT class D, multi-node (fig 4.5)"
	LawBTDCount      = "BT class D used in tables 4.5/4.6"
)

// ThesisLaw is the law that the thesis uses for a series, with its fit points. If it
// uses none, it is the thesis's procedure: the power law through the three smallest
// process counts.
func ThesisLaw(s *Series, nodes int) (*LawFit, []Point, error) {
	printed := map[string]string{"bt.B mpich": ThesisBTB, "sp.B mpich": ThesisSPB, "bt.D mpich": ThesisBTDOneNode}
	chosen := map[string][]float64{"bt.B mpich": {4, 25, 36}, "sp.B mpich": {4, 16, 25}, "bt.D mpich": {16, 25, 36}}
	key := printed[s.Name()]
	if nodes > 1 && key == ThesisBTDOneNode {
		key = ThesisBTDNodes
	}
	var used []Point
	var seen []float64
	points := slices.Clone(s.Points)
	slices.SortStableFunc(points, func(a, b Point) int {
		switch {
		case a.P < b.P:
			return -1
		case a.P > b.P:
			return 1
		}
		return 0
	})
	for _, pt := range points {
		if slices.Contains(seen, pt.P) || key != "" && !slices.Contains(chosen[s.Name()], pt.P) || len(used) == 3 {
			continue
		}
		used, seen = append(used, pt), append(seen, pt.P)
	}
	if key != "" && len(used) == 3 && s.ofThesis() {
		all, err := ThesisCoefficients()
		if err != nil {
			return nil, nil, err
		}
		if c, ok := all[key]; ok {
			return thesisFit(c.A, c.B, used), used, nil
		}
	}
	f, err := fitLaw(Thesis, used)
	return f, used, err
}

// ofThesis tells whether the points of a series are the thesis's own, not a user's
// measurements of the same application.
func (s *Series) ofThesis() bool {
	return !slices.ContainsFunc(s.Tables, func(t string) bool { return len(t) == 0 || t[0] < '4' || t[0] > '5' })
}

// farStructure is the left-out error from which on a spec does not describe measurements.
const farStructure = 0.05
