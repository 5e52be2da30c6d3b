package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"ckpt/zones"
)

// skipBlock is the size of a read when data must be read to be skipped.
const skipBlock = 64 << 10

// A stream delivers the decompressed bytes of an image and its position. It turns
// errors of the file and of gzip into errors of the package.
type stream struct {
	name  string
	file  counter
	ahead []byte       // bytes read to detect the compression
	zip   *gzip.Reader // nil if the file is not compressed
	seek  io.Seeker    // nil if data must be read to skip it
	size  int64        // of the image; -1 if unknown, as with gzip
	pos   int64        // in the image
	buf   []byte       // of skip
	stop  func() error // called before each header and block, if not nil
}

// openStream looks at the first bytes of r, and decompresses gzip.
func openStream(name string, r io.Reader, size int64) (*stream, error) {
	in := &stream{name: name, file: counter{r: r}, size: size}
	in.measure()
	magic := make([]byte, len(imageMagic))
	n, err := io.ReadFull(&in.file, magic)
	if err != nil && !cutOff(err) {
		return nil, in.failed(err)
	}
	in.ahead = magic[:n]
	if !bytes.Equal(in.ahead, imageMagic) {
		return in, nil
	}
	in.seek, in.size = nil, -1
	file := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(magic), &in.file), skipBlock)
	if in.zip, err = gzip.NewReader(file); err == nil {
		return in, nil
	}
	if cutOff(err) {
		return nil, in.endsEarly("in the header of gzip", 0)
	}
	in.zip = new(gzip.Reader) // in.zip marks the error as one of gzip
	return nil, in.failed(err)
}

// measure finds out whether the file can seek (a pipe has the method, but it fails),
// and where it ends. Without the end, skipping would have to trust every length.
func (in *stream) measure() {
	s, ok := in.file.r.(io.Seeker)
	if !ok {
		return
	}
	begin, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return
	}
	if _, err := s.Seek(begin, io.SeekStart); err == nil && end >= begin {
		in.seek, in.size = s, end-begin
	}
}

// ReadImage reads a part of the image. It returns io.EOF or io.ErrUnexpectedEOF only at the
// end of the image.
func (in *stream) Read(p []byte) (n int, err error) {
	switch {
	case in.zip != nil:
		n, err = in.zip.Read(p)
	case len(in.ahead) > 0:
		n = copy(p, in.ahead)
		in.ahead = in.ahead[n:]
	default:
		n, err = in.file.Read(p)
	}
	in.pos += int64(n)
	if err != nil && !cutOff(err) {
		err = in.failed(err)
	}
	return n, err
}

// fill reads len(p) bytes. Like io.ReadFull it returns io.EOF or io.ErrUnexpectedEOF
// with a shorter result.
func (in *stream) fill(p []byte) (int, error) {
	if in.stop != nil {
		if err := in.stop(); err != nil {
			return 0, err
		}
	}
	return io.ReadFull(in, p)
}

// skip skips n bytes. With io.EOF or io.ErrUnexpectedEOF it returns how many of them
// are missing. For files that can seek, the caller has compared n with the size.
func (in *stream) skip(n int64) (missing int64, err error) {
	if n > 0 && in.seek != nil {
		if _, err := in.seek.Seek(n, io.SeekCurrent); err != nil {
			return n, in.failed(err)
		}
		in.pos += n
		in.file.n += n
		return 0, nil
	}
	if n > 0 && in.buf == nil {
		in.buf = make([]byte, skipBlock)
	}
	for n > 0 {
		got, err := in.fill(in.buf[:min(n, skipBlock)])
		n -= int64(got)
		if err != nil {
			return n, err
		}
	}
	return 0, nil
}

func (in *stream) endsEarly(where string, missing int64) error {
	reason := "the file ends early, " + where
	if missing > 0 {
		reason += fmt.Sprintf(": %d bytes are missing", missing)
	}
	return &zones.FormatError{File: in.name, Offset: in.pos, Reason: reason}
}

// failed turns an error of the file or of gzip into one of the package.
func (in *stream) failed(err error) error {
	if in.zip != nil && in.file.err == nil {
		return &zones.FormatError{File: in.name, Offset: in.pos, Reason: "the compressed file is damaged: " + err.Error()}
	}
	return fmt.Errorf("%s: at offset %d: %w", in.name, in.pos, err)
}

// cutOff reports whether err is the end of the input.
func cutOff(err error) bool {
	return err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)
}

// A counter counts the bytes read of a file, and remembers its error.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}
