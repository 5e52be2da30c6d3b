package image

import (
	"context"
	"io"
	"math"
	"sync"

	"ckpt/image/container"
	"ckpt/zones/global"
)

// An ArrayReader reads an array of a checkpoint at any place, by several goroutines. Its files are
// open from the start, so that it goes on when the checkpoint is pruned.
type ArrayReader struct {
	bytes int64
	fill  func(mem []byte, off int64) error
	close func()
	mu    sync.Mutex
}

// OpenArray opens an array of a rank.
func (j *Job) OpenArray(m *Manifest, a Array) (*ArrayReader, error) {
	o, err := j.Open(m, a.File)
	if err != nil {
		return nil, err
	}
	r, err := a.in(o)
	if err == nil {
		err = o.Pin(a.index)
	}
	if err != nil {
		o.Close()
		return nil, err
	}
	fill := func(mem []byte, off int64) error {
		return r.Copy(context.Background(), &target{mem}, off, off+int64(len(mem)), nil)
	}
	return &ArrayReader{bytes: a.Bytes, fill: fill, close: func() { o.Close() }}, nil
}

// OpenGlobal opens an array of all ranks, and the files of all of them.
func (j *Job) OpenGlobal(m *Manifest, a *GlobalArray) (*ArrayReader, error) {
	p := j.Parts(m, m.Ranks[0].Rank, container.LoadOptions{})
	p.most, p.readers = math.MaxInt, make(map[place]*container.RegionReader)
	if err := p.pin(a); err != nil {
		p.Close()
		return nil, err
	}
	whole, elem := global.Whole(a.Shape), int64(a.Elem.Size())
	fill := func(mem []byte, off int64) error {
		lo, hi := off/elem, (off+int64(len(mem))+elem-1)/elem
		if lo*elem == off && (hi-lo)*elem == int64(len(mem)) {
			return p.ReadSection(context.Background(), a, whole, lo, mem)
		}
		around := make([]byte, (hi-lo)*elem)
		err := p.ReadSection(context.Background(), a, whole, lo, around)
		copy(mem, around[off-lo*elem:])
		return err
	}
	return &ArrayReader{bytes: a.Bytes(), fill: fill, close: p.Close}, nil
}

// pin opens all files that have a part of an array.
func (p *PartReader) pin(a *GlobalArray) error {
	for _, h := range a.held {
		regions := []string{regionOf(h, a.Name)}
		if h.Part.Index != nil {
			regions = append(regions, global.Listed(h.Region))
		}
		for _, name := range regions {
			o, k, err := p.find(place{h.Rank, name})
			if err == nil {
				err = o.Pin(k)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadAt fills b, each byte checked. It returns io.EOF where the array ends.
func (r *ArrayReader) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off >= r.bytes {
		return 0, io.EOF
	}
	n := min(int64(len(b)), r.bytes-off)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fill(b[:n], off); err != nil {
		return 0, err
	}
	if n < int64(len(b)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// Close closes its files.
func (r *ArrayReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.close()
	return nil
}
