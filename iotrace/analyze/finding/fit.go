package finding

import "math"

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
