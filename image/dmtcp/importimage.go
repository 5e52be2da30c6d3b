package dmtcp

import (
	"context"
	"encoding/binary"

	"ckpt/image/container"
	"ckpt/zones"
	"ckpt/zones/dmtcp"
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
	sum, n, err := run(ctx, func(p *pipeline) error { return p.image(img.Path) }, w.store)
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

// layoutHead precedes each header in the region "layout": the length of the
// header, and which bytes of which region follow it in the image.
const layoutHead = 4 + 4 + 8 + 8

func (w *imageWriter) store(x *piece) error {
	if x.rec == nil {
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
	if rec.Kind == dmtcp.AreaHeader {
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
	if rec.Kind == dmtcp.RunHeader && rec.Zero {
		return w.o.Zeros(int64(rec.Area.End - rec.Area.Start))
	}
	return nil
}

// begin begins the region of an area.
func (w *imageWriter) begin(rec *dmtcp.Record) error {
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
