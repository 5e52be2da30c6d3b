package exec

import (
	"context"
	"io"

	"ckpt/image/plan"
)

// write writes the round in s.
func (w *writer) write(ctx context.Context, s *slot) error {
	begin := w.opt.Clock()
	for i := range s.runs {
		if err := w.writeRun(ctx, s, &s.runs[i], func() {}); err != nil {
			return err
		}
	}
	w.stats.WriteTime += w.opt.Clock().Sub(begin)
	return nil
}

// writeRun writes a run with one call, and calls begun when that begins.
func (w *writer) writeRun(ctx context.Context, s *slot, r *run, begun func()) error {
	failed := func(err error) error {
		return w.fail(Error{Op: Write, File: r.file, Offset: r.offset, Bytes: int64(len(r.data)), Err: err})
	}
	if err := ctx.Err(); err != nil {
		return failed(err)
	}
	f, err := w.file(r.file)
	if err != nil {
		return err
	}
	start := w.opt.Clock()
	begun()
	n, err := f.WriteAt(r.data, r.offset)
	if err == nil && n != len(r.data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return failed(err)
	}
	w.wrote(1, int64(n))
	e := Event{
		Op: Write, Round: s.round, Buffer: s.index, Key: r.key, File: r.file, Offset: r.offset, Bytes: int64(n),
		Start: start, End: w.opt.Clock(),
	}
	if r.own {
		e.Buffer = plan.InPlace
	}
	w.observe(e)
	return nil
}

// wrote counts calls and their bytes.
func (w *writer) wrote(calls, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Writes += calls
	w.stats.Bytes += bytes
}

// file returns an open file.
func (w *writer) file(i int) (io.WriterAt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.files[i]; ok {
		return f, nil
	}
	f, err := w.opt.Files(i)
	if err != nil {
		return nil, w.fail(Error{Op: Open, File: i, Err: err})
	}
	w.files[i] = f
	return f, nil
}
