package pattern

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ckpt/internal/testkit"
)

// Constants were chosen on the seeds from 0 on (-tune). Tests use others.
var tune = flag.Bool("tune", false, "measure on the seeds that the constants were chosen on")

const untouched = 1 << 32 // the first seed of the tests

func random(seed, more uint64) *rand.Rand {
	if !*tune {
		seed += untouched
	}
	return rand.New(rand.NewPCG(seed, more))
}

// find analyses phases of a length in seconds, in 4096 samples or fewer, as package
// analyze does with a gap of 100 ms.
func find(starts []float64, length func(i int) float64) (Period, float64) {
	const gap = 0.1
	slices.Sort(starts)
	first, last := starts[0], 0.
	for i, s := range starts {
		last = max(last, s+length(i)-first)
	}
	n := 4096
	for n > 1 && last/float64(n) < gap/2 {
		n /= 2
	}
	width := last / float64(n)
	signal := make([]float64, n)
	var v Visits
	for i, s := range starts {
		from, to := s-first, s-first+max(length(i), 1e-6)
		v.Add(from, to, 1<<20, gap)
		for b := int(from / width); b < n && float64(b)*width < to; b++ {
			overlap := min(to, float64(b+1)*width) - max(from, float64(b)*width)
			signal[b] += max(0, overlap) / (to - from) / width
		}
	}
	counted := v.starts()
	return Find(signal, width, &v), (counted[len(counted)-1] - counted[0]) / float64(max(1, len(counted)-1))
}

// TestJitter finds periods in 98 of 100 traces or more. The time from phase to phase of
// the trace is the measure, not that of the generator: ten intervals with a jitter of
// 15 % have a mean that is 5 % off it.
func TestJitter(t *testing.T) {
	seeds := 20
	if testkit.Nightly() {
		seeds = 100
	}
	for _, normal := range []bool{false, true} {
		for _, grid := range []bool{false, true} {
			for _, long := range []bool{false, true} {
				least, nominal, cases := seeds, 0, 0
				for _, jitter := range []float64{0, 0.02, 0.05, 0.085, 0.12, 0.15} {
					for _, n := range []int{10, 20, 40, 200} {
						found := 0
						for seed := range uint64(seeds) {
							r := random(seed, uint64(n)+uint64(1000*jitter)<<20)
							every := 0.214
							length := 0.
							if long || jitter > 0.085 { // else phases may come within the gap
								every = 1 + 9*r.Float64()
							}
							if long {
								length = 0.3 * every
							}
							early := func() float64 {
								if normal {
									return jitter * r.NormFloat64()
								}
								return jitter * (2*r.Float64() - 1)
							}
							starts := make([]float64, n)
							at := 0.
							for k := range starts {
								if grid {
									starts[k] = every * (float64(k) + early())
								} else {
									at += every * max(0.2, 1+early())
									starts[k] = at
								}
							}
							p, mean := find(starts, func(int) float64 { return length })
							if p.Periodic && math.Abs(p.Period-mean) <= 0.03*mean {
								found++
							}
							if p.Periodic && math.Abs(p.Period-every) <= 0.03*every {
								nominal++
							}
							cases++
						}
						least = min(least, found)
						if found < seeds-max(1, seeds*2/100) {
							t.Errorf("normal %v, grid %v, long %v, jitter %g, %d phases: %d of %d", normal, grid, long, jitter, n, found, seeds)
						}
					}
				}
				t.Logf("normal %v, grid %v, long %v: %d of %d at least; %.1f %% within 3 %% of the generator's", normal, grid, long, least, seeds, 100*float64(nominal)/float64(cases))
			}
		}
	}
}

// aperiodic makes the starts of phases that have no period.
var aperiodic = map[string]func(r *rand.Rand, n int) []float64{
	"Poisson": func(r *rand.Rand, n int) (s []float64) {
		at := 0.
		for range n {
			at += 5 * r.ExpFloat64()
			s = append(s, at)
		}
		return s
	},
	"single burst": func(r *rand.Rand, n int) (s []float64) {
		for k := range n {
			s = append(s, 0.09*(float64(k)+0.1*r.Float64()))
		}
		return s
	},
	"ramp": func(r *rand.Rand, n int) (s []float64) {
		at, growth := 0., 1+2*r.Float64()
		for k := range n {
			at += 1 + growth*float64(k)/float64(n)
			s = append(s, at)
		}
		return s
	},
	"random walk": func(r *rand.Rand, n int) (s []float64) {
		at, d := 0., 0.
		for range n {
			d += r.NormFloat64()
			at += math.Exp(d)
			s = append(s, at)
		}
		return s
	},
	"two periods": func(r *rand.Rand, n int) (s []float64) {
		// Twice the ratio is no whole number: few such phases repeat together.
		other, late := 1+0.5*float64(r.IntN(4))+0.15+0.2*r.Float64(), r.Float64()
		for k := range n {
			s = append(s, float64(k), late+other*float64(k))
		}
		slices.Sort(s)
		return s[:n]
	},
}

// TestAperiodic refuses traces without a period in 98 of 100 cases or more.
func TestAperiodic(t *testing.T) {
	for name, kind := range aperiodic {
		for _, n := range []int{10, 15, 20, 40, 200} {
			if refused := refusals(t, kind, n); refused < 98 {
				t.Errorf("%s, %d phases: %d of 100 refused", name, n, refused)
			} else {
				t.Logf("%s, %d phases: %d of 100 refused", name, n, refused)
			}
		}
	}
}

// TestFewPhases: with fewer than nine phases, I/O is periodic only if they follow each
// other so evenly that chance hardly does it; else nobody knows.
func TestFewPhases(t *testing.T) {
	for name, kind := range aperiodic {
		for _, n := range []int{3, 4, 5, 6, 8} {
			refused := refusals(t, kind, n)
			t.Logf("%s, %d phases: %d of 100 not called periodic", name, n, refused)
			if refused < 93 {
				t.Errorf("%s, %d phases: %d of 100 not called periodic", name, n, refused)
			}
		}
	}
	for n := 3; n <= 9; n++ {
		var even []float64
		for k := range n {
			even = append(even, 10*float64(k))
		}
		if p, _ := find(even, func(int) float64 { return 1 }); p.Periodic != (n >= 4) || p.Enough != (n >= 9) {
			t.Errorf("%d even phases: %+v", n, p)
		}
	}
}

// refusals counts the traces of 100 that are not called periodic.
func refusals(t *testing.T, kind func(*rand.Rand, int) []float64, n int) (refused int) {
	for seed := range uint64(100) {
		p, _ := find(kind(random(seed, uint64(n)), n), func(int) float64 { return 0.01 })
		if !p.Periodic {
			refused++
		}
		if p.Enough != (n >= 9) && len(phasesOf(kind(random(seed, uint64(n)), n))) == n {
			t.Errorf("%d phases: enough %v", n, p.Enough)
		}
	}
	return refused
}

// phasesOf returns the phases that count.
func phasesOf(starts []float64) []float64 {
	var v Visits
	for _, s := range starts {
		v.Add(s-starts[0], s-starts[0]+0.01, 1<<20, 0.1)
	}
	return v.starts()
}
