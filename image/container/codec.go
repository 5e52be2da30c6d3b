package container

import (
	"math"
	"runtime"
	"time"

	"ckpt/image/codec"
)

// A Codec compresses the extents that one process writes. It learns from one checkpoint for the
// next, and serves one Write at a time.
type Codec struct {
	setting  codec.Setting
	opt      codec.Options
	learns   bool // the conditions are not known
	seen     effort
	encoders []*codec.Encoder
}

// NewCodec returns a Codec. Bandwidth is what the storage takes from this process in bytes per
// second, for codec.UseAuto; with 0 each Write measures all conditions for the next.
func NewCodec(setting codec.Setting, bandwidth float64) *Codec {
	return &Codec{setting: setting, opt: codec.Options{Conditions: codec.Conditions{Bandwidth: bandwidth, Processors: float64(runtime.GOMAXPROCS(0))}},
		learns: bandwidth <= 0 && setting == codec.UseAuto}
}

// None reports that nothing is compressed.
func (c *Codec) None() bool { return c == nil || c.setting == codec.UseNone }

// effort is what writing has cost.
type effort struct {
	written   int64 // bytes
	storing   time.Duration
	last      int64 // bytes of the last rounds, of written
	lastly    time.Duration
	packed    int64         // bytes of memory that were offered to the encoders
	packing   time.Duration // while some worker packed
	processor time.Duration // that the workers had meanwhile
	encoding  time.Duration // of processor, in the encoders
	rounds    int
	writes    int // of rounds
}

func (e *effort) add(x effort) {
	e.written, e.storing = e.written+x.written, e.storing+x.storing
	e.last, e.lastly = e.last+x.last, e.lastly+x.lastly
	e.packed, e.packing = e.packed+x.packed, e.packing+x.packing
	e.processor, e.encoding = e.processor+x.processor, e.encoding+x.encoding
	e.rounds, e.writes = e.rounds+x.rounds, e.writes+x.writes
}

// Too little is written in less to tell the bandwidth.
const learnBytes = 4 << 20

// learn takes what a write has cost. Small writes count together.
func (c *Codec) learn(x effort) {
	if c == nil || !c.learns {
		return
	}
	c.seen.add(x)
	seen := c.seen
	if seen.written < learnBytes || seen.storing <= 0 || seen.packing <= 0 || seen.processor <= 0 || seen.packed == 0 {
		return
	}
	c.seen = effort{}
	now := seen.conditions()
	if known := c.opt.Conditions; known.Bandwidth > 0 {
		// One checkpoint may have had a bad moment. These are factors: half of the way between
		// 1 and 4 is 2.
		now.Bandwidth = math.Sqrt(now.Bandwidth * known.Bandwidth)
		now.Processors = math.Sqrt(now.Processors * known.Processors)
		now.Rest = (now.Rest + known.Rest) / 2
	}
	c.opt.Conditions = now
	for _, e := range c.encoders {
		e.Learn(now)
	}
}

// conditions are what the effort tells of the storage and the processors.
func (e *effort) conditions() codec.Conditions {
	b := float64(e.written) / e.storing.Seconds()
	if e.lastly > 0 && e.last >= learnBytes/4 {
		// Nothing is packed during the last round. The time of the others contains waiting for
		// a processor.
		b = max(b, float64(e.last)/e.lastly.Seconds())
	}
	return codec.Conditions{Bandwidth: b,
		Processors: e.processor.Seconds() / e.packing.Seconds(),
		Rounds:     float64(e.rounds) / float64(max(1, e.writes)),
		Rest:       max(0, e.processor-e.encoding).Seconds() / float64(e.packed)}
}

// encoder returns the encoder of a worker, before the workers run.
func (c *Codec) encoder(worker int) *codec.Encoder {
	if c.None() {
		return nil
	}
	for len(c.encoders) <= worker {
		c.encoders = append(c.encoders, codec.NewEncoder(c.setting, c.opt))
	}
	return c.encoders[worker]
}
