package finding

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"ckpt/iotrace"
)

// A search is the search for the findings of a run.
type search struct {
	*Run
	t       *Thresholds
	claimed [][2]claimed // by file and direction
	rate    [2]float64   // reference bandwidth, bytes/s
	sure    [2]float64   // the same, but less if rate is assumed
	source  [2]string    // where rate is from
	scale   [2]float64   // wall time of all files together, over the sum of theirs
	gained  float64      // by the findings so far, s
	out     []Finding
}

// claimed is the part of the time of a file that findings account for.
type claimed struct {
	volume float64 // share of the bytes that need not be moved
	excess bool    // the rest moves at the reference bandwidth
}

type claim struct {
	file, direction int
	claimed
}

// files visits the files of the run.
func (s *search) files() iter.Seq2[int, *File] {
	return func(yield func(int, *File) bool) {
		for i := range s.Files {
			if !yield(i, &s.Files[i]) {
				return
			}
		}
	}
}

// anyFile reports whether a file is as asked.
func (s *search) anyFile(is func(*File) bool) bool {
	return slices.ContainsFunc(s.Files, func(f File) bool { return is(&f) })
}

// bytes returns what is written to and read from a file.
func (f *File) bytes() int64 { return iotrace.Sum(f.Data[0].Bytes, f.Data[1].Bytes) }

// least is the number of requests that a reference needs.
const least = 4

// doubted is the share of the assumed bandwidth that severities rely on: 100 MB/s of
// 1 GB/s, a single disk.
const doubted = 0.1

// references finds the bandwidth that requests could have: what the large requests
// of this trace have, else the medium ones, else what a fit to the small ones says, else an
// assumption. Files in random order do not count. Bytes are divided by the times of the
// requests, so that it is the bandwidth of one rank beside the others of this run.
func (s *search) references() {
	for d := range 2 {
		var large, medium Work
		var fit Fit
		var walls float64
		for _, f := range s.files() {
			walls += f.Data[d].Wall
			if f.Random[d] < mostly {
				large.add(f.Data[d].Large)
				medium.add(f.Data[d].Medium)
				fit.merge(f.Data[d].Fit)
			}
		}
		s.scale[d] = 1
		if walls > 0 {
			s.scale[d] = min(1, s.Data[d].Wall/walls)
		}
		trust := 1.
		switch rate := fit.rate(); {
		case large.Count >= least && large.Time > 0:
			s.rate[d], s.source[d] = float64(large.Bytes)/large.Time, "the bandwidth of the large ones of this trace"
		case medium.Count >= least && medium.Time > 0:
			s.rate[d], s.source[d] = float64(medium.Bytes)/medium.Time, "the bandwidth of those from 100 KiB on"
		case rate > 0:
			s.rate[d], s.source[d] = rate, "the bandwidth that the sizes and times of these requests tell"
		default:
			trust = doubted
			s.rate[d], s.source[d] = s.assumed(d), "an assumed bandwidth, since the trace tells none"
		}
		s.sure[d] = trust * s.rate[d]
		s.source[d] += fmt.Sprintf(" (%s)", rateText(s.rate[d]))
	}
}

// assumed is the bandwidth that a rank is taken to reach beside the others of its
// direction, on a storage that serves them all.
func (s *search) assumed(d int) float64 {
	n := 0
	for _, f := range s.files() {
		n = min(n+f.users(d), s.ActiveRanks)
	}
	return min(s.t.ReferenceRate, s.t.ReferenceTotal/float64(max(1, n)))
}

// users returns how many ranks write to the file, or read from it.
func (f *File) users(d int) int { return [2]int{f.Writers, f.Readers}[d] }

func rateText(bytesPerSecond float64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}} {
		if bytesPerSecond >= u.size {
			return fmt.Sprintf("%.3g %s", bytesPerSecond/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.3g B/s", bytesPerSecond)
}

func (w *Work) add(o Work) {
	w.Count, w.Bytes = iotrace.Sum(w.Count, o.Count), iotrace.Sum(w.Bytes, o.Bytes)
	w.Time += o.Time
}

// An amount is a gain in seconds, and what is left of it if an assumed bandwidth is
// wrong.
type amount struct{ gain, sure float64 }

func (a amount) plus(b amount) amount { return amount{a.gain + b.gain, a.sure + b.sure} }

func certain(gain float64) amount { return amount{gain, gain} }

// excess returns the part of some wall time that work would save at the reference
// bandwidth.
func (s *search) excess(wall float64, w Work, d int) amount {
	at := func(rate float64) float64 {
		if w.Time <= 0 || rate <= 0 {
			return 0
		}
		return wall * max(0, 1-float64(w.Bytes)/rate/w.Time)
	}
	return amount{at(s.rate[d]), at(s.sure[d])}
}

// mostly is the share from which on something is said of a whole file.
const mostly = 0.5

// A choice is the files that a finding concerns, for their writes and for their reads.
type choice struct {
	s  *search
	of [2]chosen
}

// chosen are the files of one direction.
type chosen struct {
	files  int
	best   int // file with the most weight
	weight float64
	amount
	work   Work // of the files
	claims []claim
}

func (s *search) choose() *choice { return &choice{s: s} }

// faster adds a file whose requests could move at the reference bandwidth. Work is
// those requests.
func (c *choice) faster(i, d int, w Work) {
	was := c.s.claimed[i][d]
	if was.excess {
		return
	}
	gain := c.s.excess(w.Wall*c.s.scale[d]*(1-was.volume), w, d)
	c.take(i, d, w, gain, claimed{was.volume, true})
}

// fewer adds a file of whose bytes a share need not be moved.
func (c *choice) fewer(i, d int, share float64) {
	was := c.s.claimed[i][d]
	w := c.s.Files[i].Data[d].Work
	left := (1 - was.volume) * share
	c.take(i, d, w, certain(w.Wall*c.s.scale[d]*left), claimed{was.volume + left, was.excess})
}

func (c *choice) take(i, d int, w Work, gain amount, now claimed) {
	x := &c.of[d]
	weight := gain.gain
	if !c.s.Timed {
		weight = float64(w.Count)
	}
	if x.files == 0 || weight > x.weight {
		x.best, x.weight = i, weight
	}
	x.files++
	x.amount = x.plus(gain)
	x.work.add(w)
	x.claims = append(x.claims, claim{i, d, now})
}

// main is the direction with the larger gain.
func (c *choice) main() int {
	if c.of[1].gain > c.of[0].gain || c.of[0].files == 0 {
		return 1
	}
	return 0
}

// best is the file of a direction with the most weight.
func (c *choice) best(d int) *File { return &c.s.Files[c.of[d].best] }

// gives gives a finding the files of direction d, and the gains and claims of both. It
// reports whether there are any files.
func (c *choice) gives(f *Finding, d int) bool {
	x, y := &c.of[d], &c.of[1-d]
	if x.files == 0 {
		return false
	}
	sum := x.plus(y.amount)
	f.File, f.Files, f.Gain, f.sure = c.best(d).Name, x.files, &sum.gain, &sum.sure
	f.claims = append(x.claims, y.claims...)
	return true
}

// unclaimed returns the share of the time of requests that no finding accounts for.
func (s *search) unclaimed() float64 {
	var all, left float64
	for i := range s.Files {
		for d, c := range s.claimed[i] {
			w := s.Files[i].Data[d].Wall
			all += w
			if !c.excess {
				left += w * (1 - c.volume)
			}
		}
	}
	if all == 0 {
		return 1
	}
	return left / all
}

// has reports whether a finding is among those found.
func (s *search) has(codes ...string) bool {
	return slices.ContainsFunc(s.out, func(f Finding) bool { return slices.Contains(codes, f.Code) })
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func share(a, b int64) float64 { return ratio(float64(a), float64(b)) }

var writeRead = [2]string{"write", "read"}

// A Fit gathers the sizes and times of requests, to fit time = cost + size / rate by
// least squares.
type Fit struct {
	n, size, time, squares, products, times float64
}

// Add adds a request of some bytes and seconds.
func (f *Fit) Add(size, time float64) {
	f.n++
	f.size += size
	f.time += time
	f.squares += size * size
	f.products += size * time
	f.times += time * time
}

func (f *Fit) merge(o Fit) {
	f.n += o.n
	f.size += o.size
	f.time += o.time
	f.squares += o.squares
	f.products += o.products
	f.times += o.times
}

const (
	sizeSpread = 0.5 // least standard deviation of the sizes, in means
	rateError  = 0.1 // largest standard error of the rate, as a share of it
)

// rate returns the bandwidth, in bytes/s, or 0 if the requests do not tell: if their
// sizes are too much alike, or their times have too little to do with them.
func (f *Fit) rate() float64 {
	size, time := f.size/f.n, f.time/f.n
	spread := f.squares/f.n - size*size
	if !(f.n >= 30) || !(spread >= sizeSpread*sizeSpread*size*size) {
		return 0
	}
	slope := (f.products/f.n - size*time) / spread // s per byte
	if !(slope > 0) {
		return 0
	}
	// The standard error of a slope is its distance from a perfect correlation.
	explained := slope * slope * spread
	rest := max(0, f.times/f.n-time*time-explained)
	if math.Sqrt(rest/explained/(f.n-2)) > rateError {
		return 0
	}
	return 1 / slope
}
