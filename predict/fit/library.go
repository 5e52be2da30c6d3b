package fit

import (
	"cmp"
	"math"
	"slices"
)

// A Constant is a zone that is the same in every process: the library zone of
// one MPI build.
type Constant struct {
	Mean float64 `json:"mean"` // MiB
	SD   float64 `json:"sd"`   // MiB, of single measurements
	N    int     `json:"n"`
	// Low and High are the interval of the library zone of a large job.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// libraryDoubt is the standard deviation between similar libraries, in MiB: Tables 4.5
// and 4.6 print 2.51 for the 2.45 of Table 5.1.
const libraryDoubt = 0.02

func FitConstant(values []float64) *Constant {
	c := &Constant{N: len(values)}
	for _, v := range values {
		c.Mean += v / float64(len(values))
	}
	for _, v := range values {
		c.SD += (v - c.Mean) * (v - c.Mean)
	}
	c.SD = math.Sqrt(c.SD / max(1, float64(len(values)-1)))
	return c
}

func (c *Constant) Predict() Estimate {
	if c.High > 0 {
		return Estimate{c.Mean, c.Low, c.High, 1}
	}
	n := float64(max(1, c.N))
	return Around(c.Mean, Student(max(3, n-1))*math.Hypot(c.SD, libraryDoubt)*math.Sqrt(1+1/n), 1)
}

// libraryStep is what is assumed of steps before measurements: libraries load other
// parts for more processes. Open MPI's doubles between 2 and 4 processes.
const libraryStep = 0.2

// libraryRange is the logarithm of the range that the size of a library may have: 1 MiB
// to 1 GiB.
const libraryRange = 7

// FitLibrary finds the library zone of a large job. It is the same in every process, but
// not at every number of them: from some number on it may be larger, and then only the
// runs from there on count. Whether there is such a step the measurements say; if they
// leave it open, the interval holds both.
func FitLibrary(points []Point) *Constant {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.P, b.P) })
	var starts []int // of the runs that count
	for i, pt := range points {
		if i == 0 || pt.P > points[i-1].P {
			starts = append(starts, i)
		}
	}
	var logs []float64
	var all blend
	for _, start := range starts {
		prior := 1 - libraryStep
		if start > 0 {
			prior = libraryStep / float64(len(starts)-1)
		}
		for _, noise := range noiseLevels {
			few, _, _ := libraryLevel(points[:start], noise.sd)
			many, mean, n := libraryLevel(points[start:], noise.sd)
			all = append(all, bell{0, mean, math.Hypot(noise.sd, libraryDoubt/math.Exp(mean)) * math.Sqrt(1+1/n), noise.sd})
			logs = append(logs, few+many+math.Log(prior*noise.prior))
		}
	}
	for i, w := range shares(logs) {
		all[i].weight = w
	}
	all = slices.DeleteFunc(all, func(b bell) bool { return b.weight == 0 })
	sizes := make([]float64, len(points))
	for i, pt := range points {
		sizes[i] = pt.MiB
	}
	c := FitConstant(sizes)
	c.Mean, c.Low, c.High = math.Exp(all.quantile(0.5)), math.Exp(all.quantile(0.025)), math.Exp(all.quantile(0.975))
	return c
}

// libraryLevel is the evidence that points have one size, its logarithm, and how many
// they are.
func libraryLevel(points []Point, noise float64) (evidence, mean, n float64) {
	if len(points) == 0 {
		return 0, 0, 0
	}
	sum, squares, variances := 0.0, 0.0, 0.0
	for _, pt := range points {
		variance := noise*noise + libraryDoubt*libraryDoubt/(pt.MiB*pt.MiB)
		l := math.Log(pt.MiB)
		sum, squares, n = sum+l/variance, squares+l*l/variance, n+1/variance
		variances += math.Log(variance)
	}
	mean = sum / n
	evidence = -(variances+max(0, squares-sum*mean)+math.Log(n))/2 - math.Log(libraryRange/math.Sqrt(2*math.Pi)) - float64(len(points))*math.Log(2*math.Pi)/2
	return evidence, mean, float64(len(points))
}
