package codec

import (
	"runtime"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"

	"ckpt/zones"
)

// maxExtent is the longest extent in bytes. Longer input is stored raw.
const maxExtent = 64 << 20

// gzipBlock is what pgzip compresses at a time. It shapes the output.
const gzipBlock = 1 << 20

// zstdWindow is how far back zstd looks. More makes memory less than 1 % smaller, and takes
// memory in every encoder.
const zstdWindow = 1 << 20

// Options tune an Encoder. All are about UseAuto.
type Options struct {
	Conditions
	// Now times the encoder; nil means the processor time of the thread.
	Now func() time.Time
}

// Conditions are what UseAuto weighs a codec against. They should be measured.
type Conditions struct {
	// Bandwidth is what the storage takes from all encoders together, in bytes per second; 0 if
	// unknown.
	Bandwidth float64
	// Processors is how many of them encode at a time, on average: a fraction where other
	// processes have their turns. 0, unknown, counts as one.
	Processors float64
	// Rounds is in how many parts the data is encoded and written, each encoded while the one
	// before is written; 1: in turns.
	Rounds float64
	// Rest is the processor time, in seconds per byte, spent on an extent besides encoding.
	Rest float64
}

// sane returns the conditions with every value in its range.
func (c Conditions) sane() Conditions {
	if !(c.Bandwidth > 0) { // which NaN is not
		c.Bandwidth = 0
	}
	if !(c.Processors > 0) {
		c.Processors = 1
	}
	if !(c.Rounds >= 1) {
		c.Rounds = 1
	}
	if !(c.Rest > 0) {
		c.Rest = 0
	}
	return c
}

// An Encoder chooses how to store extents and compresses them. It serves one goroutine, reuses
// its buffers and needs no closing.
type Encoder struct {
	setting Setting
	auto    auto

	sampled  []byte // the sample
	filtered []byte // what the filter made of the input
	out      []byte // what the compressor made of that

	// Compressors, made at first use.
	zstd, zstdPlanes *zstd.Encoder
	gzip             *pgzip.Writer
}

// An Encoded extent is what is to be stored.
type Encoded struct {
	ID     ID
	Filter Filter
	// Data is nil for Zero, the input itself for Raw, and else valid until the next use of the
	// encoder.
	Data []byte
}

// plan is a way of storing an extent.
type plan struct {
	id     ID
	filter Filter
}

// NewEncoder returns an encoder for one goroutine.
func NewEncoder(setting Setting, opt Options) *Encoder {
	return &Encoder{setting: setting, auto: newAuto(opt)}
}

// Encode returns the extent raw, of elements of type elem, as it should be stored.
func (e *Encoder) Encode(raw []byte, elem zones.Elem) Encoded {
	switch {
	case IsZero(raw):
		return Encoded{ID: Zero}
	case len(raw) <= zones.PageSize || len(raw) > maxExtent || e.setting == UseNone || e.setting >= numSettings:
		return Encoded{ID: Raw, Data: raw}
	case e.setting == UseAuto:
		return e.encodeAuto(raw, elem)
	}
	id := settings[e.setting].id
	p := plan{id, e.filter(raw, elem, id)}
	return accept(p, raw, e.compress(p, raw))
}

// accept returns the compressed extent if storing it saves a page, the unit of files.
func accept(p plan, raw, data []byte) Encoded {
	if zones.PageRound(int64(len(data))) >= int64(len(raw)) {
		return Encoded{ID: Raw, Data: raw}
	}
	return Encoded{p.id, p.filter, data}
}

// compress carries out a plan other than Raw or Zero, whether it helps or not.
func (e *Encoder) compress(p plan, src []byte) []byte {
	if p.filter != NoFilter {
		e.filtered = grow(e.filtered, len(src))
		shuffle(e.filtered, src, p.filter)
		src = e.filtered
	}
	e.out = grow(e.out, s2.MaxEncodedLen(len(src)))
	var out []byte
	switch p.id {
	case S2:
		out = s2.Encode(e.out, src)
	case Zstd:
		out = e.compressZstd(e.out[:0], src, p.filter.width())
	case Gzip:
		out = e.compressGzip(e.out[:0], src)
	}
	e.out = out
	return out
}

// compressZstd makes a frame of each plane, so that its entropy tables fit the plane: blocks
// across planes would mix signs with mantissas. No match spans planes anyway.
func (e *Encoder) compressZstd(dst, src []byte, planes int) []byte {
	enc := &e.zstd
	if planes > 1 {
		enc = &e.zstdPlanes
	}
	if *enc == nil {
		// Planes without matches are still entropy coded: most of the gain with exponents and
		// pointers. Without planes it only costs.
		*enc = newZstd(planes > 1)
	}
	n := len(src) / planes
	for k := range planes {
		dst = (*enc).EncodeAll(src[k*n:(k+1)*n], dst)
	}
	return dst
}

func newZstd(allLiterals bool) *zstd.Encoder {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithAllLitEntropyCompression(allLiterals),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), // extents have their own checksums
		zstd.WithWindowSize(zstdWindow),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // only for options out of range
	}
	return enc
}

func (e *Encoder) compressGzip(dst, src []byte) []byte {
	w := writer{dst}
	if e.gzip == nil {
		var err error
		if e.gzip, err = pgzip.NewWriterLevel(&w, pgzip.BestSpeed); err != nil {
			panic(err) // only for levels out of range
		}
	} else {
		e.gzip.Reset(&w)
	}
	// One block at a time: the caller has an encoder for each core already.
	if err := e.gzip.SetConcurrency(gzipBlock, 1); err != nil {
		panic(err) // only for numbers out of range
	}
	e.gzip.ModTime = time.Unix(0, 0) // 0 in the header: no time
	// Errors would come from w, which returns nil.
	e.gzip.Write(src)
	e.gzip.Close()
	return w.b
}

// writer appends what it is given.
type writer struct{ b []byte }

func (w *writer) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// grow returns a buffer of n bytes, b itself if it is large enough.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// Sampling finds which filter suits an extent, and whether it is worth compressing. S2 judges
// filters, also for zstd and gzip: it nearly always ranks them as those would on the whole
// extent, in a tenth of the time. A sample of 1/64 for at most three filters costs 2-5 % of
// compressing the extent.
const (
	sampleShare = 64
	sampleMin   = 4 << 10
	sampleMax   = 64 << 10
	pieces      = 4
)

// sampleLen returns how much of n bytes is looked at: one part in share, within bounds.
func sampleLen(n, share int) int {
	return min(max(n/share, sampleMin), sampleMax, n)
}

// sample copies size bytes of raw, a piece from the middle of each quarter, cut at multiples of
// 64 bytes, so that elements stay whole and in place.
func (e *Encoder) sample(raw []byte, size int) []byte {
	piece := size / pieces &^ 63
	quarter := len(raw) / pieces
	e.sampled = e.sampled[:0]
	for i := range pieces {
		at := (i*quarter + (quarter-piece)/2) &^ 63
		e.sampled = append(e.sampled, raw[at:at+piece]...)
	}
	return e.sampled
}

// filtersFor lists the filters that may suit n bytes of a type. Process memory comes as bytes,
// which are mostly doubles, pointers and integers all the same.
func filtersFor(elem zones.Elem, n int) []Filter {
	switch {
	case n%8 != 0:
		return []Filter{NoFilter}
	case elem == zones.Float64 || elem == zones.Int64:
		return []Filter{NoFilter, Shuffle8}
	case elem == zones.Float32 || elem == zones.Int32:
		return []Filter{NoFilter, Shuffle4}
	}
	return []Filter{NoFilter, Shuffle8, Shuffle4}
}

// trial compresses a sample of raw, one part in share, with id after each filter. It returns
// the lengths and the sample's. With k it also measures speeds, on a larger sample.
func (e *Encoder) trial(raw []byte, id ID, filters []Filter, share int, k *kind) (lens []int, size int) {
	if k != nil {
		share = min(share, timedShare)
	}
	sample := e.sample(raw, sampleLen(len(raw), share))
	for _, f := range filters {
		p := plan{id, f}
		if k == nil {
			lens = append(lens, len(e.compress(p, sample)))
			continue
		}
		out, d := e.timed(p, sample)
		pace := &k.pace[id][f]
		if pace.speed == 0 { // the first run may have paid for buffers and tables
			var again time.Duration
			out, again = e.timed(p, sample)
			d = min(d, again)
		}
		pace.measured(d, len(sample))
		lens = append(lens, len(out))
	}
	return lens, len(sample)
}

// timed is compress with the time it takes; 0 if that would not matter.
func (e *Encoder) timed(p plan, src []byte) ([]byte, time.Duration) {
	if e.auto.Bandwidth == 0 {
		return e.compress(p, src), 0
	}
	runtime.LockOSThread() // whose clock it may be
	defer runtime.UnlockOSThread()
	start := e.auto.now()
	out := e.compress(p, src)
	return out, e.auto.now().Sub(start)
}

// smallest returns the filter with the least length. S2 is blind to planes without repeated
// strings in which some values are frequent, like exponents of random numbers; so for an
// entropy coder the first shuffle wins a tie with no filter.
func smallest(filters []Filter, lens []int, entropy bool) Filter {
	best := 0
	for i := 1; i < len(filters); i++ {
		if lens[i] < lens[best] || lens[i] == lens[best] && entropy && best == 0 {
			best = i
		}
	}
	return filters[best]
}

// filter chooses the filter for an extent that id will compress.
func (e *Encoder) filter(raw []byte, elem zones.Elem, id ID) Filter {
	filters := filtersFor(elem, len(raw))
	lens, _ := e.trial(raw, S2, filters, sampleShare, nil)
	return smallest(filters, lens, id != S2)
}
