package dxt

import (
	"bufio"
	"bytes"
	"io"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
)

// A Log is a whole text. Each segment takes about 60 bytes.
type Log struct {
	parts []part
	end   []byte // lines behind the last segment
}

// A part is a block of lines with the segments that follow them.
type part struct {
	text          []byte
	layout        layout
	module        iotrace.Module
	rank          int64
	writes, reads int64 // of the record before this part
	segments      []kept
}

// kept is a segment of a Log.
type kept struct {
	write              bool
	verbatim           bool // rest is a whole line that Darshan would print differently
	offset, length     int64
	startTick, endTick int64
	rest               string
}

// ReadLog reads a text. It refuses the same texts as Read.
func ReadLog(r io.Reader) (*Log, error) {
	k := &keeping{log: &Log{}, rests: make(map[string]string)}
	p := &parser{in: line.NewReader(r), rep: &iotrace.Report{}, v: k}
	if err := p.run(); err != nil {
		return nil, err
	}
	k.log.end = k.pending
	return k.log, nil
}

// keeping is a visitor that builds a Log.
type keeping struct {
	log     *Log
	pending []byte            // lines since the last segment
	rests   map[string]string // one copy of each
	scratch []byte
}

func (k *keeping) text(l []byte) {
	k.pending = append(append(k.pending, l...), '\n')
}

func (k *keeping) segment(r *record, s *segment, l []byte) error {
	parts := k.log.parts
	if k.pending != nil || len(parts) == 0 || parts[len(parts)-1].module != s.module {
		p := part{text: k.pending, module: s.module, rank: s.rank, writes: r.gotWrites, reads: r.gotReads}
		// The count includes this segment.
		if s.write {
			p.writes--
		} else {
			p.reads--
		}
		p.layout = k.layoutOf(s, l, r.noOffset)
		parts = append(parts, p)
		k.log.parts = parts
		k.pending = nil
	}
	p := &parts[len(parts)-1]
	x := kept{write: s.write, offset: s.offset, length: s.length, startTick: round(s.start), endTick: round(s.end)}
	k.scratch = s.append(k.scratch[:0], p.layout)
	rest := s.rest
	if !bytes.Equal(k.scratch, l) {
		x.verbatim, rest = true, l
	}
	var ok bool
	if x.rest, ok = k.rests[string(rest)]; !ok {
		x.rest = string(rest)
		k.rests[x.rest] = x.rest
	}
	p.segments = append(p.segments, x)
	return nil
}

// layoutOf finds the layout that reproduces the segment.
func (k *keeping) layoutOf(s *segment, l []byte, noOffset bool) layout {
	for _, y := range layouts {
		k.scratch = s.append(k.scratch[:0], y)
		if y.noOffset == noOffset && bytes.Equal(k.scratch, l) {
			return y
		}
	}
	return layout{noOffset: noOffset, length: 16}
}

// Segments returns the number of reads and writes.
func (g *Log) Segments() (n int) {
	for i := range g.parts {
		n += len(g.parts[i].segments)
	}
	return n
}

// WriteTo writes the original text.
func (g *Log) WriteTo(w io.Writer) (int64, error) {
	bw := bufio.NewWriterSize(w, 1<<16)
	total := int64(0)
	put := func(b []byte) error {
		n, err := bw.Write(b)
		total += int64(n)
		return err
	}
	var b []byte
	for i := range g.parts {
		p := &g.parts[i]
		if err := put(p.text); err != nil {
			return total, err
		}
		s := segment{module: p.module, rank: p.rank}
		writes, reads := p.writes, p.reads
		for j := range p.segments {
			x := &p.segments[j]
			if x.write {
				s.index = writes
				writes++
			} else {
				s.index = reads
				reads++
			}
			if x.verbatim {
				b = append(b[:0], x.rest...)
			} else {
				s.write, s.offset, s.length = x.write, x.offset, x.length
				s.start, s.end, s.rest = x.startTick*tick, x.endTick*tick, nil
				b = append(s.append(b[:0], p.layout), x.rest...)
			}
			if err := put(append(b, '\n')); err != nil {
				return total, err
			}
		}
	}
	if err := put(g.end); err != nil {
		return total, err
	}
	return total, bw.Flush()
}
