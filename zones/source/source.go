// Package source reads the memory of processes from any known kind of file. It
// recognises the format by the contents, never by the name, and collects the files of
// one checkpoint.
//
//	r := source.Reader{Rules: zones.DefaultRules()}
//	ps, err := r.File(ctx, "core.1234")
//	ps, err = r.Dir(ctx, "ckpt-dir")   // all images in it
//	for _, c := range source.Checkpoints(ps) { … c.Gstored … }
//
// # Images of DMTCP
//
// Of checkpoint images of DMTCP the package reads the areas of memory, and the bytes
// that the image stores of them.
//
// ReadImage returns only these. An ImageScanner reads an image record by record, forward only, so
// that it works on a pipe. Every Raw followed by its data is a copy of the image:
//
//		s, err := source.NewImageScanner(name, file, size)
//		for {
//			rec, err := s.Next()
//			if err == io.EOF {
//				break // the image is whole
//			}
//			... rec.Raw, then rec.Data bytes from s.Read
//		}
//
//	  - A truncated image is refused, and so is one with bytes behind its end.
//	  - Lengths are checked before they are used. A hostile image costs time in proportion
//	    to its length after decompression, a few hundred KiB of memory, and under Read the
//	    memory of its areas and their names, which is limited.
//	  - Errors in the contents are *zones.FormatError values with the offset in the
//	    decompressed file.
//	  - Every image that DMTCP can write is read. Checks that some file system, plug-in or
//	    mount could make fail are left out.
//
// # Layout of an image
//
// DMTCP 4.0 to 5.0 write the format v4.0, perhaps compressed with gzip. All numbers are
// little-endian. A file header of 4 KiB comes twice. Then come areas, each with a header of
// 4 KiB and data of any length, and an end marker: an area header whose start is 0 and size
// 2^64-1. The file header:
//
//	   0  char[32]    DMTCP_CHECKPOINT_IMAGE_v4.0\n
//	  32  id          of the process: u64 host, u64 time, i32 virtual pid,
//	                  u32 generation; its parent; the computation
//	 104  i32 x 5     pid, ppid, sid, gid, foreground gid; all virtual
//	 124  u32         is the root of the process tree
//	 128  u32         processes in the computation, launchers included
//	 132  u32         ELF type: 0 is 32 bit, 1 is 64 bit
//	 136  u64 x 4     offsets of functions in the vdso
//	 168  u64 x 8     start and end of the restart buffer, vdso, vvar, vvar_vclock
//	 232  u64 x 3     brk, end of the stack, entry of the restart
//	 256  char[1024]  name of the program
//	1280  char[1024]  path of the executable
//
// The area header:
//
//	 0  u64 x 4     start, end, size, offset in the file behind it
//	32  i32 (in 8)  protection: 1 read, 2 write, 4 execute
//	40  i32 (in 8)  flags of mmap(2): 1 shared, 2 private, 0x10 fixed,
//	                0x20 anonymous
//	48  u64 x 3     device, major and minor; inode
//	72  i64         length stored of a file; -1 if not set
//	80  u64         properties
//	88  char[1024]  name as in /proc/PID/maps
//
// The properties determine what follows:
//
//	0  a file's area, stored whole: as many bytes as the length at 72 says,
//	   size bytes if that is not positive
//	1  an area that is zero again after a restart (the cache of nscd): nothing
//	2  an area that is cut into runs, whose headers follow
//	4  a run: size bytes
//	5  a run of zeros: nothing
//
// The runs of an area cover it without gaps, in order of their addresses. Their headers
// are copies of the area's, but for start, end, size and properties. Padding, the bytes
// after the NUL of a name, and the upper halves of protection and flags mean nothing.
//
// # Which damage is found
//
// An image has no checksums; gzip has one, over the whole. Without gzip a changed bit is
// found in the file header, in start, end and size, in the properties and lengths (at once,
// or at the next header, which is then misplaced), and in all fields of an area that is cut
// into runs. In offset, protection, flags, device, inode and name of other areas only values
// that are impossible are found, and in data nothing is.
//
// # Live processes
//
// The package also reads the memory of live processes from /proc, and saved texts of
// /proc/PID/smaps and /proc/PID/maps, and computes the size of a checkpoint of them.
//
//	p, err := source.ReadLive(ctx, pid, source.LiveOptions{}) // one process
//	ps, gone, err := source.Tree(ctx, pid, source.LiveOptions{}) // it and its descendants
//	p, err := source.ReadText("rank0.smaps", file)         // what somebody saved
//
// A Measure sets Area.Stored: DMTCP by default. The other fields come from the kernel:
//
//	Resident  Rss + Swap (+ huge pages, which Rss leaves out)
//	Dirty     Private_Dirty + Shared_Dirty + Swap (+ huge pages)
//	Occupied  private: Anonymous + Swap (+ huge pages); shared: as Resident
//	Runs      ranges of touched pages in anonymous memory, from pagemap
//
// zones.Rules set Class, Role and MPI.
//
// Processes run on untraced, and their contents are not read. A process
// that runs on may thus show its areas at slightly different moments; sizes of a
// steady program are exact to the page. Reading requires the right to trace the
// process: one's own, or root. The cost follows the memory in use, not the reserved
// address space.
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
	"math"
	"os"
	"path/filepath"

	"ckpt/zones"
)

// A Format is an additional format for a Reader.
type Format struct {
	Is   func(head []byte) bool // recognises a file by its beginning
	Read func(name string) ([]*zones.Process, error)
}

// A Reader reads processes from files and classifies their areas.
type Reader struct {
	Rules   *zones.Rules
	Measure Measure // for saved smaps texts
	More    []Format
	// Unpack reads what a file may hold packed, and reports whether it is; nil knows gzip
	// of texts only.
	Unpack func(io.Reader) (what io.ReadCloser, packed bool)
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
	if r.Unpack != nil && !IsImage(head) {
		if p, err = r.packed(ctx, name, f); p != nil || err != nil {
			return one(p, err)
		}
	}
	switch {
	case IsImage(head):
		p, err = ReadImage(ctx, name, f, fi.Size())
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

// packed reads a core or a text from a packed file. It returns nothing for a file
// that is not packed. A core is read in any order, so it is unpacked into a file without a
// name in the directory for temporary files, with holes for its zeros.
func (r *Reader) packed(ctx context.Context, name string, f *os.File) (*zones.Process, error) {
	x, packed := r.Unpack(io.NewSectionReader(f, 0, math.MaxInt64))
	defer x.Close()
	buf := bufio.NewReaderSize(x, headBytes)
	head, err := buf.Peek(headBytes)
	switch {
	case !packed:
		return nil, nil
	case err != nil && err != io.EOF && len(head) == 0:
		return nil, damagedPack(name, err)
	case looksLikeMaps(head):
		return r.Text(name, f)
	case !isCore(head):
		return nil, fmt.Errorf("%s %w", name, ErrUnknown)
	}
	tmp, err := os.CreateTemp("", "ckpt-unpacked-*")
	if err != nil {
		return nil, err
	}
	defer tmp.Close()
	if err := os.Remove(tmp.Name()); err != nil {
		return nil, err
	}
	size, err := unpackInto(tmp, buf)
	if err != nil {
		return nil, damagedPack(name, err)
	}
	p, err := readCore(ctx, name, tmp, size)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err == nil {
		p.FileBytes = fi.Size()
	}
	r.Rules.Classify(p)
	return p, nil
}

func damagedPack(name string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) { // of a disk
		return err
	}
	return &zones.FormatError{File: name, Reason: "the packed file is damaged: " + err.Error()}
}

// unpackInto writes all but blocks of zeros, and returns the length.
func unpackInto(f *os.File, from io.Reader) (size int64, err error) {
	b, zeros := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		// A cut file ends with io.ErrUnexpectedEOF, as io.ReadFull says of the last block.
		n, err := 0, error(nil)
		for n < len(b) && err == nil {
			var k int
			k, err = from.Read(b[n:])
			n += k
		}
		if !bytes.Equal(b[:n], zeros[:n]) {
			if _, err := f.WriteAt(b[:n], size); err != nil {
				return 0, err
			}
		}
		size += int64(n)
		if err == io.EOF {
			return size, f.Truncate(size)
		}
		if err != nil {
			return 0, err
		}
	}
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
	if r.Unpack != nil && !looksLikeMaps(head) {
		x, packed := r.Unpack(buf)
		defer x.Close()
		buf = bufio.NewReaderSize(x, headBytes)
		if head, err = buf.Peek(headBytes); packed && len(head) == 0 && err != io.EOF {
			return nil, damagedPack(name, err)
		}
	}
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !looksLikeMaps(head) {
		return nil, fmt.Errorf("%s %w", name, ErrUnknown)
	}
	p, err := ReadText(name, buf)
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
	dir, ok := CompanionDir(image)
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
