package dmtcp

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"ckpt/image/container"
	"ckpt/zones"
	"ckpt/zones/source"
)

// image stores an image, unless it is packed: those wait for files.img.
func (im *importer) image(ctx context.Context, i int, img *Image) error {
	if img.packed {
		return nil
	}
	path, kind, ranks := im.tx.ProcessPath(i-im.set.NP), container.KindProcess, []int(nil)
	rank := -1
	if img.Role == zones.RoleRank {
		path, kind, ranks, rank = im.tx.RankPath(img.Rank), container.KindRank, []int{img.Rank}, img.Rank
	}
	o, err := im.build(path, kind, rank, img.Node, ranks)
	if err != nil {
		return err
	}
	im.images = append(im.images, o)
	w := &imageWriter{im: im, img: img, o: o, area: -1}
	sum, n, err := run(ctx, func(p *pipeline) error {
		p.joins = !im.opt.Codec.None()
		return p.image(img.Path)
	}, w.store)
	if err == nil {
		err = o.Rest()
	}
	if err == nil && (w.area != len(img.Areas)-1 || n != img.FileBytes) {
		err = w.changed()
	}
	if err == nil {
		err = unchanged(img.Path, img.info)
	}
	if err == nil {
		err = o.Flush()
	}
	if err != nil {
		return err
	}
	e, err := im.entry(img.Path, img.info, imageEntry)
	e.Blake3, e.Container = sum, o.file.Path
	im.cat.Entries = append(im.cat.Entries, e)
	return err
}

// imageWriter stores the records of an image.
type imageWriter struct {
	im   *importer
	img  *Image
	o    *opened
	area int                // index of the area
	pack *container.Builder // where its extents are collected; nil if here
}

// layoutHead precedes each header in "layout": the length of the header, and which bytes of
// which region follow it in the image.
const layoutHead = 4 + 4 + 8 + 8

func (w *imageWriter) store(x *piece) error {
	switch {
	case x.zeros > 0:
		return w.o.Zeros(x.zeros)
	case x.rec == nil:
		if w.im.opt.Progress != nil {
			w.im.opt.Progress(int64(len(x.buf)))
		}
		var err error
		if w.pack != nil {
			_, err = w.o.Share(x.buf, x.id, w.pack)
		} else {
			_, err = w.o.Extent(x.buf, x.id)
		}
		return err
	}
	rec := x.rec
	if rec.Kind == source.AreaHeader {
		if err := w.begin(rec); err != nil {
			return err
		}
	}
	var from uint64
	if rec.Data > 0 {
		from = rec.Area.Start - w.img.Areas[w.area].Start
	}
	le := binary.LittleEndian
	head := le.AppendUint32(nil, uint32(len(rec.Raw)))
	head = le.AppendUint32(head, uint32(max(w.area, 0)))
	head = le.AppendUint64(head, from)
	head = le.AppendUint64(head, uint64(rec.Data))
	for _, b := range [][]byte{head, rec.Raw} {
		if err := w.o.Aside(layoutRegion, zones.Library, b); err != nil {
			return err
		}
	}
	return nil
}

// begin begins the region of an area.
func (w *imageWriter) begin(rec *source.ImageRecord) error {
	// No header need tell of a last run of zeros.
	if err := w.o.Rest(); err != nil {
		return err
	}
	w.area++
	if w.area >= len(w.img.Areas) || w.img.Areas[w.area].Start != rec.Area.Start || w.img.Areas[w.area].End != rec.Area.End {
		return w.changed()
	}
	a := &w.img.Areas[w.area]
	var err error
	if w.pack, err = w.im.pack(a.Class, w.img.Node); err != nil {
		return err
	}
	size := a.Bytes()
	if rec.Data > 0 {
		size = rec.Data // a file may end within the area
	}
	return w.o.Region(regionName(a), regionZone(a.Class), size)
}

func (w *imageWriter) changed() error {
	return &zones.FormatError{File: w.img.Path, Reason: "the image has changed while it was read"}
}

// A piece of a file on its way into the store: a header of an image, zeros, or up to chunkBytes
// of data.
type piece struct {
	rec   *source.ImageRecord // a header
	zeros int64               // so many
	buf   []byte              // data, padded with zeros to whole pages
	id    container.ID        // of buf
	ready chan struct{}       // closed when id is known
}

// piecesAhead is how many are read but not stored yet.
const piecesAhead = 32

// A pipeline reads a file, identifies its pieces on all processors, and hands them to store in
// order.
type pipeline struct {
	ctx   context.Context
	out   chan *piece
	work  chan *piece
	free  chan []byte
	sum   *blake3.Hasher // of the file
	bytes int64

	joins bool   // data is joined across few zeros:
	open  []byte // the extent that may grow; nil: none
	gap   int64  // zeros behind it
}

// joinBytes is the greatest number of zeros that an extent takes in. A page by itself cannot be
// packed, and the memory of programs with many small objects is full of such pages.
const joinBytes = 64 << 10

// run reads with produce and stores with store. It returns the blake3 and the length of the
// file.
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
			if x.isData() {
				select {
				case <-x.ready:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := store(x); err != nil {
				return err
			}
			if x.isData() {
				p.free <- x.buf[:0]
			}
		}
		return nil
	})
	err = g.Wait()
	return hex.EncodeToString(p.sum.Sum(nil)), p.bytes, err
}

func (x *piece) isData() bool { return x.rec == nil && x.zeros == 0 }

func (p *pipeline) send(x *piece) error {
	if x.isData() {
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

// data reads n bytes that belong at address at, and sends them in pieces that end at multiples
// of chunkBytes.
func (p *pipeline) data(r io.Reader, at uint64, n int64) error {
	for n > 0 {
		k := min(n, chunkBytes-int64(at%chunkBytes))
		if err := p.grow(); err != nil {
			return err
		}
		was := len(p.open)
		p.open = p.open[:was+int(zones.PageRound(k))]
		part := p.open[was:]
		if _, err := io.ReadFull(r, part[:k]); err != nil {
			return err
		}
		clear(part[k:])
		p.hash(part[:k])
		at += uint64(k)
		n -= k
		if !p.joins || at%chunkBytes == 0 {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// grow makes the open extent ready for more data, or begins one.
func (p *pipeline) grow() error {
	if p.open != nil {
		was := len(p.open)
		p.open = p.open[:was+int(p.gap)]
		clear(p.open[was:])
		p.gap = 0
		return nil
	}
	select {
	case p.open = <-p.free:
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
	if p.open == nil {
		p.open = make([]byte, 0, chunkBytes)
	}
	return nil
}

// zeros takes n zeros that belong at address at.
func (p *pipeline) zeros(at uint64, n int64) error {
	if p.open != nil && n <= joinBytes && int64(at%chunkBytes)+n < chunkBytes {
		p.gap = n
		return nil
	}
	if err := p.flush(); err != nil {
		return err
	}
	return p.send(&piece{zeros: n})
}

// flush sends the open extent and the zeros behind it.
func (p *pipeline) flush() (err error) {
	if p.open != nil {
		err = p.send(&piece{buf: p.open})
	}
	if err == nil && p.gap > 0 {
		err = p.send(&piece{zeros: p.gap})
	}
	p.open, p.gap = nil, 0
	return err
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
	s, err := source.NewImageScanner(path, f, fi.Size())
	if err != nil {
		return err
	}
	for {
		rec, err := s.Next()
		if err == io.EOF {
			return p.flush()
		}
		if err == nil && rec.Kind == source.AreaHeader {
			err = p.flush()
		}
		if err != nil {
			return err
		}
		p.hash(rec.Raw)
		rec.Raw = append([]byte(nil), rec.Raw...)
		if err := p.send(&piece{rec: &rec}); err != nil {
			return err
		}
		switch {
		case rec.Data > 0:
			err = p.data(s, rec.Area.Start, rec.Data)
		case rec.Kind == source.RunHeader && rec.Zero:
			err = p.zeros(rec.Area.Start, int64(rec.Area.End-rec.Area.Start))
		}
		if err != nil {
			return err
		}
	}
}

// whole reads a file for its bytes only, which is as long as it was found.
func (p *pipeline) whole(path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := errors.Join(p.data(f, 0, size), p.flush()); err != nil {
		return fmt.Errorf("%s has changed: %w", path, err)
	}
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("%s has changed: it is longer than %d bytes", path, size)
	}
	return nil
}
