package timing

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Walk is the random walk: in each iteration every process reads a block somewhere,
// computes, writes it back, and waits for the others.
type Walk struct {
	Iterations int
	Size       int64 // of the file
	Bytes      int64 // of a block
	Steps      int64 // of the computation
	SyncEvery  int   // iterations; zero: never
	Remove     bool  // the file is made, and removed when it is closed
	Seed       uint64
}

// Run returns how long it takes.
func (w Walk) Run(ctx context.Context, s Setup) (*Result, error) {
	c, err := s.begin()
	if err != nil {
		return nil, err
	}
	if w.Iterations < 1 || w.Bytes < 1 || w.Size < w.Bytes || w.Steps < 0 || w.SyncEvery < 0 {
		return nil, fmt.Errorf("timing: walk of %d iterations over %d bytes in blocks of %d: must be positive", w.Iterations, w.Size, w.Bytes)
	}
	f := s.file(c, w.Size, flags{create: w.Remove, remove: w.Remove})
	return s.watch(ctx, c, f, func(p *process, r *Result) {
		random := rand.New(rand.NewPCG(w.Seed, uint64(p.rank)))
		for i := range w.Iterations {
			offset := random.Int64N(w.Size/w.Bytes) * w.Bytes
			r.read(p, f, offset, w.Bytes)
			p.compute(float64(w.Steps) * s.Machine.Step)
			r.write(p, f, offset, w.Bytes)
			p.barrier()
			if w.SyncEvery > 0 && (i+1)%w.SyncEvery == 0 && i+1 < w.Iterations {
				r.sync(p, f)
			}
		}
	})
}
