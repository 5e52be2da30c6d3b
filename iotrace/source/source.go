// Package source opens a trace of any known format. It recognises the format by the
// contents, never by the name.
//
//	t, report, err := source.File("out.strace", iotrace.Options{})
//	t, report, err = source.Stream("-", os.Stdin, iotrace.Options{})
//	traces, reports, err := source.Files(names, iotrace.Options{}, open)
//
// Errors name the file and the line or offset.
package source

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"

	"ckpt/iotrace"
	"ckpt/iotrace/dxt"
	"ckpt/iotrace/export"
	"ckpt/iotrace/strace"
)

// File reads a trace file: an events file, output of strace, Darshan DXT text, or a
// CSV or Parquet file of package export.
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
	switch format := iotrace.Detect(head); format {
	case iotrace.FormatParquet:
		t, err := export.ReadParquet(&progressAt{f, 0, o.Progress}, fi.Size())
		return t, &iotrace.Report{Format: format}, iotrace.Named(err, name)
	case iotrace.FormatEvents:
		o.Events = iotrace.Expect(f)
	case iotrace.FormatCSV, iotrace.FormatDXT, iotrace.FormatStrace:
		if o.Events, err = countLines(f); err != nil {
			return nil, &iotrace.Report{}, iotrace.Named(err, name)
		}
	}
	return read(name, head, &progress{f, 0, o.Progress}, o)
}

// A progress reports the bytes read.
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

// Stream reads a trace from a pipe or similar. The name is for errors. Parquet needs a
// file.
func Stream(name string, r io.Reader, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	br := bufio.NewReaderSize(r, iotrace.HeadBytes)
	head, err := br.Peek(iotrace.HeadBytes)
	if err != nil && err != io.EOF {
		return nil, &iotrace.Report{}, iotrace.Named(err, name)
	}
	return read(name, head, br, o)
}

func read(name string, head []byte, r io.Reader, o iotrace.Options) (t *iotrace.Trace, rep *iotrace.Report, err error) {
	format := iotrace.Detect(head)
	switch format {
	case iotrace.FormatEvents:
		t, rep, err = iotrace.Import(r, o)
	case iotrace.FormatStrace:
		t, rep, err = strace.Read(r, o)
	case iotrace.FormatDXT:
		t, rep, err = dxt.Read(r, o)
	case iotrace.FormatCSV:
		t, rep, err = export.ReadCSV(r, o)
	default:
		rep, err = &iotrace.Report{}, &iotrace.FormatError{Line: 1, Err: iotrace.ErrWrongFormat,
			Reason: fmt.Sprintf("this is %v; traces are events files of ckpt, output of strace -f -ttt -T, Darshan DXT text, and CSV and Parquet of ckpt", format)}
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
