// Package source reads the memory of processes from any known kind of file. It
// recognises the format by the contents, never by the name, and collects the files of
// one checkpoint.
//
//	r := source.Reader{Rules: zones.DefaultRules()}
//	ps, err := r.File(ctx, "core.1234")
//	ps, err = r.Dir(ctx, "ckpt-dir")   // all images in it
//	for _, c := range source.Checkpoints(ps) { … c.Gstored … }
package source

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"ckpt/zones"
	"ckpt/zones/dmtcp"
	"ckpt/zones/proc"
)

// A Format is an additional format for a Reader.
type Format struct {
	Is   func(head []byte) bool // recognises a file by its beginning
	Read func(name string) ([]*zones.Process, error)
}

// A Reader reads processes from files and classifies their areas.
type Reader struct {
	Rules   *zones.Rules
	Measure proc.Measure // for saved smaps texts
	More    []Format
}

// ErrUnknown: the file has no known format.
var ErrUnknown = errors.New("is not an image of ckpt or DMTCP, an ELF core file, or a text of /proc/PID/smaps or maps")

// headBytes is enough to recognise any format.
const headBytes = 512

// Head returns the beginning of a file for recognising its format. It does not move
// the file position.
func Head(f io.ReaderAt) ([]byte, error) {
	head := make([]byte, headBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return head[:n], nil
}

// File reads the processes in a file.
func (r *Reader) File(ctx context.Context, name string) ([]*zones.Process, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() { // a pipe, as in <(…)
		return one(r.Text(name, f))
	}
	head, err := Head(f)
	if err != nil {
		return nil, err
	}
	var p *zones.Process
	switch {
	case dmtcp.IsImage(head):
		p, err = dmtcp.Read(ctx, name, f, fi.Size())
	case isCore(head):
		p, err = readCore(ctx, name, f, fi.Size())
	case looksLikeMaps(head), bytes.HasPrefix(head, gzipMagic):
		return one(r.Text(name, f))
	default:
		for _, format := range r.More {
			if format.Is(head) {
				// Its zones are known already.
				return format.Read(name)
			}
		}
		return nil, fmt.Errorf("%s %w", name, ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	r.Rules.Classify(p)
	return one(p, nil)
}

func one(p *zones.Process, err error) ([]*zones.Process, error) {
	if err != nil {
		return nil, err
	}
	return []*zones.Process{p}, nil
}

var gzipMagic = []byte{0x1f, 0x8b}

// Text reads the text of /proc/PID/smaps or maps, plain or gzip.
func (r *Reader) Text(name string, in io.Reader) (*zones.Process, error) {
	buf := bufio.NewReaderSize(in, headBytes)
	head, err := buf.Peek(headBytes)
	if bytes.HasPrefix(head, gzipMagic) {
		z, zerr := gzip.NewReader(buf)
		if zerr != nil {
			return nil, fmt.Errorf("%s %w", name, ErrUnknown)
		}
		buf = bufio.NewReaderSize(z, headBytes)
		if head, err = buf.Peek(headBytes); len(head) > 0 {
			err = nil // ReadText meets it again, and knows the line
		}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !looksLikeMaps(head) {
		return nil, fmt.Errorf("%s %w", name, ErrUnknown)
	}
	p, err := proc.ReadText(name, buf)
	if err != nil {
		return nil, damaged(name, err)
	}
	r.Measure.Apply(p)
	r.Rules.Classify(p)
	return p, nil
}

func damaged(name string, err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt) {
		return &zones.FormatError{File: name, Offset: int64(corrupt), Reason: "the compressed text is damaged: " + errors.Unwrap(err).Error()}
	}
	return err
}

// looksLikeMaps reports whether a text begins with a range of addresses:
// 55d0c8a00000-55d0c8a02000.
func looksLikeMaps(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	first, _, ok := bytes.Cut(line, []byte(" "))
	start, end, dash := bytes.Cut(first, []byte("-"))
	return ok && dash && isHex(start) && isHex(end)
}

func isHex(b []byte) bool {
	return len(b) > 0 && len(b) <= 16 && len(bytes.Trim(b, "0123456789abcdef")) == 0
}

// Dir reads all files of known formats in a directory, sorted by name. It returns the
// processes of readable files together with the errors of the others.
func (r *Reader) Dir(ctx context.Context, dir string) ([]*zones.Process, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []*zones.Process
	var failed error
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		ps, err := r.File(ctx, name)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		out = append(out, ps...)
	}
	if len(out) == 0 && failed == nil {
		return nil, fmt.Errorf("%s holds nothing to read: every file %w", dir, ErrUnknown)
	}
	return out, failed
}

// companions counts the files that DMTCP has put beside an image.
func companions(image string) (n int, size int64) {
	dir, ok := dmtcp.CompanionDir(image)
	if !ok {
		return 0, 0
	}
	// Unreadable files do not count: the sum is a report, not a promise.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if fi, err := d.Info(); err == nil {
			n++
			size += fi.Size()
		}
		return nil
	})
	return n, size
}
