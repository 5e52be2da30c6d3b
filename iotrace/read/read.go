package read

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"

	"ckpt/iotrace"
	"ckpt/iotrace/export"
	"ckpt/iotrace/strace"
)

// File reads a trace file: an events file, output of strace, a Darshan log or DXT text,
// or a CSV, JSON or Parquet file of package export.
func File(name string, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &iotrace.Report{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, &iotrace.Report{}, err
	}
	if !fi.Mode().IsRegular() { // a pipe, as in <(…)
		return Stream(name, f, o)
	}
	head := make([]byte, iotrace.HeadBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, &iotrace.Report{}, err
	}
	head = head[:n]
	if packedBy(head) != "" {
		o.Events = guessLines(f, fi.Size())
		t, rep, err := Stream(name, &progress{f, 0, o.Progress}, o)
		if err == nil && o.Each == nil && hasRows(rep.Format) {
			err = beside(strings.TrimSuffix(name, filepath.Ext(name)), t, o)
		}
		return t, rep, err
	}
	switch format := iotrace.Detect(head); format {
	case iotrace.FormatParquet:
		t, rep, err := export.ReadParquet(&progressAt{f, 0, o.Progress}, fi.Size(), o)
		rep.Format = format
		return t, rep, iotrace.Named(err, name)
	case iotrace.FormatDarshan:
		t, rep, err := Darshan(f, fi.Size(), o)
		rep.Format = format
		return t, rep, iotrace.Named(err, name)
	case iotrace.FormatEvents:
		o.Events = iotrace.Expect(f)
	case iotrace.FormatCSV, iotrace.FormatDXT, iotrace.FormatStrace, iotrace.FormatJSON:
		if o.Events, err = countLines(f); err != nil {
			return nil, &iotrace.Report{}, iotrace.Named(err, name)
		}
	}
	t, rep, err := detected(name, head, &progress{f, 0, o.Progress}, o)
	if err == nil && o.Each == nil && hasRows(rep.Format) {
		err = beside(name, t, o)
	}
	return t, rep, err
}

// Each calls visit with the events of a trace file, in any order and some at a time, and returns the
// trace without them. Of an events file and a CSV it keeps a few thousand at a time, of other formats
// all.
func Each(name string, visit func([]iotrace.Event)) (*iotrace.Trace, error) {
	t, _, err := File(name, iotrace.Options{Each: visit})
	if err != nil {
		return nil, err
	}
	visit(t.Events)
	t.Events = nil
	return t, nil
}

// hasRows reports whether traces of a format are rows, described by a file beside them.
func hasRows(f iotrace.Format) bool { return f == iotrace.FormatCSV || f == iotrace.FormatJSON }

// beside adds what the file beside a CSV says of its trace, if there is such a file and
// the CSV does not describe itself.
func beside(name string, t *iotrace.Trace, o iotrace.Options) error {
	name += ".meta.json"
	f, err := os.Open(name)
	if err != nil || t.Source != "" || t.Job != "" {
		return nil //nolint:nilerr // a CSV does not need it
	}
	defer f.Close()
	if err := export.ReadMeta(f, t); err != nil && !o.Lenient {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

type progress struct {
	r    io.Reader
	n    int64
	tell func(int64)
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if p.n += int64(n); p.tell != nil {
		p.tell(p.n)
	}
	return n, err
}

// progressAt is progress for random access.
type progressAt struct {
	r    io.ReaderAt
	n    int64
	tell func(int64)
}

func (p *progressAt) ReadAt(b []byte, at int64) (int, error) {
	n, err := p.r.ReadAt(b, at)
	if p.n += int64(n); p.tell != nil {
		p.tell(p.n)
	}
	return n, err
}

// Stream reads a trace from a pipe or similar, which may be packed. The name is for
// errors. Parquet needs a file.
func Stream(name string, r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	whole := unpack(r)
	defer whole.Close()
	br := bufio.NewReaderSize(whole, iotrace.HeadBytes)
	head, err := br.Peek(iotrace.HeadBytes)
	if err != nil && err != io.EOF && len(head) == 0 {
		return nil, &iotrace.Report{}, iotrace.Named(err, name)
	}
	return detected(name, head, br, o)
}

// mostLog bounds a Darshan log that is not in a file, and so is kept in memory.
const mostLog = 512 << 20

func detected(name string, head []byte, r io.Reader, o iotrace.Options) (t *iotrace.Trace, rep *iotrace.Report, err error) {
	format := iotrace.Detect(head)
	switch format {
	case iotrace.FormatEvents:
		t, rep, err = iotrace.Import(r, o)
	case iotrace.FormatStrace:
		t, rep, err = strace.Read(r, o)
	case iotrace.FormatDXT:
		t, rep, err = DarshanText(r, o)
	case iotrace.FormatCSV:
		t, rep, err = export.ReadCSV(r, o)
	case iotrace.FormatJSON:
		t, rep, err = export.ReadJSON(r, o)
	case iotrace.FormatDarshan: // small beside its trace
		var b []byte
		rep = &iotrace.Report{}
		if b, err = io.ReadAll(io.LimitReader(r, mostLog+1)); len(b) > mostLog {
			err = &iotrace.FormatError{Offset: mostLog, Reason: "this Darshan log is too long for a pipe: unpack it to a file"}
		}
		if err == nil {
			t, rep, err = Darshan(bytes.NewReader(b), int64(len(b)), o)
		}
	case iotrace.FormatParquet:
		rep, err = &iotrace.Report{}, &iotrace.FormatError{Line: 1, Err: iotrace.ErrWrongFormat,
			Reason: "this is a Parquet file, which cannot be read from a pipe or packed: give the unpacked file"}
	default:
		rep, err = &iotrace.Report{}, &iotrace.FormatError{Line: 1, Err: iotrace.ErrWrongFormat,
			Reason: fmt.Sprintf("this is %v; traces are events files of ckpt, output of strace -f -ttt -T, Darshan logs and DXT text, traces of DFTracer, and CSV, JSON and Parquet with the columns of ckpt; gzip, bzip2, xz or zstd may have packed them", format)}
	}
	rep.Format = format
	return t, rep, iotrace.Named(err, name)
}

// countLines bounds the number of events in a text, so that the slice of events need
// not grow. An event takes at least leastLine bytes, so many short lines of a hostile
// text do not count. It does not move the file position.
func countLines(f *os.File) (int, error) {
	const leastLine = 16
	lines := 0
	buf := make([]byte, 1<<20)
	for at := int64(0); ; {
		n, err := f.ReadAt(buf, at)
		lines += bytes.Count(buf[:n], []byte("\n"))
		at += int64(n)
		if err == io.EOF {
			return min(lines, int(at/leastLine)), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// guessLines is countLines for a packed text: it counts the lines at the beginning. It
// does not move the file position.
func guessLines(f *os.File, size int64) int {
	const (
		sample = 4 << 20
		most   = 4 // lines that a packed byte may become
	)
	r := unpack(io.NewSectionReader(f, 0, size))
	defer r.Close()
	b, _ := io.ReadAll(io.LimitReader(r, sample)) // reading the trace reports the error
	switch iotrace.Detect(b[:min(len(b), iotrace.HeadBytes)]) {
	case iotrace.FormatCSV, iotrace.FormatDXT, iotrace.FormatStrace:
	default:
		return 0
	}
	lines := float64(bytes.Count(b, []byte("\n")))
	// A tenth more: memory that is not used is not taken from the system.
	return int(min(1.1*lines*float64(size)/float64(max(r.in.n, 1))+1000, most*float64(size)))
}

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

// Unpack reads what gzip, bzip2, xz or zstd may have packed, and reports whether one has.
func Unpack(r io.Reader) (what io.ReadCloser, packed bool) {
	x := unpack(r)
	return x, x.format != ""
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

// Close frees memory. It does not close the reader below, and cannot fail.
func (x *unpacker) Close() error {
	x.close()
	return nil
}

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
