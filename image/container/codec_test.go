package container

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"ckpt/image/codec"
	"ckpt/zones"
)

// field returns a MiB of float64 whose exponents repeat and whose mantissas are noise:
// shuffled, s2 shrinks it by a seventh.
func field() []byte {
	b, rng := make([]byte, 1<<20), rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], math.Float64bits(300+rng.Float64()))
	}
	return b
}

// TestCodecLearns: a checkpoint that waited for its encoders, because the ranks
// outnumber the processors, has the next ones stored raw. When it is the storage that
// the checkpoints wait for, they are packed again.
func TestCodecLearns(t *testing.T) {
	quick := effort{written: 64 << 20, storing: 40 * time.Millisecond, packed: 96 << 20, packing: 600 * time.Millisecond,
		processor: 300 * time.Millisecond, encoding: 200 * time.Millisecond, rounds: 2, writes: 1}
	slow := quick
	slow.storing = 32 * time.Second
	c, mem := NewCodec(codec.UseAuto, 0), field()
	for _, step := range []struct {
		effort
		times  int
		packed bool
	}{{effort{}, 1, true}, {quick, 1, false}, {slow, 8, true}, {quick, 8, false}} {
		for range step.times {
			c.learn(step.effort)
		}
		if x := c.encoder(0).Encode(mem, zones.Float64); step.packed != (x.ID != codec.Raw) {
			t.Errorf("stored as %v under %+v", x.ID, c.opt.Conditions)
		}
	}
}

// TestCodecLearnsFromSmallWrites: ranks with little memory learn from several
// checkpoints together.
func TestCodecLearnsFromSmallWrites(t *testing.T) {
	small := effort{written: learnBytes / 4, storing: 10 * time.Millisecond, packed: learnBytes / 4, packing: time.Millisecond, processor: 2 * time.Millisecond, rounds: 1, writes: 1}
	c := NewCodec(codec.UseAuto, 0)
	for i := range 4 {
		if known := c.opt.Bandwidth > 0; known {
			t.Fatalf("a bandwidth is known after %d writes of %d bytes", i, small.written)
		}
		c.learn(small)
	}
	if got, want := c.opt.Bandwidth, learnBytes/0.04; math.Abs(got-want) > 1 {
		t.Errorf("bandwidth %v, want %v", got, want)
	}
	if c.opt.Processors != 2 || c.opt.Rounds != 1 {
		t.Errorf("%v processors in %v rounds, want 2 in 1", c.opt.Processors, c.opt.Rounds)
	}
}

// TestLastRoundTellsBandwidth: the writes of earlier rounds also wait for processors.
func TestLastRoundTellsBandwidth(t *testing.T) {
	e := effort{written: 32 << 20, storing: time.Second, last: 16 << 20, lastly: 250 * time.Millisecond, packed: 1, packing: 1, processor: 1, rounds: 2, writes: 1}
	if got := e.conditions().Bandwidth; got != 64<<20 {
		t.Errorf("bandwidth %v, want %v", got, 64<<20)
	}
	e.last, e.lastly = 100, time.Nanosecond // too little to tell
	if got := e.conditions().Bandwidth; got != 32<<20 {
		t.Errorf("bandwidth %v, want %v", got, 32<<20)
	}
}
