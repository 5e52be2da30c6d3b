package service

import (
	"errors"
	"fmt"
	"math"
)

// maxItems bounds the lists of a model.
const maxItems = 1 << 12

// Check verifies what predictions rely on, of a model from a file.
func (f *Fit) Check() error {
	if len(f.Jobs) > maxItems || len(f.Apps) > maxItems || len(f.Library) > maxItems || len(f.Overhead) > maxItems {
		return errors.New("too many jobs")
	}
	for _, v := range f.Library {
		if !positive(v) {
			return errors.New("library is out of range")
		}
	}
	for _, v := range f.Overhead {
		if !positive(v) {
			return errors.New("overhead is out of range")
		}
	}
	for mpi, s := range f.Segments {
		if s == nil || len(s.Ranks) != len(s.Full) || len(s.Ranks) != len(s.Next) || !all(positive, s.Ranks, nil) || !all(natural, s.Full, s.Next) {
			return fmt.Errorf("segments of %s are impossible", mpi)
		}
	}
	for _, a := range f.Apps {
		if a == nil || a.Name == "" || len(a.Points) > maxItems || len(a.Regions) > maxItems {
			return errors.New("an application has no name, or too many points or regions")
		}
		if err := a.check(); err != nil {
			return fmt.Errorf("%s.%s: %w", a.Name, a.Class, err)
		}
	}
	if f.Times != nil {
		return f.Times.check()
	}
	return nil
}

func (a *App) check() error {
	for _, pt := range a.Points {
		if pt.NP < 1 || pt.NP > 1<<20 || !all(natural, []float64{pt.Full, pt.Next, pt.FullModel, pt.NextModel}, nil) {
			return errors.New("a point is impossible")
		}
	}
	for _, r := range a.Regions {
		if r == nil || !natural(r.Size) {
			return errors.New("a region is impossible")
		}
		for _, s := range []Share{r.Used, r.Changed} {
			if !(s.Low >= 0 && s.Low <= s.High && s.High <= 1) {
				return fmt.Errorf("region %s: a share is not between 0 and 1", r.Name)
			}
		}
		for codec, p := range r.Packing {
			if p == nil || !p.Full.valid() || !p.Next.valid() {
				return fmt.Errorf("region %s: ratios of %s are impossible", r.Name, codec)
			}
		}
	}
	return nil
}

func (r *Ratios) valid() bool {
	return len(r.NP) == len(r.Ratio) && len(r.NP) == len(r.Filled) && all(positive, r.Filled, nil) && len(r.NP) <= maxItems && all(positive, r.NP, nil) && all(natural, r.Ratio, nil)
}

func positive(v float64) bool { return v > 0 && v < math.MaxInt64 }
func natural(v float64) bool  { return v >= 0 && v < math.MaxInt64 }

func all(is func(float64) bool, a, b []float64) bool {
	for _, list := range [][]float64{a, b} {
		for _, v := range list {
			if !is(v) {
				return false
			}
		}
	}
	return true
}
