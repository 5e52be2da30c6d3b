package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"ckpt/zones/dmtcp"
	"ckpt/zones/source"
)

// A CodecResult is how one codec does on an image, in one goroutine.
type CodecResult struct {
	Codec  string `json:"codec"`
	Bytes  int64  `json:"bytes"`        // of the extents that are not all zeros
	Stored int64  `json:"stored_bytes"` // in whole pages, as in a file
	// Ratio is Bytes by Stored.
	Ratio float64 `json:"codec_ratio"`
	// Raw is the share of the bytes that is stored as it is, Filtered the share that is
	// shuffled.
	Raw      float64 `json:"raw_share"`
	Filtered float64 `json:"filtered_share"`
	// Rates are in bytes of memory per second of processor time.
	Encode float64 `json:"encode_bytes_per_s"`
	Decode float64 `json:"decode_bytes_per_s"`
	// PaysBelow is the bandwidth of the storage, in bytes per second, below which compressing
	// saves time: Encode · (Ratio−1)/Ratio.
	PaysBelow float64 `json:"pays_below_bytes_per_s"`
}

// Extents are the memory that codecs are tried on.
type Extents struct {
	Zeros int64 // bytes of extents of zeros, which are never stored
	Bytes int64 // of the others
	list  []extent
}

type extent struct {
	elem zones.Elem
	raw  []byte
}

// extentBytes is the length of the extents of foreign memory, as in the write path.
const extentBytes = 256 << 10

// ReadExtents reads up to limit bytes of an image of ckpt or DMTCP, or of any file.
func ReadExtents(ctx context.Context, path string, limit int64) (*Extents, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head, err := source.Head(f)
	if err != nil {
		return nil, err
	}
	x := &Extents{}
	switch {
	case container.IsImage(head):
		err = x.own(ctx, path, limit)
	case dmtcp.IsImage(head):
		err = x.dmtcp(ctx, f, path, limit)
	default:
		err = x.plain(ctx, f, limit)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if x.Bytes == 0 {
		return nil, fmt.Errorf("%s holds nothing but zeros", path)
	}
	return x, nil
}

// errEnough ends the reading at the limit.
var errEnough = errors.New("enough")

func (x *Extents) add(elem zones.Elem, raw []byte, limit int64) error {
	if codec.IsZero(raw) {
		x.Zeros += int64(len(raw))
		return nil
	}
	if x.Bytes += int64(len(raw)); x.Bytes > limit {
		x.Bytes -= int64(len(raw))
		return errEnough
	}
	x.list = append(x.list, extent{elem, raw})
	return nil
}

// own adds the extents that a container file stores itself.
func (x *Extents) own(ctx context.Context, path string, limit int64) error {
	o, err := container.OpenFile(vfs.OS{}, path)
	if err != nil {
		return err
	}
	defer o.Close()
	for i, r := range o.Regions {
		for _, e := range o.Extents(i) {
			if e.Zero || e.Elsewhere {
				continue
			}
			raw := make([]byte, e.Bytes)
			if err := o.Read(ctx, e, raw); err != nil {
				return err
			}
			if err := x.add(r.Elem, raw, limit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *Extents) plain(ctx context.Context, r io.Reader, limit int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		buf := make([]byte, extentBytes)
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			whole := buf[:zones.PageRound(int64(n))]
			clear(whole[n:])
			if aerr := x.add(zones.Bytes, whole, limit); aerr != nil {
				return aerr
			}
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (x *Extents) dmtcp(ctx context.Context, f *os.File, path string, limit int64) error {
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
		if err == nil && rec.Data > 0 {
			err = x.plain(ctx, s, limit)
		}
		if err != nil {
			return err
		}
	}
}

// Codecs tries every codec on the extents. Progress, if not nil, is told the bytes encoded
// since its last call: Bytes for each codec.
func (x *Extents) Codecs(ctx context.Context, progress func(int64)) ([]CodecResult, error) {
	var out []CodecResult
	for _, s := range codec.Settings() {
		r, err := x.codec(ctx, s, progress)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (x *Extents) codec(ctx context.Context, setting codec.Setting, progress func(int64)) (CodecResult, error) {
	enc := codec.NewEncoder(setting, codec.Options{})
	var dec codec.Decoder
	var encoding, decoding time.Duration
	var raw, filtered int64
	r := CodecResult{Codec: setting.String(), Bytes: x.Bytes}
	var buf []byte
	// Other work on the machine does not count.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, e := range x.list {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		n := int64(len(e.raw))
		start := codec.ProcessorTime()
		p := enc.Encode(e.raw, e.elem)
		encoding += codec.ProcessorTime() - start
		if len(buf) < len(e.raw) {
			buf = make([]byte, len(e.raw))
		}
		start = codec.ProcessorTime()
		if err := dec.Decode(buf[:n], p.Data, p.ID, p.Filter); err != nil {
			return r, fmt.Errorf("%v: %w", setting, err)
		}
		decoding += codec.ProcessorTime() - start
		r.Stored += zones.PageRound(int64(len(p.Data)))
		if p.ID == codec.Raw {
			raw += n
		}
		if p.Filter != codec.NoFilter {
			filtered += n
		}
		if progress != nil {
			progress(n)
		}
	}
	r.Ratio = float64(r.Bytes) / float64(r.Stored)
	r.Raw, r.Filtered = float64(raw)/float64(r.Bytes), float64(filtered)/float64(r.Bytes)
	r.Encode, r.Decode = rate(r.Bytes, encoding), rate(r.Bytes, decoding)
	if r.Ratio > 1 {
		r.PaysBelow = r.Encode * (r.Ratio - 1) / r.Ratio
	}
	return r, nil
}

func rate(n int64, d time.Duration) float64 {
	return float64(n) / max(d, time.Nanosecond).Seconds()
}
