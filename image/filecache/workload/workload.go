package workload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Result is what a workload took.
type Result struct {
	Requests, Bytes  int64         // of all processes
	Open, Run, Close time.Duration // Run without the others
	Syncs            int
	Sync             time.Duration // a part of Run
}

// Rate returns the bytes per second of the run, without opening and closing.
func (r Result) Rate() float64 { return float64(r.Bytes) / r.Run.Seconds() }

// Name is that of the file that workloads use.
const Name = "workload"

// Walk is the random walk: in each iteration every process reads a block somewhere,
// computes, writes it back, and waits for the others.
type Walk struct {
	Iterations int
	Size       int64 // of the file, which is made
	Bytes      int64 // of a block
	Steps      int64 // of the computation, as Collatz
	SyncEvery  int   // iterations; 0: never
	Seed       uint64
}

// Run runs the walk.
func (w Walk) Run(ctx context.Context, t Target) (Result, error) {
	blocks := int64(0)
	if w.Bytes > 0 {
		blocks = w.Size / w.Bytes / int64(max(t.processes, 1)) // of each process
	}
	if w.Iterations < 1 || w.Bytes < 8 || blocks < 1 || w.Steps < 0 || w.SyncEvery < 0 {
		return Result{}, fmt.Errorf("walk of %d iterations over %d bytes in blocks of %d: want a block of 8 bytes or more for each of %d processes", w.Iterations, w.Size, w.Bytes, t.processes)
	}
	return t.measure(ctx, w.Size, true, func(o *opened, r *Result) error {
		random := make([]*rand.Rand, t.processes)
		for i := range random {
			random[i] = rand.New(rand.NewPCG(w.Seed, uint64(i)))
		}
		for i := range w.Iterations {
			err := o.each(func(rank int, f file) error {
				block := random[rank].Int64N(blocks)*int64(t.processes) + int64(rank)
				return w.step(f, block*w.Bytes)
			})
			if err == nil && w.SyncEvery > 0 && (i+1)%w.SyncEvery == 0 && i+1 < w.Iterations {
				err = r.timed(&r.Sync, func() error { return o.sync(ctx) })
				r.Syncs++
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
		}
		r.Requests = 2 * int64(w.Iterations) * int64(t.processes)
		r.Bytes = r.Requests * w.Bytes
		return nil
	})
}

// step reads a block, computes with it and writes it back.
func (w Walk) step(f file, off int64) error {
	b := make([]byte, w.Bytes)
	if n, err := f.ReadAt(b, off); n < len(b) {
		return err
	}
	x := binary.LittleEndian.Uint64(b) + 27
	for range w.Steps {
		if x%2 == 0 {
			x /= 2
		} else {
			x = 3*x + 1
		}
	}
	binary.LittleEndian.PutUint64(b, x)
	b[len(b)-1]++
	_, err := f.WriteAt(b, off)
	return err
}

// Place says where the blocks are that a process asks for.
type Place string

// The places.
const (
	Anywhere Place = ""      // a permutation of all blocks, dealt to the processes
	Own      Place = "local" // a row of blocks of the process
	Hot      Place = "hot"   // blocks at the beginning of the file
)

// Blocks is the benchmark ROMPIO: each request is for another block of the file, so
// that the file has as many blocks as there are requests. With Hot it has as many, too,
// and each process asks for the first ones again and again.
type Blocks struct {
	Requests int64 // of all processes together
	Bytes    int64 // of a block
	Write    bool  // else the blocks are written beforehand, and read
	Place    Place
	Seed     uint64
}

// Run writes the blocks, or reads them.
func (b Blocks) Run(ctx context.Context, t Target) (Result, error) {
	if b.Bytes < 1 || b.Requests < int64(t.processes) || b.Requests*b.Bytes/b.Bytes != b.Requests {
		return Result{}, fmt.Errorf("%d requests of %d bytes: want one byte, and a request of each of %d processes", b.Requests, b.Bytes, t.processes)
	}
	if !b.Write {
		filled := b
		filled.Write, filled.Place = true, Anywhere
		if _, err := filled.Run(ctx, t); err != nil {
			return Result{}, err
		}
	}
	blocks := rand.New(rand.NewPCG(b.Seed, 1)).Perm(int(b.Requests))
	return t.measure(ctx, b.Requests*b.Bytes, b.Write, func(o *opened, r *Result) error {
		r.Requests, r.Bytes = b.Requests, b.Requests*b.Bytes
		return o.each(func(rank int, f file) error {
			for i := int64(rank); i < b.Requests; i += int64(t.processes) {
				if err := b.request(f, b.place(int64(blocks[i]), i, int64(rank), int64(t.processes))); err != nil {
					return err
				}
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// place moves request i for a block to where its process wants it.
func (b Blocks) place(block, i, rank, processes int64) int64 {
	each := b.Requests / processes
	switch b.Place {
	case Own:
		return rank*each + i/processes%each
	case Hot:
		// Every process has bytes of its own there.
		return rank + processes*(block%max(each/processes, 1))
	}
	return block
}

func (b Blocks) request(f file, block int64) error {
	want := make([]byte, b.Bytes)
	random := rand.NewPCG(b.Seed, uint64(block))
	for at := 0; at < len(want); at += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], random.Uint64())
		copy(want[at:], word[:])
	}
	if b.Write {
		_, err := f.WriteAt(want, block*b.Bytes)
		return err
	}
	got := make([]byte, b.Bytes)
	if n, err := f.ReadAt(got, block*b.Bytes); n < len(got) {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("block %d is not what was written", block)
	}
	return nil
}

// each runs all processes.
func (o *opened) each(do func(rank int, f file) error) error {
	var all errgroup.Group
	var failed atomic.Bool
	for rank, f := range o.files {
		all.Go(func() error {
			if failed.Load() {
				return nil
			}
			err := do(rank, f)
			if err != nil {
				failed.Store(true)
				err = fmt.Errorf("process %d: %w", rank, err)
			}
			return err
		})
	}
	return all.Wait()
}

// measure opens a file, runs a workload and closes the file.
func (t Target) measure(ctx context.Context, size int64, create bool, run func(*opened, *Result) error) (r Result, err error) {
	var o *opened
	err = r.timed(&r.Open, func() (err error) {
		o, err = t.open(ctx, Name, size, create)
		return err
	})
	if err != nil {
		return r, err
	}
	if err := r.timed(&r.Run, func() error { return run(o, &r) }); err != nil {
		return r, errors.Join(err, o.abort())
	}
	return r, r.timed(&r.Close, func() error { return o.close(ctx) })
}

func (r *Result) timed(sum *time.Duration, do func() error) error {
	start := time.Now()
	err := do()
	*sum += time.Since(start)
	return err
}
