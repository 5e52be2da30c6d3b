package fit

import (
	"math"
	"slices"
	"strings"

	"ckpt/interval"
)

// A Law gives the data zone of a process as a function of the number of processes p.
type Law string

// The laws. All but Structural are fitted to measurements.
const (
	// Auto is Structural if there is a workload spec, otherwise the average of the laws
	// that the points support, see average.
	Auto Law = "auto"
	// Structural evaluates the workload spec and calibrates the runtime constant of a
	// process.
	Structural Law = "structural"
	// Thesis is León's: a·p^b fitted to three points by least squares of the
	// logarithms, with the coefficients the thesis used where it prints them.
	Thesis Law = "thesis"
	// Power is a·p^b by least squares of relative errors.
	Power Law = "power"
	// PowerFloor is a·p^b + c.
	PowerFloor Law = "power+floor"
	// Volume23 is a/p + b·p^(-2/3): blocks in three dimensions with a halo.
	Volume23 Law = "a/p+b·p^-2/3"
	// Volume23Floor adds a constant.
	Volume23Floor Law = "a/p+b·p^-2/3+floor"
	// Volume12 is a/p + b·p^(-1/2): multipartition and pencils, whose surface
	// is N²/√p.
	Volume12 Law = "a/p+b·p^-1/2"
	// Volume12Floor adds a constant.
	Volume12Floor Law = "a/p+b·p^-1/2+floor"
	// Grid2 and Grid3 are blocks with halos on the grid of MPI_Dims_create, Grid3 with a constant:
	// on seven ranks they are slabs, with more surface than on eight.
	Grid2 Law = "blocks of a 2-D grid"
	Grid3 Law = "blocks of a 3-D grid+c"
	// Steady is the same in every process: weak scaling.
	Steady Law = "constant"
	// Rising is a + b·p: tables with an entry for each process.
	Rising Law = "a+b·p"
	// Inverse, Inverse23 and Inverse12 share a problem and leave a constant to each:
	// strips, slabs and blocks whose halo does not shrink.
	Inverse   Law = "a/p+c"
	Inverse23 Law = "a/p^2/3+c"
	Inverse12 Law = "a/p^1/2+c"
	// Plateau is min(a + b·p, c): a table that is full from some number on.
	Plateau Law = "min(a+b·p, c)"
	// Logarithm is a + b·log2(p).
	Logarithm Law = "a+b·log2(p)"
	// LogPlateau is min(a + b·log2(p), c).
	LogPlateau Law = "min(a+b·log2(p), c)"
	// Levelling is a - b/p, which rises and levels off.
	Levelling Law = "a-b/p"
	// Quadratic is a + b·p + c·p².
	Quadratic Law = "a+b·p+c·p²"
	// InverseRising and InverseSegment are whole files: data that ranks share, a library,
	// and a segment that grows.
	InverseRising  Law = "a/p+b·p+c"
	InverseSegment Law = "a/p+c+4·p+p²/16"
	// Mixed and MixedSegment are the same with data that falls in another way, RisingSegment
	// with data that does not fall.
	Mixed         Law = "a/p^k+b·p+c"
	MixedSegment  Law = "a/p^k+c+4·p+p²/16"
	RisingSegment Law = "a+b·p+4·p+p²/16"
	// Segment is what MPICH allocates on a node of p processes.
	Segment Law = "constant+4·p+p²/16"
)

// lawNames are the names that users may give, including ASCII ones.
var lawNames = map[string]Law{
	"auto": Auto, "structural": Structural, "thesis": Thesis, "power": Power, "power+floor": PowerFloor,
	"volume23": Volume23, "volume23+floor": Volume23Floor, "volume12": Volume12, "volume12+floor": Volume12Floor,
	"inverse+floor": Inverse, "inverse23+floor": Inverse23, "inverse12+floor": Inverse12,
	"constant": Steady, "rising": Rising, "plateau": Plateau, "logarithm": Logarithm,
}

// LawNames lists the names for ParseLaw, without synonyms.
func LawNames() []string {
	return []string{"auto", "structural", "thesis", "power", "power+floor", "volume23", "volume23+floor", "volume12", "volume12+floor",
		"inverse+floor", "inverse23+floor", "inverse12+floor", "constant", "rising", "plateau", "logarithm"}
}

// ParseLaw reads the name of a law, or its formula.
func ParseLaw(s string) (Law, error) {
	if l, ok := lawNames[strings.ToLower(s)]; ok {
		return l, nil
	}
	for _, l := range lawNames {
		if string(l) == s {
			return l, nil
		}
	}
	return "", Refuse("known laws: "+strings.Join(LawNames(), ", "), "law %q is unknown", s)
}

// FittedLaws lists the laws that are fitted to points.
func FittedLaws() []Law {
	list := []Law{PowerFloor}
	for _, f := range families {
		list = append(list, f.law)
	}
	return list
}

// params is the number of parameters of a law.
func (l Law) params() int {
	switch l {
	case PowerFloor, Volume23Floor, Volume12Floor, Plateau, LogPlateau, Quadratic, InverseRising, Grid3, MixedSegment:
		return 3
	case Structural, Steady, Segment:
		return 1
	case Mixed:
		return 4
	}
	return 2
}

// basis is the row of basis functions of a law at p. Exponent is the power laws', for a
// plateau where it begins, and for a grid the halo.
func (l Law) basis(p, exponent float64) []float64 {
	switch l {
	case Power, Thesis:
		return []float64{math.Pow(p, exponent)}
	case PowerFloor:
		return []float64{math.Pow(p, exponent), 1}
	case Volume23:
		return []float64{1 / p, math.Pow(p, -2./3)}
	case Volume23Floor:
		return []float64{1 / p, math.Pow(p, -2./3), 1}
	case Volume12:
		return []float64{1 / p, 1 / math.Sqrt(p)}
	case Volume12Floor:
		return []float64{1 / p, 1 / math.Sqrt(p), 1}
	case Inverse, InverseSegment:
		return []float64{1 / p, 1}
	case InverseRising:
		return []float64{1 / p, p, 1}
	case Inverse23:
		return []float64{math.Pow(p, -2./3), 1}
	case Inverse12:
		return []float64{1 / math.Sqrt(p), 1}
	case Grid2:
		return []float64{blocks(exponent, gridParts(2, p))}
	case Grid3:
		return []float64{blocks(exponent, gridParts(3, p)), 1}
	case Steady, Segment:
		return []float64{1}
	case Mixed:
		return []float64{math.Pow(p, -exponent), p, 1}
	case MixedSegment:
		return []float64{math.Pow(p, -exponent), 1}
	case Rising, RisingSegment:
		return []float64{1, p}
	case Plateau:
		return []float64{1, min(p, exponent)}
	case Logarithm:
		return []float64{1, math.Log2(p)}
	case LogPlateau:
		return []float64{1, math.Log2(min(p, exponent))}
	case Levelling:
		return []float64{1, -1 / p}
	case Quadratic:
		return []float64{1, p, p * p}
	}
	return nil
}

// known is the part of a law without coefficients.
func (l Law) known(p float64) float64 {
	switch l {
	case Segment, InverseSegment, MixedSegment, RisingSegment:
		return physical(p)
	}
	return 0
}

// physical is the memory that MPICH allocates beside a constant: a cell pool of 4 MiB
// per process and 64 KiB per ordered pair.
func physical(p float64) float64 { return 4*p + p*p/16 }

// A Point is one measurement of a zone: MiB at p.
type Point struct {
	P   float64 `json:"p"`
	MiB float64 `json:"mib"`
}

// Distinct counts the different p.
func Distinct(points []Point) int {
	seen := map[float64]bool{}
	for _, pt := range points {
		seen[pt.P] = true
	}
	return len(seen)
}

// Span returns the smallest and largest p.
func Span(points []Point) (low, high float64) {
	p := func(a, b Point) int { return int(math.Copysign(1, a.P-b.P)) }
	if len(points) == 0 {
		return 0, 0
	}
	return slices.MinFunc(points, p).P, slices.MaxFunc(points, p).P
}

// A LawFit is one law fitted to the points of a series.
type LawFit struct {
	Law      Law     `json:"law"`
	Exponent float64 `json:"exponent,omitempty"`
	Linear
	// LOO is the root mean square of the relative errors when each point is predicted
	// from the others. AICc is Akaike's criterion corrected for small samples. Both
	// are 0 if there are too few points.
	LOO  float64 `json:"loo"`
	AICc float64 `json:"aicc"`
	// Weight is the share of the law in the prediction of Auto.
	Weight float64 `json:"weight"`
}

func (f *LawFit) At(p float64) float64 {
	return f.Linear.At(f.Law.basis(p, f.Exponent)) + f.Law.known(p)
}

// Coefficients are in MiB, in the order of the law's name.
func (f *LawFit) Coefficients() []float64 {
	if f.Law == Plateau || f.Law == LogPlateau {
		return append(slices.Clone(f.Coef), f.At(math.Inf(1)))
	}
	return f.Coef
}

// Power is the fitted exponent, 0 for a law with known exponents.
func (f *LawFit) Power() float64 {
	switch f.Law {
	case Plateau, LogPlateau, Grid2, Grid3:
		return 0
	}
	return f.Exponent
}

// slopes is the row of derivatives of the law at p by its parameters: the basis
// and, for power laws, the derivative by the exponent.
func (f *LawFit) slopes(p float64) []float64 {
	row := f.Law.basis(p, f.Exponent)
	if f.Law == Power || f.Law == PowerFloor || f.Law == Thesis {
		row = append(row, f.Coef[0]*row[0]*math.Log(p))
	}
	return row
}

// spread is the relative variance that the uncertain parameters add at p, in units of
// the variance of one point.
func (f *LawFit) spread(p float64) float64 {
	row, v := f.slopes(p), f.At(p)
	s, k := 0.0, len(row)
	for i := range k {
		for j := range k {
			s += row[i] * f.Gram[i*k+j] * row[j]
		}
	}
	return max(0, s) / (v * v)
}

// linearise replaces the matrix of a power law by its tangent's, in which
// the exponent is a parameter like the others.
func (f *LawFit) linearise(points []Point) {
	var rows [][]float64
	var values []float64
	for _, pt := range points {
		rows, values = append(rows, f.slopes(pt.P)), append(values, pt.MiB)
	}
	k := len(f.slopes(1))
	f.Gram = make([]float64, k*k)
	for set := uint(1<<k - 1); set > 0; set-- {
		if t, err := solveSet(rows, values, values, set); err == nil {
			f.Gram = t.Gram
			return
		}
	}
}

// fitLaw fits one law. Two points are enough for two parameters, but not two
// measurements of the same p.
func fitLaw(l Law, points []Point) (*LawFit, error) {
	if n := Distinct(points); n < l.params() {
		return nil, Refuse("measure another process count, or describe the application by a workload spec, which needs one point",
			"%d process count(s) cannot fix the %d parameters of the law %s", n, l.params(), l)
	}
	switch l {
	case Thesis:
		return fitLogLog(points)
	case Power, PowerFloor:
		return fitPower(l, points)
	case Plateau, LogPlateau:
		return fitPlateau(l, points)
	case Grid2, Grid3:
		return fitGrid(l, points)
	case Mixed, MixedSegment:
		return fitFrom(l, points, func(share float64) float64 { return 0.3 + 0.7*share })
	}
	return fitBasis(l, 0, points)
}

func fitBasis(l Law, exponent float64, points []Point) (*LawFit, error) {
	var rows [][]float64
	var values, weights []float64
	for _, pt := range points {
		rows, values, weights = append(rows, l.basis(pt.P, exponent)), append(values, pt.MiB-l.known(pt.P)), append(weights, pt.MiB)
	}
	lin, err := LeastSquares(rows, values, weights, nil)
	if err != nil {
		return nil, Refuse("measure another process count", "the law %s does not fit the points", l)
	}
	return &LawFit{Law: l, Exponent: exponent, Linear: *lin}, nil
}

// fitPlateau tries where the plateau begins.
func fitPlateau(l Law, points []Point) (best *LawFit, err error) {
	low, high := Span(points)
	return fitFrom(l, points, func(share float64) float64 { return low * math.Pow(high/low, share) })
}

// fitFrom tries values of what is not linear in a law, from shares of its range.
func fitFrom(l Law, points []Point, of func(share float64) float64) (best *LawFit, err error) {
	for i := 1.; i <= 64; i++ {
		f, ferr := fitBasis(l, of(i/64), points)
		if ferr == nil && (best == nil || f.RSS < best.RSS*(1-1e-9)) {
			best = f
		}
		err = ferr
	}
	if best == nil {
		return nil, err
	}
	best.K++ // what was tried
	return best, nil
}

// fitGrid tries halos.
func fitGrid(l Law, points []Point) (best *LawFit, err error) {
	return fitFrom(l, points, func(share float64) float64 { return maxHalo * cube(share) })
}

// fitPower searches the exponent by golden section. For a given exponent the rest is
// linear.
func fitPower(l Law, points []Point) (*LawFit, error) {
	if l == PowerFloor { // a flatter power would look like the floor
		return fitPowerWithin(l, points, -2, -0.3, 1e-7)
	}
	return fitPowerWithin(l, points, -3, 1, 1e-7)
}

func fitPowerWithin(l Law, points []Point, low, high, tolerance float64) (*LawFit, error) {
	rows, values := make([][]float64, len(points)), make([]float64, len(points))
	for i, pt := range points {
		rows[i], values[i] = l.basis(pt.P, 1), pt.MiB
	}
	logs := make([]float64, len(points))
	for i, pt := range points {
		logs[i] = math.Log(pt.P)
	}
	rss := func(e float64) float64 {
		for i := range rows {
			rows[i][0] = math.Exp(e * logs[i])
		}
		f, err := LeastSquares(rows, values, values, nil)
		if err != nil {
			return math.Inf(1)
		}
		return f.RSS
	}
	f, err := fitBasis(l, interval.Golden(low, high, tolerance, rss), points)
	if err != nil {
		return nil, err
	}
	f.K++ // the exponent
	f.linearise(points)
	return f, nil
}

// fitLogLog is the thesis's regression: a line through (ln p, ln MiB).
func fitLogLog(points []Point) (*LawFit, error) {
	n := float64(len(points))
	var mx, my, sxx, sxy float64
	for _, pt := range points {
		mx += math.Log(pt.P) / n
		my += math.Log(pt.MiB) / n
	}
	for _, pt := range points {
		dx := math.Log(pt.P) - mx
		sxx += dx * dx
		sxy += dx * (math.Log(pt.MiB) - my)
	}
	return thesisFit(math.Exp(my-sxy/sxx*mx), sxy/sxx, points), nil
}

// thesisFit wraps given coefficients a, b of a·p^b.
func thesisFit(a, b float64, points []Point) *LawFit {
	f := &LawFit{Law: Thesis, Exponent: b, Linear: Linear{Coef: []float64{a}, N: max(1, len(points)), K: 2}}
	for _, pt := range points {
		r := (f.At(pt.P) - pt.MiB) / pt.MiB
		f.RSS += r * r
	}
	f.linearise(points)
	return f
}
