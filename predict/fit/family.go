package fit

import (
	"math"

	"ckpt/zones/global"
)

// An abscissa is a number of processes with the powers of it that laws use, relative to the
// smallest number that was measured, and a problem size likewise.
type abscissa struct {
	p, x                     float64
	inverse, twoThirds, root float64
	log, square              float64
	most                     float64 // x of the largest number that was measured
	n                        float64
	grid                     [2]sides // in two and in three axes
}

func abscissaOf(n, p float64, low [2]float64, most float64) abscissa {
	x := p / low[1]
	return abscissa{p: p, x: x, grid: [2]sides{sidesOf(2, p, low[1]), sidesOf(3, p, low[1])}, most: most / low[1], inverse: 1 / x, twoThirds: math.Pow(x, -2./3), root: 1 / math.Sqrt(x), log: math.Log2(x), square: x * x, n: n / low[0]}
}

// sides are the parts of an axis that a rank has, on grids of p ranks and of the smallest number.
type sides struct{ at, low []float64 }

func sidesOf(axes int, p, low float64) sides { return sides{gridParts(axes, p), gridParts(axes, low)} }

// gridParts is what a rank has of each axis on the grid of MPI_Dims_create. Between whole numbers
// of ranks, where curves are drawn, all sides are alike.
func gridParts(axes int, p float64) (parts []float64) {
	if p != math.Trunc(p) || p > 1<<20 {
		for range axes {
			parts = append(parts, math.Pow(p, -1/float64(axes)))
		}
		return parts
	}
	for _, side := range global.Dims(int(p), axes) {
		parts = append(parts, 1/float64(side))
	}
	return parts
}

// blocks is a block of a grid with a halo, which is a share of the side of the whole array.
func blocks(halo float64, parts []float64) float64 {
	v := 1.0
	for _, part := range parts {
		v *= part + halo
	}
	return v
}

// maxHalo is the largest halo: one cell at both ends of a side of eight.
const maxHalo = 0.25

// gridded is a block of a grid relative to the one of the smallest number of processes.
func (s *sides) gridded(u float64) float64 {
	halo := maxHalo * cube(u)
	return blocks(halo, s.at) / blocks(halo, s.low)
}

// A family is a law whose parameters are open: up to two of them, u and v, each uniform
// between 0 and 1 before measurements. Its size is open, too, unless it is absolute. At the
// smallest number of processes a family that is not absolute is 1.
type family struct {
	law      Law
	open     int // parameters beside the size
	absolute bool
	at       func(u, v float64, x *abscissa) float64
}

// Shares of a size that are small or large: a constant of a thousandth matters at a
// thousand processes.
func cube(u float64) float64 { return u * u * u }

// maxFloor is the largest share of a constant beside a part that falls.
const maxFloor = 0.97

// A plateau begins at up to knees times the smallest number of processes. A share of them,
// lastKnee, begins where the measurements end: a table that is full there shows as a line.
const (
	knees    = 64
	lastKnee = 0.1
)

func knee(v, most float64) float64 {
	if v < lastKnee {
		return most
	}
	return math.Pow(knees, (v-lastKnee)/(1-lastKnee))
}

// doublings is how often a number of processes may double before a table that is kept for
// each power of two is full.
const doublings = 6

// maxSegment is the largest constant of a segment of MPICH, in MiB.
const maxSegment = 400

// maxTotal is the largest problem that ranks share, in MiB.
const maxTotal = 1 << 20

// segmentDoubt is the largest share by which a segment of MPICH grows faster or slower than
// its allocations say: those of the thesis grow 0.6 % slower.
const segmentDoubt = 0.012

// floored is a falling part with a constant: the share u of the size is constant.
func floored(u, falling float64) float64 {
	f := maxFloor * cube(u) * u
	return (1-f)*falling + f
}

// mixed is a falling part of a size beside a share of it that grows.
func mixed(u, falling, growth float64) float64 {
	f := maxFloor * cube(u)
	return (1-f)*falling + f*(1+growth)
}

// surfaced is a volume of which the share u is surface.
func surfaced(u, volume, surface float64) float64 { return (1-u*u)*volume + u*u*surface }

// families are the laws that measurements choose among.
var families = []family{
	{Inverse, 1, false, func(u, _ float64, x *abscissa) float64 { return floored(u, x.inverse) }},
	{Inverse23, 1, false, func(u, _ float64, x *abscissa) float64 { return floored(u, x.twoThirds) }},
	{Inverse12, 1, false, func(u, _ float64, x *abscissa) float64 { return floored(u, x.root) }},
	{Volume23, 1, false, func(u, _ float64, x *abscissa) float64 { return surfaced(u, x.inverse, x.twoThirds) }},
	{Volume12, 1, false, func(u, _ float64, x *abscissa) float64 { return surfaced(u, x.inverse, x.root) }},
	{Volume23Floor, 2, false, func(u, v float64, x *abscissa) float64 {
		return floored(0.85*v, surfaced(0.8*u, x.inverse, x.twoThirds))
	}},
	{Volume12Floor, 2, false, func(u, v float64, x *abscissa) float64 {
		return floored(0.85*v, surfaced(0.8*u, x.inverse, x.root))
	}},
	{Grid2, 1, false, func(u, _ float64, x *abscissa) float64 { return x.grid[0].gridded(u) }},
	{Grid3, 2, false, func(u, v float64, x *abscissa) float64 { return floored(0.85*v, x.grid[1].gridded(u)) }},
	{Power, 1, false, func(u, _ float64, x *abscissa) float64 { return math.Pow(x.x, -0.05-1.2*u) }},
	{Steady, 0, false, func(_, _ float64, _ *abscissa) float64 { return 1 }},
	{Rising, 1, false, func(u, _ float64, x *abscissa) float64 { return 1 + cube(u)*(x.x-1) }},
	{Plateau, 2, false, func(u, v float64, x *abscissa) float64 {
		return 1 + u*u*(min(x.x, knee(v, x.most))-1)
	}},
	{Logarithm, 1, false, func(u, _ float64, x *abscissa) float64 { return 1 + 1.2*u*u*x.log }},
	{LogPlateau, 2, false, func(u, v float64, x *abscissa) float64 {
		return 1 + 1.2*u*u*min(x.log, math.Round(v*doublings))
	}},
	{Levelling, 1, false, func(u, _ float64, x *abscissa) float64 { return 1 + 3*cube(u)*(1-x.inverse) }},
	{Quadratic, 2, false, func(u, v float64, x *abscissa) float64 {
		return 1 + cube(u)*(x.x-1) + (1-cube(u))*cube(v)*(x.square-1)
	}},
	{InverseRising, 2, false, func(u, v float64, x *abscissa) float64 {
		return mixed(u, x.inverse, cube(v)*(x.x-1))
	}},
	{InverseSegment, 2, true, func(u, v float64, x *abscissa) float64 {
		return math.Pow(maxTotal, u)/x.p + maxSegment*cube(v) + physical(x.p)
	}},
	{Mixed, 2, false, func(u, v float64, x *abscissa) float64 { return mixed(u, x.twoThirds, cube(v)*(x.x-1)) }},
	{Mixed, 2, false, func(u, v float64, x *abscissa) float64 { return mixed(u, x.root, cube(v)*(x.x-1)) }},
	{Mixed, 2, false, func(u, v float64, x *abscissa) float64 { return mixed(u, x.inverse, 1.2*v*v*x.log) }},
	{Mixed, 2, false, func(u, v float64, x *abscissa) float64 { return mixed(u, x.twoThirds, 1.2*v*v*x.log) }},
	{Mixed, 2, false, func(u, v float64, x *abscissa) float64 { return mixed(u, x.root, 1.2*v*v*x.log) }},
	{MixedSegment, 2, true, func(u, v float64, x *abscissa) float64 {
		return math.Pow(maxTotal, u)*math.Pow(x.p, -2./3) + maxSegment*cube(v) + physical(x.p)
	}},
	{MixedSegment, 2, true, func(u, v float64, x *abscissa) float64 {
		return math.Pow(maxTotal, u)/math.Sqrt(x.p) + maxSegment*cube(v) + physical(x.p)
	}},
	{RisingSegment, 2, true, func(u, v float64, x *abscissa) float64 {
		return math.Pow(maxTotal, u)*(1+cube(v)*x.p) + physical(x.p)
	}},
	{Segment, 2, true, func(u, v float64, x *abscissa) float64 {
		return maxSegment*cube(u) + (1+segmentDoubt*cube(2*v-1))*physical(x.p)
	}},
}

// priors are what is assumed of families before measurements, as shares.
type priors map[Law]float64

// ofSums reports whether the priors are of whole files, which are sums of zones.
func (p priors) ofSums() bool { return p[InverseSegment] > 0 }

// These priors are for an application that was never measured. Its data falls where ranks
// share a problem, and stays where each has its own. A whole file has a data zone and a
// library, which does not fall, and a segment, which may rise.
var (
	// No law of data is one of so many MiB, whatever is measured.
	dataPriors = priors{
		Inverse: 0.17, Inverse23: 0.045, Inverse12: 0.045, Volume23: 0.12, Volume12: 0.14, Volume23Floor: 0.04, Volume12Floor: 0.05, Power: 0.02,
		Grid2: 0.02, Grid3: 0.06,
		Steady: 0.10, Rising: 0.10, Plateau: 0.08, Logarithm: 0.01, Levelling: 0.01,
	}
	filePriors = priors{
		Inverse: 0.15, Inverse23: 0.03, Inverse12: 0.03, Volume23: 0.01, Volume12: 0.01, Volume23Floor: 0.06, Volume12Floor: 0.06, Grid2: 0.01, Grid3: 0.01,
		Steady: 0.05, Rising: 0.05, Plateau: 0.04, Logarithm: 0.02, Segment: 0.05, InverseRising: 0.12, InverseSegment: 0.10,
		Mixed: 0.03, MixedSegment: 0.06, RisingSegment: 0.06,
	}
	sharedPriors = map[string]priors{
		"mpich":   {Segment: 0.56, Steady: 0.09, Rising: 0.08, Plateau: 0.12, Logarithm: 0.04, LogPlateau: 0.04, Levelling: 0.04, Quadratic: 0.02, Inverse: 0.01},
		"openmpi": {Segment: 0.02, Steady: 0.38, Rising: 0.20, Plateau: 0.17, Logarithm: 0.10, LogPlateau: 0.04, Levelling: 0.05, Quadratic: 0.02, Inverse: 0.02},
	}
)
