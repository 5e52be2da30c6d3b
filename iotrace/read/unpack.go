package read

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"

	"ckpt/iotrace"
)

// mostWindow bounds what a file may ask for in memory: as much as zstd takes by default,
// and twice what xz -9 needs.
const mostWindow = 128 << 20

// packedBy returns the name of the packer of a file that begins with head, "" if it is
// not packed.
func packedBy(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b, 8}):
		return "gzip"
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return "xz"
	case len(head) >= 10 && bytes.HasPrefix(head, []byte("BZh")) && bytes.Equal(head[4:10], []byte("\x31\x41\x59\x26\x53\x59")):
		return "bzip2"
	}
	return ""
}

// An unpacker reads what a file holds, which gzip, bzip2, xz or zstd may have packed. It
// unpacks piece by piece, so that a small file that becomes a large one does no harm.
// Damage is a *iotrace.FormatError with the offset in the packed file, behind the bytes in
// front of it.
type unpacker struct {
	in     counter
	format string
	from   io.Reader
	close  func()
}

func unpack(r io.Reader) *unpacker {
	x := &unpacker{in: counter{r: bufio.NewReaderSize(r, iotrace.HeadBytes)}, close: func() {}}
	head, _ := x.in.r.Peek(iotrace.HeadBytes) // Read reports the error
	x.format = packedBy(head)
	var err error
	switch x.format {
	case "gzip":
		x.from, err = gzip.NewReader(&x.in)
	case "bzip2":
		x.from = bzip2.NewReader(&x.in)
	case "xz":
		x.from, err = xz.NewReader(&x.in, mostWindow)
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(&x.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostWindow)); err == nil {
			x.from, x.close = d, d.Close
		}
	default:
		x.from = &x.in
	}
	if err != nil {
		x.from = failing{err}
	}
	return x
}

// Read reads unpacked bytes.
func (x *unpacker) Read(b []byte) (int, error) {
	n, err := x.from.Read(b)
	if err == nil || err == io.EOF || x.format == "" || x.in.err != nil {
		if x.in.err != nil && n == 0 {
			err = x.in.err // of the disk, not of the packer
		}
		return n, err
	}
	fe := &iotrace.FormatError{Offset: x.in.n, Reason: fmt.Sprintf("damaged %s: %v", x.format, err)}
	if errors.Is(err, xz.ErrMemlimit) {
		fe.Reason = fmt.Sprintf("the dictionary of the xz file needs more than %d MiB of memory", mostWindow>>20)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, xz.ErrBuf) {
		fe.Reason, fe.Err = fmt.Sprintf("the %s file ends early", x.format), iotrace.ErrTruncated
	}
	return n, fe
}

// Close frees memory. It does not close the reader below.
func (x *unpacker) Close() { x.close() }

// A counter counts the bytes that are used. It reads single bytes fast, so that packers
// need no buffer of their own.
type counter struct {
	r   *bufio.Reader
	n   int64
	err error // other than the end
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, c.keep(err)
}

func (c *counter) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, c.keep(err)
}

func (c *counter) keep(err error) error {
	if err != nil && err != io.EOF {
		c.err = err
	}
	return err
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }
