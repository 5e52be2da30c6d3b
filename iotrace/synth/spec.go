package synth

import (
	"fmt"
	"slices"
	"time"
)

// A Pattern describes how offsets follow each other.
type Pattern string

// The patterns, with the names of package analyze.
const (
	Contiguous      Pattern = "contiguous"       // each request begins where the one before ended
	Sequential      Pattern = "sequential"       // forward, with holes of up to half a request
	StridedSimple   Pattern = "strided-simple"   // constant distance between starts
	StridedNested   Pattern = "strided-nested"   // groups of strided requests, a larger stride apart
	StridedVariable Pattern = "strided-variable" // forward, with varying holes of one to eight requests
	Random          Pattern = "random"           // anywhere
	Mixed           Pattern = "mixed"            // several kinds of patterns in turn
)

// Patterns returns all patterns.
func Patterns() []Pattern {
	return []Pattern{Contiguous, Sequential, StridedSimple, StridedNested, StridedVariable, Random, Mixed}
}

// A Spec describes a trace. Zero values have defaults.
type Spec struct {
	Pattern  Pattern       // default Contiguous
	Shared   bool          // one file for all ranks, not one per rank
	Read     bool          // read instead of write
	Variable bool          // requests of a quarter of Size to Size
	Ranks    int           // default 4
	Ops      int           // data operations of a rank in each burst, without noise; default 100
	Size     int64         // of a request, bytes; default 64 KiB
	Bursts   int           // default 1
	Every    time.Duration // between the starts of bursts; default and minimum is a second of silence
	Noise    float64       // probability of a stray operation before each one, up to 0.5
	Seed     uint64
}

// maxSpan keeps offsets far from overflow.
const maxSpan = 1 << 56

func (s Spec) prepared() (Spec, error) {
	if s.Pattern == "" {
		s.Pattern = Contiguous
	}
	if s.Ranks == 0 {
		s.Ranks = 4
	}
	if s.Ops == 0 {
		s.Ops = 100
	}
	if s.Size == 0 {
		s.Size = 64 << 10
	}
	if s.Bursts == 0 {
		s.Bursts = 1
	}
	switch {
	case !slices.Contains(Patterns(), s.Pattern):
		return s, fmt.Errorf("synth: pattern %q: unknown", s.Pattern)
	case s.Ranks < 1 || s.Ranks > 1<<20:
		return s, fmt.Errorf("synth: ranks %d: not from 1 to %d", s.Ranks, 1<<20)
	case s.Shared && s.Ranks < 2:
		return s, fmt.Errorf("synth: ranks %d: a shared file needs two", s.Ranks)
	case s.Ops < 1 || s.Bursts < 1 || s.Ops > 1<<30/s.Bursts/s.Ranks:
		return s, fmt.Errorf("synth: %d ranks, %d bursts of %d operations: not from 1 to %d in all", s.Ranks, s.Bursts, s.Ops, 1<<30)
	case s.Size < 1 || s.Size > maxSpan/64/int64(s.Ops)/int64(s.Bursts)/int64(s.Ranks):
		return s, fmt.Errorf("synth: size %d: the file would not be of 1 byte to 64 PiB", s.Size)
	case !(s.Noise >= 0 && s.Noise <= 0.5):
		return s, fmt.Errorf("synth: noise %g: not from 0 to 0.5", s.Noise)
	case s.Every < 0:
		return s, fmt.Errorf("synth: every %v: negative", s.Every)
	}
	return s, nil
}
