package container

import (
	"errors"
	"io"
	"time"

	"ckpt/image/plan/fileview"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// UsualDevice stands for a storage that was not measured: holes of up to some 200 KiB
// are read along.
var UsualDevice = fileview.Device{Bandwidth: 2 << 30, Latency: 100 * time.Microsecond, Block: BlockSize}

// sieve returns f as if the extents of a span lay one behind the other: a partial
// restore takes some zones of some ranks, an incremental checkpoint refers to some
// extents of an earlier one.
func (s span) sieve(f vfs.File, extents []extentRec, device fileview.Device) (*fileview.File, error) {
	var tuples []fileview.Tuple
	for i, e := range extents {
		t := fileview.Tuple{Size: zones.PageRound(e.storedLen)}
		if i+1 < len(extents) {
			t.Hole = extents[i+1].fileOff - e.fileOff - t.Size
		}
		tuples = append(tuples, t)
	}
	v, err := fileview.NewView(s.off, tuples, 1)
	if err != nil {
		return nil, err
	}
	return fileview.NewFile(f, v, fileview.Options{Device: device, Buffer: stageBytes})
}

// fetch reads the stored bytes of a span, one extent behind the other.
func (in *extentReader) fetch(extents []extentRec, s span, b []byte) error {
	if !s.holes {
		return durable.ReadAt(in.f, in.path, b, s.off)
	}
	device := UsualDevice
	if in.device != nil {
		device = in.device()
	}
	view, err := s.sieve(in.f, extents, device)
	if err != nil {
		return durable.Op("read", in.path, s.off, err)
	}
	n, err := view.ReadAt(b, 0)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if e, ok := errors.AsType[*fileview.Error](err); ok {
		return durable.ReadError(in.path, e.Offset, e.Err)
	}
	return durable.ReadError(in.path, s.off, err)
}
