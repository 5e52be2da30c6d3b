package fit

import (
	"math"
	"slices"
)

// A shape is a law without its size: how the data zone of a process depends on the number
// of processes, relative to the smallest number that was measured.
type shape struct {
	prior float64
	at    func(x float64) float64 // of p relative to the smallest measured
}

// shapes are the hypotheses about an application whose structure is not known, with what
// is assumed of them before measurements. Each law has several: a volume with a surface
// of no, some or most of the size, a table of a rank that is small or large.
var shapes = func() []shape {
	var out []shape
	add := func(prior float64, list ...func(x float64) float64) {
		for _, at := range list {
			out = append(out, shape{prior / float64(len(list)), at})
		}
	}
	for _, exponent := range []float64{-2. / 3, -1. / 2} {
		var plain, floors []func(x float64) float64
		for _, surface := range []float64{0, 0.04, 0.08, 0.13, 0.19, 0.26, 0.35, 0.5, 0.7, 1} {
			at := func(x float64) float64 { return (1-surface)/x + surface*math.Pow(x, exponent) }
			plain = append(plain, at)
			if surface > 0.4 {
				continue
			}
			for _, floor := range []float64{0.001, 0.003, 0.007, 0.015, 0.03, 0.07, 0.2} {
				floors = append(floors, func(x float64) float64 { return (1-floor)*at(x) + floor })
			}
		}
		add(0.15, plain...)
		add(0.12, floors...)
	}
	var powers, rising []func(x float64) float64
	for e := -1.2; e < -0.05; e += 0.1 {
		powers = append(powers, func(x float64) float64 { return math.Pow(x, e) })
	}
	add(0.03, powers...)
	add(0.22, func(float64) float64 { return 1 })
	for slope := 0.003; slope < 1.5; slope *= 1.3 {
		rising = append(rising, func(x float64) float64 { return 1 + slope*(x-1) })
	}
	add(0.22, rising...)
	return out
}()

// A shapeFit is one shape under one assumption about noise.
type shapeFit struct {
	at                  func(x float64) float64
	weight, mean, noise float64 // mean is the logarithm of the size
	n                   float64
}

// A shapeSet is what all shapes together say of a series.
type shapeSet struct {
	low  float64
	fits []shapeFit
}

// fitShapes weighs every shape under every assumption about noise.
func fitShapes(points []Point) *shapeSet {
	s := &shapeSet{}
	s.low, _ = Span(points)
	n := float64(len(points))
	var logs []float64
	for _, sh := range shapes {
		sum, squares := 0.0, 0.0
		for _, pt := range points {
			r := math.Log(pt.MiB / sh.at(pt.P/s.low))
			sum, squares = sum+r, squares+r*r
		}
		mean := sum / n
		squares = max(0, squares-n*mean*mean)
		for _, noise := range noiseLevels {
			s.fits = append(s.fits, shapeFit{sh.at, 0, mean, noise.sd, n})
			logs = append(logs, math.Log(sh.prior*noise.prior)-(n-1)*math.Log(noise.sd)-squares/(2*noise.sd*noise.sd))
		}
	}
	for i, w := range shares(logs) {
		s.fits[i].weight = w
	}
	s.fits = slices.DeleteFunc(s.fits, func(f shapeFit) bool { return f.weight == 0 })
	return s
}

// predict returns the logarithm of the size at p.
func (s *shapeSet) predict(p float64) blend {
	out := make(blend, 0, len(s.fits))
	for _, f := range s.fits {
		out = append(out, bell{f.weight, f.mean + math.Log(f.at(p/s.low)), f.noise * math.Sqrt(1+1/f.n)})
	}
	return out
}
