package dmtcp

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"ckpt/image/container"
	"ckpt/zones"
	"ckpt/zones/dmtcp"
)

// A piece of a file on its way into the store: a header of an image, or up to
// chunkBytes of data.
type piece struct {
	rec   *dmtcp.Record // a header; nil for data
	buf   []byte        // data, padded with zeros to whole pages
	id    container.ID  // of buf
	ready chan struct{} // closed when id is known
}

// piecesAhead is how many are read but not stored yet.
const piecesAhead = 32

// A pipeline reads a file, identifies its pieces on all processors, and hands
// them to store in the order of the file.
type pipeline struct {
	ctx   context.Context
	out   chan *piece
	work  chan *piece
	free  chan []byte
	sum   *blake3.Hasher // of the file
	bytes int64
}

// run reads with produce and stores with store. It returns the blake3 of the
// file and its length.
func run(ctx context.Context, produce func(*pipeline) error, store func(*piece) error) (sum string, n int64, err error) {
	g, ctx := errgroup.WithContext(ctx)
	p := &pipeline{ctx: ctx, out: make(chan *piece, piecesAhead), work: make(chan *piece, piecesAhead),
		free: make(chan []byte, piecesAhead+2), sum: blake3.New()}
	for range cap(p.free) {
		p.free <- nil // made when needed
	}
	g.Go(func() error {
		defer close(p.out)
		defer close(p.work)
		return produce(p)
	})
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			for x := range p.work {
				x.id = container.IDOf(x.buf)
				close(x.ready)
			}
			return nil
		})
	}
	g.Go(func() error {
		for x := range p.out {
			if x.rec == nil {
				select {
				case <-x.ready:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := store(x); err != nil {
				return err
			}
			if x.rec == nil {
				p.free <- x.buf[:0]
			}
		}
		return nil
	})
	err = g.Wait()
	return hex.EncodeToString(p.sum.Sum(nil)), p.bytes, err
}

func (p *pipeline) send(x *piece) error {
	if x.rec == nil {
		x.ready = make(chan struct{})
		select {
		case p.work <- x:
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	select {
	case p.out <- x:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func (p *pipeline) hash(b []byte) {
	p.sum.Write(b)
	p.bytes += int64(len(b))
}

// data reads n bytes that belong at address at, and sends them in pieces that
// end at multiples of chunkBytes.
func (p *pipeline) data(r io.Reader, at uint64, n int64) error {
	for n > 0 {
		k := min(n, chunkBytes-int64(at%chunkBytes))
		var buf []byte
		select {
		case buf = <-p.free:
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
		if buf == nil {
			buf = make([]byte, chunkBytes)
		}
		buf = buf[:zones.PageRound(k)]
		if _, err := io.ReadFull(r, buf[:k]); err != nil {
			return err
		}
		clear(buf[k:])
		p.hash(buf[:k])
		if err := p.send(&piece{buf: buf}); err != nil {
			return err
		}
		at += uint64(k)
		n -= k
	}
	return nil
}

// image reads an image record by record.
func (p *pipeline) image(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	s, err := dmtcp.NewScanner(path, f, fi.Size())
	if err != nil {
		return err
	}
	for {
		rec, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		p.hash(rec.Raw)
		rec.Raw = append([]byte(nil), rec.Raw...)
		if err := p.send(&piece{rec: &rec}); err != nil {
			return err
		}
		if rec.Data > 0 {
			if err := p.data(s, rec.Area.Start, rec.Data); err != nil {
				return err
			}
		}
	}
}

// whole reads a file of which only the bytes matter, and that must be as long
// as it was found.
func (p *pipeline) whole(path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := p.data(f, 0, size); err != nil {
		return fmt.Errorf("%s has changed: %w", path, err)
	}
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("%s has changed: it is longer than %d bytes", path, size)
	}
	return nil
}
