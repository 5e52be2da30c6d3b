package replay

import (
	"fmt"

	"ckpt/iotrace"
)

// A SpaceError says that the files of a replay would not fit. The replay has not begun.
type SpaceError struct {
	Dir        string
	Need, Free int64 // bytes
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("%s has %d bytes of free space, and the files of the replay need %d", e.Dir, e.Free, e.Need)
}

// Factor returns an Options.ScaleBytes with which the files fit.
func (e *SpaceError) Factor() float64 { return max(0.01, 0.9*float64(e.Free)/float64(e.Need)) }

// footprint returns about how many bytes the files occupy when they occupy most, in whole
// pages, as most file systems allot them. Parts of a file that nobody writes are holes.
func (p *plan) footprint() (most int64) {
	type state struct{ occupied, end int64 }
	files := make([]state, len(p.files))
	var sum int64
	change := func(f *state, to int64) {
		sum += pages(to) - pages(f.occupied)
		f.occupied = to
		most = max(most, sum)
	}
	for i := range p.files {
		for _, x := range p.files[i].fill {
			change(&files[i], files[i].occupied+x.end-x.off)
			files[i].end = x.end
		}
	}
	for i := range p.events {
		e := &p.events[i]
		if e.File == iotrace.None {
			continue
		}
		f := &files[e.File]
		switch e.Op {
		case iotrace.Open:
			if p.planned[i].empties {
				f.end = 0
				change(f, 0)
			}
		case iotrace.Write:
			f.end = max(f.end, e.Offset+e.Bytes)
			change(f, min(f.occupied+e.Bytes, f.end))
		case iotrace.Truncate:
			f.end = e.Bytes
			change(f, min(f.occupied, e.Bytes))
		case iotrace.Unlink:
			change(f, 0)
		case iotrace.Rename:
			if e.Peer != e.File {
				change(&files[e.Peer], 0)
			}
		}
	}
	return most
}

// pages rounds up to whole pages.
func pages(n int64) int64 { return (n + pageSize - 1) / pageSize * pageSize }

// fits checks the free space before a file is made.
func (r *running) fits() error {
	free, err := r.o.fs.Free(r.o.Dir)
	if err != nil {
		return &Error{Op: "look at the free space of", Path: r.o.Dir, Offset: iotrace.None, Rank: iotrace.None, Err: err}
	}
	if need := r.p.footprint(); need > free {
		return &SpaceError{r.o.Dir, need, free}
	}
	return nil
}
