package filecache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Place says where the blocks are that a process asks for.
type Place string

// The places.
const (
	Anywhere Place = ""      // a permutation of all blocks, dealt to the processes
	Own      Place = "local" // in the fragment of the node of the process
	Hot      Place = "hot"   // in the fragment of the first node
)

// Blocks is the benchmark ROMPIO: each request is for another block of the file, so
// that the file has as many blocks as there are requests.
type Blocks struct {
	Requests int64 // of all processes together
	Bytes    int64 // of a block
	Write    bool
	Place    Place
	Seed     uint64
}

// Run returns how long it takes.
func (b Blocks) Run(ctx context.Context, s Setup) (*Result, error) {
	c, err := s.begin()
	if err != nil {
		return nil, err
	}
	ranks := int64(s.Nodes * s.PerNode)
	if b.Bytes < 1 || b.Requests < ranks {
		return nil, fmt.Errorf("%d requests of %d bytes: want one byte, and a request of each of %d ranks", b.Requests, b.Bytes, ranks)
	}
	f := s.file(c, b.Requests*b.Bytes, flags{create: b.Write, readOnly: !b.Write})
	random := rand.New(rand.NewPCG(b.Seed, 1))
	blocks := random.Perm(int(b.Requests))
	return s.watch(ctx, c, f, func(p *process, r *Result) {
		for i := int64(p.rank); i < b.Requests; i += ranks {
			offset := b.place(int64(blocks[i]), int64(s.Nodes), int64(p.node)) * b.Bytes
			if b.Write {
				r.write(p, f, offset, b.Bytes)
			} else {
				r.read(p, f, offset, b.Bytes)
			}
		}
	})
}

// place moves a block to where the process of a node wants it.
func (b *Blocks) place(block, nodes, node int64) int64 {
	each := max(1, b.Requests/nodes)
	switch b.Place {
	case Own:
		return node*each + block%each
	case Hot:
		return block % each
	}
	return block
}

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
		return nil, fmt.Errorf("walk of %d iterations over %d bytes in blocks of %d: must be positive", w.Iterations, w.Size, w.Bytes)
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

// Images filters an image of three bytes per pixel: each process has a part of it, and
// computes pixels from the eight around them. It reads through a buffer, which it
// fills from the position that it needs on a miss.
type Images struct {
	Width, Height int64
	Passes        int   // the output of one is the input of the next
	Buffer        int64 // bytes
	Sync          bool  // after each pass
	Overlap       bool  // files are closed behind the next pass
}

// pixel is the bytes of one.
const pixel = 3

// Run returns how long it takes.
func (w Images) Run(ctx context.Context, s Setup) (*Result, error) {
	c, err := s.begin()
	if err != nil {
		return nil, err
	}
	columns := columnsOf(int64(s.Nodes * s.PerNode))
	rows := int64(s.Nodes*s.PerNode) / columns
	if w.Passes < 1 || w.Buffer < pixel || w.Width < columns || w.Height < rows {
		return nil, fmt.Errorf("image of %d by %d pixels, buffer of %d bytes: want %d by %d pixels at least", w.Width, w.Height, w.Buffer, columns, rows)
	}
	size := w.Width * w.Height * pixel
	input := s.file(c, size, flags{readOnly: true})
	var outputs []file
	for range w.Passes {
		outputs = append(outputs, s.file(c, size, flags{create: true}))
	}
	return s.watch(ctx, c, input, func(p *process, r *Result) {
		part := tile{from: input, size: size, buffer: w.Buffer}
		column, row := int64(p.rank)%columns, int64(p.rank)/columns
		part.left, part.right = w.Width*column/columns, w.Width*(column+1)/columns
		part.top, part.bottom = w.Height*row/rows, w.Height*(row+1)/rows
		for i, output := range outputs {
			output.open(p)
			part.filter(p, r, w.Width, output)
			p.barrier()
			if w.Sync {
				r.sync(p, output)
			}
			if i > 0 {
				w.leave(p, outputs[i-1])
			}
			part.from, part.at, part.end = output, 0, 0
		}
		w.leave(p, outputs[len(outputs)-1])
		for _, output := range outputs {
			output.closed(p)
		}
	})
}

// leave closes a file, or begins to.
func (w *Images) leave(p *process, f file) {
	if w.Overlap {
		f.closeBehind(p)
		return
	}
	f.close(p)
}

// columnsOf returns the columns of a grid of processes that is as square as can be.
func columnsOf(ranks int64) int64 {
	columns := int64(1)
	for c := int64(1); c*c <= ranks; c++ {
		if ranks%c == 0 {
			columns = c
		}
	}
	return columns
}

// tile is the part of an image that a process has.
type tile struct {
	left, right, top, bottom int64
	from                     file
	size                     int64 // of the file
	buffer                   int64
	at, end                  int64 // what is in the buffer
}

// filter computes the pixels of the part row by row.
func (t *tile) filter(p *process, r *Result, width int64, to file) {
	height := t.size / (width * pixel)
	left, right := max(0, t.left-1), min(width, t.right+1)
	for y := t.top; y < t.bottom; y++ {
		for row := max(0, y-1); row < min(height, y+2); row++ {
			t.need(p, r, (row*width+left)*pixel, (row*width+right)*pixel)
		}
		p.compute(float64(t.right-t.left) * p.cluster.machine.Pixel)
		r.write(p, to, (y*width+t.left)*pixel, (t.right-t.left)*pixel)
	}
}

// need reads bytes through the buffer.
func (t *tile) need(p *process, r *Result, from, to int64) {
	for from < to {
		if from < t.at || from >= t.end {
			t.at, t.end = from, min(t.size, from+t.buffer)
			r.read(p, t.from, t.at, t.end-t.at)
		}
		from = min(to, t.end)
	}
}
