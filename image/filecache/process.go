package filecache

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// A Process is a file as one process uses it, on the node that it runs on. Its
// requests are served one after the other; several goroutines may make them.
type Process struct {
	file *File
	rank int
	node int

	mu     sync.Mutex
	seq    uint64
	record *record // nil without level 1
	// err is why a request is unfinished. Its record stays, and with it the process may
	// not write any more: Recover has to finish the request.
	err error
}

// ReadAt implements io.ReaderAt. Writes are visible to all processes as soon as they
// return.
func (p *Process) ReadAt(b []byte, off int64) (int, error) {
	f := p.file
	f.gate.RLock()
	defer f.gate.RUnlock()
	if f.closed {
		return 0, fmt.Errorf("read %s: %w", f.name, f.reason())
	}
	if off < 0 {
		return 0, fmt.Errorf("read %s: negative offset %d", f.name, off)
	}
	if f.home != nil && off+int64(len(b)) > f.end.Load() { // others may have written there
		if _, err := f.size(context.Background()); err != nil {
			return 0, err
		}
	}
	n := max(min(int64(len(b)), f.Size()-off), 0)
	if n > 0 {
		if _, err := p.split(Request{Kind: Read, Off: off, Data: b[:n]}); err != nil {
			return 0, err
		}
	}
	if n < int64(len(b)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// WriteAt implements io.WriterAt. It returns when the bytes are as safe as the levels
// ask.
func (p *Process) WriteAt(b []byte, off int64) (int, error) {
	if _, err := p.write(Request{Kind: Write, Off: off, Data: b, Mask: -1}); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteIf writes b if the cell at off is free: if all bits of a mask of Options.Masks
// are zero in it. Looking and writing are one step for all processes.
func (p *Process) WriteIf(b []byte, off int64, mask int) (bool, error) {
	f := p.file
	switch {
	case mask < 0 || mask >= len(f.opt.Masks):
		return false, fmt.Errorf("write %s: mask %d of %d", f.name, mask, len(f.opt.Masks))
	case off >= 0 && off < f.opt.Size && len(f.layout.Split(off, int64(len(b)))) > 1:
		return false, fmt.Errorf("write %s at offset %d: %w", f.name, off, ErrSpans)
	}
	return p.write(Request{Kind: WriteIf, Off: off, Data: b, Mask: mask})
}

func (p *Process) write(r Request) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.file
	if err := f.force(); err != nil {
		return false, fmt.Errorf("write %s: %w: %w", f.name, ErrJournalFull, err)
	}
	reply, err := p.writeGated(r)
	if err != nil {
		return false, fmt.Errorf("write %s at offset %d: %w", f.name, r.Off, err)
	}
	if reply.Full {
		f.full.Store(true)
		// The write is safe, whatever comes of this; the next one hears of it.
		_ = f.force()
	}
	return reply.Written, nil
}

func (p *Process) writeGated(r Request) (Reply, error) {
	f := p.file
	f.gate.RLock()
	defer f.gate.RUnlock()
	switch {
	case f.closed:
		return Reply{}, f.reason()
	case p.err != nil:
		return Reply{}, p.err
	case r.Off < 0 || r.Off+int64(len(r.Data)) > f.opt.Size:
		return Reply{}, ErrBeyond
	case len(r.Data) == 0:
		return Reply{Written: true}, nil
	}
	p.seq++
	r.Seq = p.seq
	if p.record == nil {
		return p.split(r)
	}
	return p.recorded(r)
}

// recorded makes a request durable before it is sent, until it has been served.
func (p *Process) recorded(r Request) (Reply, error) {
	h := frame{use: p.file.session.Use, seq: r.Seq, off: r.Off, process: p.rank, parts: 1, mask: r.Mask}
	if p.err = p.record.put(h, r.Data); p.err != nil {
		return Reply{}, p.err
	}
	reply, err := p.split(r)
	if err == nil {
		err = p.record.remove()
	}
	p.err = err
	return reply, err
}

// split sends the parts of a request to their owners.
func (p *Process) split(r Request) (Reply, error) {
	f := p.file
	r.Process, r.Source = p.rank, p.node
	parts := f.layout.Split(r.Off, int64(len(r.Data)))
	r.Parts = len(parts)
	replies := make([]Reply, len(parts))
	send := func(i int) (err error) {
		part := r
		part.Part, part.Off = i, parts[i].Off
		part.Data = r.Data[parts[i].Off-r.Off:][:parts[i].N]
		replies[i], err = f.call(context.Background(), parts[i].Node, part)
		return err
	}
	var err error
	if len(parts) == 1 {
		err = send(0)
	} else {
		err = each(len(parts), send)
	}
	all := Reply{Written: true}
	for _, reply := range replies {
		all.Written = all.Written && reply.Written
		all.Full = all.Full || reply.Full
	}
	if r.Kind != Read {
		f.dirty.Store(true)
	}
	if err == nil && r.Kind != Read && all.Written {
		f.reach(r.Off + int64(len(r.Data)))
	}
	return all, err
}

// Size returns the length of the file.
func (p *Process) Size() int64 { return p.file.Size() }

// Sync stores the file. It returns when all processes have called it and the store has
// the file, or a new version of it.
func (p *Process) Sync(ctx context.Context) error {
	return p.file.meeting.meet(ctx, len(p.file.processes), func() error { return p.file.Sync(ctx) })
}

// Close stores and closes the file, when all processes have called it.
func (p *Process) Close(ctx context.Context) error {
	return p.file.meeting.meet(ctx, len(p.file.processes), func() error { return p.file.Close(ctx) })
}

// A meeting is where processes wait for each other. The last one acts for all.
type meeting struct {
	mu    sync.Mutex
	there int
	done  chan struct{}
	err   *error
}

func (m *meeting) meet(ctx context.Context, all int, do func() error) error {
	m.mu.Lock()
	if m.there == 0 {
		m.done, m.err = make(chan struct{}), new(error)
	}
	m.there++
	done, err := m.done, m.err
	if m.there == all {
		m.there = 0
		m.mu.Unlock()
		*err = do()
		close(done)
		return *err
	}
	m.mu.Unlock()
	select {
	case <-done:
		return *err
	case <-ctx.Done():
		return m.leave(ctx, done, err)
	}
}

// leave returns what the others did if they had all come.
func (m *meeting) leave(ctx context.Context, done chan struct{}, err *error) error {
	m.mu.Lock()
	if m.done == done && m.there > 0 {
		m.there--
		m.mu.Unlock()
		return ctx.Err()
	}
	m.mu.Unlock()
	<-done
	return *err
}
