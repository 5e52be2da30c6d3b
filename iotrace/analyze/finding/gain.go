package finding

import (
	"fmt"

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

// least is the number of requests that a reference needs.
const least = 4

// doubted is the share of the assumed bandwidth that severities rely on: 100 MB/s of
// 1 GB/s, a single disk.
const doubted = 0.1

// references finds the bandwidth that requests could have: that of the large requests
// of this trace, else of the medium ones, else what a fit to the small ones says, else an
// assumption. Files in random order do not count. Bytes are divided by the times of the
// requests, so that it is the bandwidth of one rank beside the others of this run.
func (s *search) references() {
	for d := range 2 {
		var large, medium Work
		var fit Fit
		var walls float64
		for i := range s.Files {
			f := &s.Files[i]
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
		assumed := false
		switch rate := fit.rate(); {
		case large.Count >= least && large.Time > 0:
			s.rate[d] = float64(large.Bytes) / large.Time
			s.source[d] = "the bandwidth of the large ones of this trace"
		case medium.Count >= least && medium.Time > 0:
			s.rate[d] = float64(medium.Bytes) / medium.Time
			s.source[d] = "the bandwidth of those from 100 KiB on"
		case rate > 0:
			s.rate[d] = rate
			s.source[d] = "the bandwidth that the sizes and times of these requests tell"
		default:
			assumed = true
			s.rate[d] = s.assumed(d)
			s.source[d] = "an assumed bandwidth, since the trace tells none"
		}
		s.sure[d] = s.rate[d]
		s.source[d] += fmt.Sprintf(" (%s)", rateText(s.rate[d]))
		if assumed {
			s.sure[d] *= doubted
		}
	}
}

// assumed is the bandwidth that a rank is taken to reach beside the others of its
// direction, on a storage that serves them all.
func (s *search) assumed(d int) float64 {
	n := 0
	for i := range s.Files {
		n = min(n+[2]int{s.Files[i].Writers, s.Files[i].Readers}[d], s.ActiveRanks)
	}
	return min(s.t.ReferenceRate, s.t.ReferenceTotal/float64(max(1, n)))
}

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

// A choice is the files that a finding concerns.
type choice struct {
	s      *search
	d      int
	files  int
	best   int // file with the most weight
	weight float64
	amount
	work   Work // of the files
	claims []claim
}

func (s *search) choose(d int) *choice { return &choice{s: s, d: d, best: -1} }

// faster adds a file whose requests could move at the reference bandwidth. Work is
// those requests.
func (c *choice) faster(i int, w Work) {
	was := c.s.claimed[i][c.d]
	if was.excess {
		return
	}
	c.take(i, c.d, w, c.s.excess(w.Wall*c.s.scale[c.d]*(1-was.volume), w, c.d), claimed{was.volume, true})
}

// fewer adds a file of whose bytes a share need not be moved.
func (c *choice) fewer(i int, share float64) {
	was := c.s.claimed[i][c.d]
	w := c.s.Files[i].Data[c.d].Work
	left := (1 - was.volume) * share
	c.take(i, c.d, w, certain(w.Wall*c.s.scale[c.d]*left), claimed{was.volume + left, was.excess})
}

func (c *choice) take(i, d int, w Work, gain amount, now claimed) {
	c.files++
	c.amount = c.plus(gain)
	c.work.add(w)
	c.claims = append(c.claims, claim{i, d, now})
	weight := gain.gain
	if !c.s.Timed {
		weight = float64(w.Count)
	}
	if c.best < 0 || weight > c.weight {
		c.best, c.weight = i, weight
	}
}

// finding makes a finding of the choice.
func (c *choice) finding(f Finding) *Finding {
	if c.files == 0 {
		return nil
	}
	f.File, f.Files, f.Gain, f.sure, f.claims = c.s.Files[c.best].Name, c.files, &c.gain, &c.sure, c.claims
	return &f
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
	for i := range s.out {
		for _, c := range codes {
			if s.out[i].Code == c {
				return true
			}
		}
	}
	return false
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func share(a, b int64) float64 { return ratio(float64(a), float64(b)) }

var writeRead = [2]string{"write", "read"}
