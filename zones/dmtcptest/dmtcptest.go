// Package dmtcptest writes checkpoint images as DMTCP does, for tests and
// benchmarks of what reads them.
//
// An Image is put together of areas and written to a file, a pipe or memory;
// nothing of it but a buffer is held, so that it may be large:
//
//	im := &dmtcptest.Image{Name: "bt.A.4", Areas: []dmtcptest.Area{
//		dmtcptest.Anonymous(0x1000000, "[heap]", dmtcptest.Noise(1),
//			dmtcptest.Touched(33), dmtcptest.Untouched(7)),
//		dmtcptest.File(0x7f0000000000, "/usr/lib/libc.so.6", 5000, dmtcptest.Noise(2)),
//		dmtcptest.Stack(0x7fff00000000, 8<<20, 1<<20, dmtcptest.Noise(3), []string{"PMI_RANK=3"}),
//	}}
//	_, err := im.WriteTo(w)
//
// Job makes the images of all processes of an MPI job, and WriteDir of its
// checkpoint the directory that DMTCP leaves behind.
//
// The package is written from the layout alone and shares no code with the reader, so
// that each can find errors of the other. The same values and seeds make the same
// bytes. Tests make damaged images by changing the bytes at Headers.
//
// # Programs that answer like those of DMTCP
//
// On machines without DMTCP, a test binary serves as all of its programs:
//
//	func TestMain(m *testing.M) { dmtcptest.Serve(); os.Exit(m.Run()) }
//
// Install puts them into a directory for $PATH. The program that they run counts:
//
//	count STEPS PAUSE    print the numbers from 1 to STEPS, with pauses between
//
// as an MPI job of Ranks ranks and its two launchers, in one process. $FAKE_DMTCP names a
// file with the faults to show, one in a line, so that a test can change them:
//
//	old-version, missing-image, temp-left, short-image, wait-checkpoint, hang-checkpoint, hang-after,
//	hang-restart, fail-restart, fail-launch, exit with STATUS, and
//	exit at STEP with STATUS
//
// A fault with the word once before it is shown once. While there is a file of the same name
// with Hold behind it, the program does not count: it cannot end before a test has done
// what it does to it.
package dmtcptest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// block is the size of the file header, of an area header and of a page.
const block = 4096

// An ID names a process or a computation.
type ID struct {
	Host, Time uint64
	PID        int32
	Generation uint32
}

// String writes it as it is in names of files.
func (id ID) String() string { return fmt.Sprintf("%x-%d-%x", id.Host, id.PID, id.Time) }

// An Image is the checkpoint of one process.
type Image struct {
	Name  string // of the program
	Exe   string
	ID    ID
	PPID  ID // zero if the process is the root of its tree
	Group ID
	Peers int
	Areas []Area // in order of their addresses

	// Seed chooses the left-overs of memory that DMTCP writes where a field or
	// a name is shorter than its place.
	Seed uint64
	Gzip bool
}

// FileName returns the name that DMTCP gives to the image.
func (im *Image) FileName() string { return im.stem() + ".dmtcp" }

func (im *Image) stem() string { return "ckpt_" + im.Name + "_" + im.ID.String() }

// Size returns the length of the image before compression.
func (im *Image) Size() int64 {
	n := int64(3 * block)
	for i := range im.Areas {
		n += im.Areas[i].stored()
	}
	return n
}

// Headers returns the offsets of the headers of areas and runs, and of the end
// marker, in the image before compression.
func (im *Image) Headers() []int64 {
	var at []int64
	pos := int64(2 * block)
	for i := range im.Areas {
		a := &im.Areas[i]
		at = append(at, pos)
		pos += block
		for _, r := range a.Runs {
			at = append(at, pos)
			pos += block + r.stored()
		}
		pos += a.flat()
	}
	return append(at, pos)
}

// Bytes returns the image. It fits only into memory if it is small.
func (im *Image) Bytes() []byte {
	var b bytes.Buffer
	if !im.Gzip {
		b.Grow(int(im.Size()))
	}
	if _, err := im.WriteTo(&b); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// WriteTo writes the image and returns how many bytes it wrote.
func (im *Image) WriteTo(w io.Writer) (int64, error) {
	count := &counter{w: w}
	if !im.Gzip {
		err := im.write(count)
		return count.n, err
	}
	z, err := gzip.NewWriterLevel(count, gzip.BestSpeed)
	if err != nil {
		return 0, err
	}
	if err := im.write(z); err != nil {
		return count.n, err
	}
	err = z.Close()
	return count.n, err
}

func (im *Image) write(w io.Writer) error {
	out := &writer{w: w, rubbish: rng(im.Seed), buf: make([]byte, 64<<10)}
	header := im.header()
	out.put(header)
	out.put(header)
	for i := range im.Areas {
		out.area(&im.Areas[i])
	}
	out.marker()
	return out.err
}

// header returns one copy of the file header. DMTCP clears it before use.
func (im *Image) header() []byte {
	b := make([]byte, block)
	le := binary.LittleEndian
	copy(b, "DMTCP_CHECKPOINT_IMAGE_v4.0\n")
	for i, id := range []ID{im.ID, im.PPID, im.Group} {
		at := 32 + 24*i
		le.PutUint64(b[at:], id.Host)
		le.PutUint64(b[at+8:], id.Time)
		le.PutUint32(b[at+16:], uint32(id.PID))
		le.PutUint32(b[at+20:], id.Generation)
	}
	for i, pid := range []int32{im.ID.PID, im.PPID.PID, im.Group.PID, im.Group.PID, im.Group.PID} {
		le.PutUint32(b[104+4*i:], uint32(pid))
	}
	if im.PPID == (ID{}) {
		b[124] = 1
	}
	le.PutUint32(b[128:], uint32(im.Peers))
	b[132] = 1 // 64 bit
	for i, v := range []uint64{
		0xa00, 0xde0, 0xb10, 0xdb0, // functions in the vdso
		0x7f7000000000, 0x7f7000000000 + 90<<20, // restart buffer
		0x7ffff7fc1000, 0x7ffff7fc3000, // vdso
		0x7ffff7fbd000, 0x7ffff7fc1000, // vvar
		0, 0, // vvar_vclock
		0x1a5e000,      // brk
		0x7ffffffff000, // end of the stack
		0x7ffff7e01230, // restart entry
	} {
		le.PutUint64(b[136+8*i:], v)
	}
	copy(b[256:1279], im.Name)
	copy(b[1280:2303], im.Exe)
	return b
}

// A writer writes the parts of an image. Its header is the one that DMTCP fills
// in over and over again.
type writer struct {
	w       io.Writer
	rubbish rng
	header  [block]byte
	buf     []byte
	err     error
}

func (out *writer) put(b []byte) {
	if out.err == nil {
		_, out.err = out.w.Write(b)
	}
}

func (out *writer) area(a *Area) {
	out.stale()
	le := binary.LittleEndian
	h := out.header[:]
	for i, v := range []uint64{
		a.Start, a.End, a.End - a.Start, a.Offset, uint64(a.Prot), uint64(a.Flags),
		a.Device >> 32, a.Device & math.MaxUint32, a.Inode, uint64(a.FileSize), a.properties(),
	} {
		le.PutUint64(h[8*i:], v)
	}
	h[88+copy(h[88:88+1023], a.Name)] = 0
	out.put(h)
	at := a.Start
	for _, r := range a.Runs {
		size := uint64(r.Pages) * block
		le.PutUint64(h[0:], at)
		le.PutUint64(h[8:], at+size)
		le.PutUint64(h[16:], size)
		le.PutUint64(h[80:], r.properties())
		out.put(h)
		out.data(a, int64(at-a.Start), r.stored())
		at += size
	}
	out.data(a, 0, a.flat())
}

// marker writes the end marker: of a stale header, two fields are set.
func (out *writer) marker() {
	binary.LittleEndian.PutUint64(out.header[0:], 0)
	binary.LittleEndian.PutUint64(out.header[16:], math.MaxUint64)
	out.put(out.header[:])
}

// stale leaves traces in the header that are not there to be read.
func (out *writer) stale() {
	for i := 88; i < block; i += 8 {
		binary.LittleEndian.PutUint64(out.header[i:], out.rubbish.next())
	}
}

func (out *writer) data(a *Area, off, n int64) {
	for n > 0 && out.err == nil {
		b := out.buf[:min(n, int64(len(out.buf)))]
		clear(b)
		if a.Data != nil {
			a.Data(b, off)
		}
		out.put(b)
		off += int64(len(b))
		n -= int64(len(b))
	}
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
