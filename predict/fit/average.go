package fit

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// A sample is one measurement of a zone of an application: MiB at p processes, of the job
// or of a node, and for a problem size n.
type sample struct {
	app       string
	n, p, mib float64
}

// An average is what all families together say of a zone. Every family counts as much as
// the measurements make it likely, with every value of its parameters, under every
// assumption about noise. So what the measurements cannot tell apart widens the interval.
//
// All of it is in logarithms: r = ln MiB − ln family = size + offset/MiB + noise. The size
// and the offset of an application are normal numbers that are integrated exactly;
// parameters are cells of a grid, which is fine where the measurements make it likely.
type average struct {
	low     [2]float64 // the smallest problem size and number of processes
	high    float64    // the largest number of processes
	apps    []string   // with an offset of their own
	samples []sample
	app     []int // the application of each sample
	at      []abscissa
	levels  [len(noiseLevels)]level
	fits    []cellFit
	// evidence is the logarithm of the likelihood of the measurements.
	evidence float64
}

// A cell is a part of the parameters of a family, by its middle.
type cell struct {
	family     *family
	u, v       float64
	width      [2]float64
	prior, log float64                   // logarithms, the second with the likelihood
	logs       [len(noiseLevels)]float64 // log under each assumption about noise
	sums       []sums                    // by application
	axis       int                       // the parameter that changes the measurements more
}

// A cellFit is a cell under one assumption about noise.
type cellFit struct {
	family       *family
	u, v, weight float64
	noise        float64
	size         float64 // the logarithm of the size, and its variance
	variance     float64
	offsets      []offset
}

// An offset is what is known of an application: mean is o₀ − slope·(size − its mean).
type offset struct{ mean, slope, variance float64 }

// sizeRange is the logarithm of the range that a size may have before measurements.
const sizeRange = 7

// averageLaws weighs every family.
func averageLaws(samples []sample, families []family, prior priors) *average {
	a := &average{samples: merged(samples)}
	a.low = [2]float64{math.Inf(1), math.Inf(1)}
	seen := map[string]bool{}
	for _, s := range a.samples {
		a.low, a.high = [2]float64{min(a.low[0], s.n), min(a.low[1], s.p)}, max(a.high, s.p)
		seen[s.app] = true
	}
	if len(seen) > 1 {
		a.apps = slices.Sorted(maps.Keys(seen))
	}
	for _, s := range a.samples {
		a.at = append(a.at, abscissaOf(s.n, s.p, a.low, a.high))
		a.app = append(a.app, max(0, slices.Index(a.apps, s.app)))
	}
	a.assume()
	var all []*cell
	for i := range families {
		if share := prior[families[i].law]; share > 0 {
			all = append(all, a.explore(&families[i], math.Log(share))...)
		}
	}
	all = a.refine(all, globalRounds, globalShare)
	a.settle(all)
	return a
}

// merged takes measurements of one application and one number of processes as their mean:
// what a law misses is the same for all of them.
func merged(samples []sample) (out []sample) {
	at, runs := map[sample]int{}, []float64{}
	for _, s := range samples {
		k := sample{s.app, s.n, s.p, 0}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out, runs = append(out, k), append(runs, 0)
		}
		runs[i]++
		out[i].mib += (s.mib - out[i].mib) / runs[i]
	}
	return out
}

// The grid: how many cells a parameter begins with, which share of its family or of all a
// cell must have to be divided, how often, and how many cells there may be.
const (
	startCells, startCells2 = 32, 10
	familyRounds            = 16
	familyShare             = 0.02
	globalRounds            = 6
	globalShare             = 0.002
	maxCells                = 4000
	// enough is a change of the measurements that matters less than any noise.
	enough = 1e-4
)

// explore covers the parameters of a family with cells, and divides the likely ones.
func (a *average) explore(f *family, prior float64) []*cell {
	n, m := 1, 1
	switch f.open {
	case 1:
		n = startCells
	case 2:
		n, m = startCells2, startCells2
	}
	var cells []*cell
	for i := range n {
		for j := range m {
			c := &cell{family: f, u: (float64(i) + 0.5) / float64(n), v: (float64(j) + 0.5) / float64(m)}
			c.width = [2]float64{1 / float64(n), 1 / float64(m)}
			c.prior = prior - math.Log(float64(n*m))
			cells = append(cells, a.weigh(c))
		}
	}
	return a.refine(cells, familyRounds, familyShare)
}

// refine divides cells that have at least a share of all, some times.
func (a *average) refine(cells []*cell, rounds int, share float64) []*cell {
	for range rounds {
		best, sum := math.Inf(-1), 0.0
		for _, c := range cells {
			best = max(best, c.log)
		}
		for _, c := range cells {
			sum += math.Exp(c.log - best)
		}
		limit := best + math.Log(share*sum)
		divided := false
		for i, n := 0, len(cells); i < n && len(cells) < maxCells; i++ {
			c := cells[i]
			if c.log <= limit || c.family.open == 0 {
				continue
			}
			var change float64
			if c.axis, change = a.sensitivity(c); change > enough {
				parts := a.divide(c)
				cells[i] = parts[0]
				cells, divided = append(cells, parts[1]), true
			}
		}
		if !divided {
			break
		}
	}
	return cells
}

// divide halves a cell in the parameter that changes the measurements more.
func (a *average) divide(c *cell) (parts [2]*cell) {
	for i, side := range []float64{-1, 1} {
		p := &cell{family: c.family, u: c.u, v: c.v, width: c.width, prior: c.prior - math.Ln2}
		step := side * c.width[c.axis] / 4
		if p.width[c.axis] /= 2; c.axis == 0 {
			p.u += step
		} else {
			p.v += step
		}
		parts[i] = a.weigh(p)
	}
	return parts
}

// sensitivity is by how much, in logarithms, measurements change over a cell. A change that
// all have in common is one of the size.
func (a *average) sensitivity(c *cell) (axis int, most float64) {
	for i := range c.family.open {
		du, dv := c.width[0]/2, 0.0
		if i == 1 {
			du, dv = 0, c.width[1]/2
		}
		low, high := math.Inf(1), math.Inf(-1)
		if c.family.absolute {
			low, high = 0, 0
		}
		for j := range a.at {
			x := &a.at[j]
			d := math.Log(c.family.at(c.u+du, c.v+dv, x) / c.family.at(c.u-du, c.v-dv, x))
			low, high = min(low, d), max(high, d)
		}
		if high-low > most {
			axis, most = i, high-low
		}
	}
	return axis, most
}

// weigh adds the likelihood of the measurements at the middle of a cell, under all assumptions
// about noise.
func (a *average) weigh(c *cell) *cell {
	apps := max(1, len(a.apps))
	c.sums = make([]sums, apps)
	for i, m := range a.samples {
		s := &c.sums[a.app[i]]
		r, d := math.Log(m.mib/c.family.at(c.u, c.v, &a.at[i])), 1/m.mib
		s.n, s.r, s.rr = s.n+1, s.r+r, s.rr+r*r
		s.d, s.dd, s.dr = s.d+d, s.dd+d*d, s.dr+d*r
	}
	best := math.Inf(-1)
	for i := range a.levels {
		c.logs[i] = c.prior + a.levels[i].likelihood(c, nil)
		best = max(best, c.logs[i])
	}
	sum := 0.0
	for _, l := range c.logs {
		if l > best-hopeless {
			sum += math.Exp(l - best)
		}
	}
	c.log = best + math.Log(sum)
	return c
}

// sums are of the measurements of one application: residuals r, and columns d of an offset.
type sums struct{ n, r, rr, d, dd, dr float64 }

// A level is one assumption about noise, with all of the likelihood that does not depend on
// the family: it is worked out once, not for each cell.
type level struct {
	sd, w    float64
	apps     []levelOffset // by application, if these have offsets
	ones     float64       // of the column of the size
	absolute float64       // the constant part of the logarithm, of families without a size
	sized    float64       // and of others
}

type levelOffset struct{ total, slope float64 }

// assume works out the levels.
func (a *average) assume() {
	byApp := make([]sums, max(1, len(a.apps)))
	for i, m := range a.samples {
		s, d := &byApp[a.app[i]], 1/m.mib
		s.n, s.d, s.dd = s.n+1, s.d+d, s.dd+d*d
	}
	n := float64(len(a.samples))
	for i, assumed := range noiseLevels {
		l := level{sd: assumed.sd, w: 1 / (assumed.sd * assumed.sd)}
		logs := 2 * n * math.Log(l.sd)
		for _, s := range byApp {
			l.ones += l.w * s.n
			if len(a.apps) == 0 {
				continue
			}
			o := levelOffset{total: l.w*s.dd + 1/(offsetSD*offsetSD)}
			o.slope = l.w * s.d / o.total
			l.ones -= l.w * s.d * o.slope
			logs += math.Log(o.total * offsetSD * offsetSD)
			l.apps = append(l.apps, o)
		}
		prior := math.Log(assumed.prior)
		l.absolute = prior - (logs+n*math.Log(2*math.Pi))/2
		l.sized = prior - (logs+math.Log(l.ones)+(n-1)*math.Log(2*math.Pi))/2 - math.Log(sizeRange)
		a.levels[i] = l
	}
}

// likelihood integrates over the size and the offsets. It fills in fit unless that is nil.
func (l *level) likelihood(c *cell, fit *cellFit) float64 {
	var rr, one float64 // of residuals, without offsets
	for i := range c.sums {
		s := &c.sums[i]
		rr, one = rr+l.w*s.rr, one+l.w*s.r
		if l.apps == nil {
			continue
		}
		o := l.apps[i]
		mean := l.w * s.dr / o.total
		rr, one = rr-l.w*s.dr*mean, one-l.w*s.d*mean
		if fit != nil {
			fit.offsets = append(fit.offsets, offset{mean, o.slope, 1 / o.total})
		}
	}
	if c.family.absolute {
		return l.absolute - rr/2
	}
	if fit != nil {
		fit.size, fit.variance = one/l.ones, 1/l.ones
	}
	return l.sized - max(0, rr-one*one/l.ones)/2
}

// hopeless is a logarithm of a likelihood that no sum of cells sees beside the best.
const hopeless = 30

// ignored is the share of the least likely that does not count.
const ignored = 2e-4

// settle keeps the likely cells, each under every likely noise, and orders them by noise.
func (a *average) settle(cells []*cell) {
	best := math.Inf(-1)
	for _, c := range cells {
		best = max(best, slices.Max(c.logs[:]))
	}
	sum := 0.0
	var weights []float64
	for _, c := range cells {
		for i, l := range c.logs {
			if c.logs[i] = 0; l > best-hopeless {
				c.logs[i] = math.Exp(l - best)
				weights = append(weights, c.logs[i])
				sum += c.logs[i]
			}
		}
	}
	a.evidence = best + math.Log(sum)
	slices.Sort(weights)
	least, rest := 0.0, 0.0
	for _, w := range weights {
		if rest+w > ignored*sum {
			break
		}
		rest, least = rest+w, w
	}
	kept := 0.0
	for i := range a.levels {
		for _, c := range cells {
			if c.logs[i] <= least {
				continue
			}
			f := cellFit{family: c.family, u: c.u, v: c.v, noise: a.levels[i].sd, weight: c.logs[i]}
			a.levels[i].likelihood(c, &f)
			a.fits = append(a.fits, f)
			kept += f.weight
		}
	}
	for i := range a.fits {
		a.fits[i].weight /= kept
	}
}

// leastShape is the smallest size of a law relative to the smallest number of processes, for
// laws that would end below 0 to the left of it.
const leastShape = 0.05

// predict returns the logarithm of the size of one run of an application at n and p.
func (a *average) predict(app string, n, p float64) blend {
	x := abscissaOf(n, p, a.low, a.high)
	known := slices.Index(a.apps, app)
	stranger := known < 0 && !slices.ContainsFunc(a.samples, func(s sample) bool { return s.app == app })
	out := make(blend, 0, len(a.fits))
	for i := range a.fits {
		f := &a.fits[i]
		shape := f.family.at(f.u, f.v, &x)
		if x.x < 1 {
			shape = max(shape, leastShape)
		}
		mean := f.size + math.Log(shape)
		variance, d := f.variance, math.Exp(-mean)
		switch {
		case known >= 0:
			o := f.offsets[known]
			slope := 1 - o.slope*d
			mean += (o.mean - o.slope*f.size) * d
			variance = slope*slope*f.variance + o.variance*d*d
		case stranger:
			variance += offsetSD * offsetSD * d * d
		}
		out = append(out, bell{f.weight, mean, math.Sqrt(variance + f.noise*f.noise), f.noise})
	}
	return out.merged()
}

// estimate is the middle of a size at n and p, with the interval that holds 95 % of it.
func (a *average) estimate(app string, n, p, factor float64) Estimate {
	b := a.predict(app, n, p)
	return Estimate{math.Exp(b.quantile(0.5)), math.Exp(b.quantile(0.025)), math.Exp(b.quantile(0.975)), factor}
}

// middle is the value of the estimate at n and p of no application in particular.
func (a *average) middle(n, p float64) float64 { return math.Exp(a.predict("", n, p).quantile(0.5)) }

// shares are those of the laws, the heaviest first.
func (a *average) shares() (laws []Law, share map[Law]float64) {
	share = map[Law]float64{}
	for _, f := range a.fits {
		if share[f.family.law] == 0 {
			laws = append(laws, f.family.law)
		}
		share[f.family.law] += f.weight
	}
	slices.SortStableFunc(laws, func(x, y Law) int { return cmp.Compare(share[y], share[x]) })
	return laws, share
}

// offset is what an application differs by from others, in MiB.
func (a *average) offset(app string) (mean float64) {
	i := slices.Index(a.apps, app)
	for _, f := range a.fits {
		mean += f.weight * (f.offsets[i].mean - f.offsets[i].slope*f.size)
	}
	return mean
}

// likeliest is the likeliest curve of a law, as points.
func (a *average) likeliest(l Law) (points []Point) {
	var best *cellFit
	for i := range a.fits {
		if f := &a.fits[i]; f.family.law == l && (best == nil || f.weight > best.weight) {
			best = f
		}
	}
	for p := a.low[1]; p < 1e3*a.low[1]; p *= 1.5 {
		x := abscissaOf(a.low[0], p, a.low, a.high)
		points = append(points, Point{p, math.Exp(best.size) * best.family.at(best.u, best.v, &x)})
	}
	return points
}
