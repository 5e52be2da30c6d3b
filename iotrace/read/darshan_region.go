package read

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"io"

	"github.com/klauspost/compress/zlib"
)

// A region may unpack to so many bytes, and to so many for each of its own. Real ones
// stay far below: every record has numbers that do not repeat.
const (
	unpackAlways = 4 << 20
	unpackRatio  = 256
)

// A region reads the contents of a compressed part of a log.
type region struct {
	name  string
	place place
	in    *counted
	src   *bufio.Reader
	out   *bufio.Reader
	z     io.ReadCloser // of zlib: the stream
	ended bool          // z has ended, and another may follow
	left  int64         // bytes that may still be unpacked
}

// A counted reader counts what is read, and keeps the error of the file.
type counted struct {
	r    io.Reader
	n    int64
	err  error
	tell func(int64)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	if c.tell != nil {
		c.tell(int64(n))
	}
	return n, err
}

func (l *reading) open(name string, p place) (*region, error) {
	if p.off < 0 || p.off > l.size || p.length > l.size-p.off {
		return nil, truncated(l.size, "the log ends before the %s do: they have %d bytes at offset %d", name, p.length, p.off)
	}
	g := &region{name: name, place: p, left: unpackAlways + unpackRatio*p.length}
	g.in = &counted{r: io.NewSectionReader(l.r, p.off, p.length), tell: l.tell}
	buffer := int(min(max(p.length, 1<<10), 1<<16))
	g.src = bufio.NewReaderSize(g.in, buffer)
	switch l.head.compression {
	case zlibbed:
		g.out, g.ended = bufio.NewReaderSize((*streams)(g), buffer), true
	case bzipped:
		g.out = bufio.NewReaderSize(bzip2.NewReader(g.src), buffer)
	default:
		g.out = g.src
	}
	return g, nil
}

// streams reads streams of zlib that follow each other.
type streams region

func (g *streams) Read(b []byte) (n int, err error) {
	for n == 0 && err == nil && len(b) > 0 {
		if g.ended {
			if _, err := g.src.Peek(1); err != nil {
				return 0, err
			}
			if err := g.begin(); err != nil {
				return 0, noEnd(err)
			}
		}
		if n, err = g.z.Read(b); err == io.EOF {
			g.ended, err = true, nil
		}
	}
	return n, err
}

func (g *streams) begin() (err error) {
	g.ended = false
	if g.z == nil {
		g.z, err = zlib.NewReader(g.src)
		return err
	}
	return g.z.(zlib.Resetter).Reset(g.src, nil)
}

func noEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads len(b) bytes. It returns io.EOF if the region ends in front of them.
func (g *region) fill(b []byte) error {
	if err := g.unpacked(len(b)); err != nil {
		return err
	}
	switch n, err := io.ReadFull(g.out, b); {
	case err == nil:
		return nil
	case err == io.EOF && n == 0:
		return io.EOF
	default:
		return g.failure(err)
	}
}

// rest is fill for bytes that must follow.
func (g *region) rest(b []byte) error {
	if err := g.fill(b); err != io.EOF {
		return err
	}
	return truncated(g.at(), "the %s end early", g.name)
}

// upTo reads at most n bytes.
func (g *region) upTo(n int) ([]byte, error) {
	b := make([]byte, 0, n)
	for len(b) < n {
		k, err := g.out.Read(b[len(b):n])
		b = b[:len(b)+k]
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, g.failure(err)
		}
	}
	return b, nil
}

// failure explains an error of out.
func (g *region) failure(err error) error {
	switch {
	case g.in.err != nil:
		return g.in.err
	case errors.Is(err, io.ErrUnexpectedEOF), err == io.EOF:
		return truncated(g.at(), "the %s end early", g.name)
	}
	return damaged(g.at(), "the %s are damaged: %v", g.name, err)
}

// at is about where the reading is in the file.
func (g *region) at() int64 { return g.place.off + g.in.n - int64(g.src.Buffered()) }

func (g *region) text() (string, error) {
	var b []byte
	for {
		piece, err := g.out.ReadSlice(0)
		if err := g.unpacked(len(piece)); err != nil {
			return "", err
		}
		b = append(b, piece...)
		switch err {
		case nil:
			return string(b[:len(b)-1]), nil
		case bufio.ErrBufferFull:
		default:
			return "", g.failure(err)
		}
	}
}

// unpacked counts bytes of the contents.
func (g *region) unpacked(n int) error {
	if g.left -= int64(n); g.left < 0 {
		return damaged(g.at(), "the %s unpack to more than %d times their length", g.name, unpackRatio)
	}
	return nil
}
