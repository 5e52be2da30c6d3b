package container

import (
	"time"

	"ckpt/image/codec"
)

// A Codec compresses the extents of what one process writes. It is kept from one
// checkpoint to the next, for it learns what compresses how well, and is used by
// one Write at a time.
type Codec struct {
	setting  codec.Setting
	opt      codec.Options
	learns   bool // the bandwidth is not known
	encoders []*codec.Encoder
}

// NewCodec returns a Codec. Bandwidth is what the storage takes from this process
// in bytes per second, for codec.UseAuto; with 0 it is measured at each Write for
// the next one.
func NewCodec(setting codec.Setting, bandwidth float64) *Codec {
	return &Codec{setting: setting, opt: codec.Options{Bandwidth: bandwidth, Workers: defaultDepth},
		learns: bandwidth <= 0 && setting == codec.UseAuto}
}

// none reports whether nothing is compressed.
func (c *Codec) none() bool { return c == nil || c.setting == codec.UseNone }

// Too little is written in less to tell the bandwidth.
const learnBytes = 16 << 20

// learn takes the bytes that went to storage, and how long some worker, or the
// final sync, waited for it.
func (c *Codec) learn(n int64, waited time.Duration) {
	if c == nil || !c.learns || n < learnBytes || waited <= 0 {
		return
	}
	b := float64(n) / waited.Seconds()
	if known := c.opt.Bandwidth; known > 0 && b > known/2 && b < known*2 {
		return // what the encoders have learned is worth more
	}
	c.opt.Bandwidth, c.encoders = b, nil
}

// encoder returns that of a worker. It is called before the workers run.
func (c *Codec) encoder(worker int) *codec.Encoder {
	if c.none() {
		return nil
	}
	for len(c.encoders) <= worker {
		c.encoders = append(c.encoders, codec.NewEncoder(c.setting, c.opt))
	}
	return c.encoders[worker]
}
