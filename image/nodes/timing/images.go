package timing

import (
	"context"
	"fmt"
)

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
		return nil, fmt.Errorf("timing: image of %d by %d pixels, buffer of %d bytes: want %d by %d pixels at least", w.Width, w.Height, w.Buffer, columns, rows)
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
