package images_test

import (
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// A fsxVerb is what a process does.
type fsxVerb int

const (
	fsxRead fsxVerb = iota
	fsxWrite
	fsxMapRead
	fsxMapWrite
	fsxTruncate
	fsxTruncatePath
	fsxAllocate
	fsxPunch
	fsxZero
	fsxAppend
	fsxSeek
	fsxStat
	fsxCopy
	fsxSync
	fsxClose
	fsxRename
	fsxRemove
)

var fsxNamesOfVerbs = [...]string{"read", "write", "read mapped", "write mapped", "truncate", "truncate by name", "allocate", "punch", "zero",
	"append", "seek data", "stat", "copy", "sync", "close", "rename", "remove"}

type fsxOp struct {
	Kind         fsxVerb
	Handle       int    // of the process; one that is new opens Name
	Name, Target string // Target of copies and renames
	Off, N       int64
	Seed         uint64 // of bytes to write
	Want         uint32 // checksum of bytes to read,
	Length       int64  // and their number
}

func (o fsxOp) String() string {
	return fmt.Sprintf("%s %d bytes at %d %s", fsxNamesOfVerbs[o.Kind], o.N, o.Off, o.Target)
}

type fsxReply struct {
	Errno syscall.Errno
	N     int64
	Same  bool
	Data  []byte // unless Same
}

const fsxNothing = syscall.ENXIO // seek: no data behind the offset

func (r fsxReply) check() error {
	if r.Errno != 0 {
		return r.Errno
	}
	return nil
}

func (r fsxReply) unlessUnsupported() error {
	if r.Errno == syscall.EOPNOTSUPP {
		return nil
	}
	return r.check()
}

// A fsxProcess is one that does operations in a mount.
type fsxProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	encode *gob.Encoder
	decode *gob.Decoder
	open   map[*fsxFile]int
	next   int
}

const fsxVariable = "CKPT_FSX_DIR"

func startFSX(dir string) (*fsxProcess, error) {
	p := &fsxProcess{cmd: exec.Command("/proc/self/exe"), open: make(map[*fsxFile]int)}
	p.cmd.Env = append(os.Environ(), fsxVariable+"="+dir)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	p.in, p.encode, p.decode = in, gob.NewEncoder(in), gob.NewDecoder(out)
	return p, errors.Join(err, err2, p.cmd.Start())
}

func (p *fsxProcess) end() {
	p.in.Close()
	_ = p.cmd.Wait()
}

func (p *fsxProcess) send(o fsxOp) error { return p.encode.Encode(o) }

func (p *fsxProcess) receive() (r fsxReply, err error) {
	err = p.decode.Decode(&r)
	return r, err
}

// handle returns the number of an open file.
func (p *fsxProcess) handle(f *fsxFile) int {
	n, ok := p.open[f]
	if !ok {
		p.next++
		n = p.next
		p.open[f] = n
	}
	return n
}

// without returns the open files that have no name any more, in the order of their opening.
func (p *fsxProcess) without(model map[string]*fsxFile) (list []*fsxFile) {
	named := make(map[*fsxFile]bool)
	for _, f := range model {
		named[f] = true
	}
	for f := range p.open {
		if !named[f] {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b *fsxFile) int { return p.open[a] - p.open[b] })
	return list
}

// close closes a file, if it is open, or nil: all.
func (p *fsxProcess) close(f *fsxFile) error {
	for o, n := range p.open {
		if f != nil && o != f {
			continue
		}
		delete(p.open, o)
		if err := p.send(fsxOp{Kind: fsxClose, Handle: n}); err != nil {
			return err
		}
		if r, err := p.receive(); err != nil || r.Errno != 0 {
			return errors.Join(err, r.check())
		}
	}
	return nil
}

// fsxFill makes bytes of a seed.
func fsxFill(b []byte, seed uint64) {
	for i := range b {
		if i%8 == 0 {
			seed = seed*6364136223846793005 + 1442695040888963407
		}
		b[i] = byte(seed >> (8 * (i % 8)))
	}
}

func fsxSum(b []byte) uint32 { return crc32.Checksum(b, fsxTable) }

var fsxTable = crc32.MakeTable(crc32.Castagnoli)

// serveFSX is the process, in a directory.
func serveFSX(dir string) {
	w := &fsxWorker{dir: dir, open: make(map[int]*os.File)}
	decode, encode := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var o fsxOp
		if decode.Decode(&o) != nil {
			return
		}
		r, err := w.do(o)
		if err != nil && !errors.As(err, &r.Errno) {
			fmt.Fprintln(os.Stderr, err)
			r.Errno = syscall.EIO
		}
		if encode.Encode(r) != nil {
			return
		}
	}
}

type fsxWorker struct {
	dir  string
	open map[int]*os.File
}

func (w *fsxWorker) path(name string) string { return filepath.Join(w.dir, name) }

func (w *fsxWorker) do(o fsxOp) (r fsxReply, err error) {
	switch o.Kind {
	case fsxClose:
		f := w.open[o.Handle]
		delete(w.open, o.Handle)
		return r, f.Close()
	case fsxRename:
		return r, os.Rename(w.path(o.Name), w.path(o.Target))
	case fsxRemove:
		return r, os.Remove(w.path(o.Name))
	case fsxTruncatePath:
		return r, os.Truncate(w.path(o.Name), o.Off)
	}
	f := w.open[o.Handle]
	if f == nil {
		if f, err = os.OpenFile(w.path(o.Name), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return r, err
		}
		w.open[o.Handle] = f
	}
	return w.use(f, o)
}

func (w *fsxWorker) use(f *os.File, o fsxOp) (r fsxReply, err error) {
	fd := int(f.Fd())
	if o.Kind == fsxMapRead || o.Kind == fsxMapWrite || o.Kind == fsxCopy {
		// Such programs ask for the size before, and the kernel learns it then.
		if fi, err := f.Stat(); err != nil || fi.Size() < o.Off+o.N {
			return r, errors.Join(err, syscall.ERANGE)
		}
	}
	switch o.Kind {
	case fsxRead:
		b := make([]byte, o.N)
		n, err := f.ReadAt(b, o.Off)
		if err == io.EOF {
			err = nil
		}
		// Others may make the file longer meanwhile: what is new is not compared.
		return compared(b[:min(int64(n), max(o.Length, 0))], o), err
	case fsxWrite:
		_, err = f.WriteAt(filled(o), o.Off)
	case fsxMapRead, fsxMapWrite:
		return mapped(fd, o)
	case fsxTruncate:
		err = f.Truncate(o.Off)
	case fsxAllocate:
		err = unix.Fallocate(fd, 0, o.Off, o.N)
	case fsxPunch:
		err = unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, o.Off, o.N)
	case fsxZero:
		err = unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, o.Off, o.N)
	case fsxAppend:
		var a *os.File
		if a, err = os.OpenFile(w.path(o.Name), os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, err = a.Write(filled(o))
			err = errors.Join(err, a.Close())
		}
	case fsxSeek:
		r.N, err = unix.Seek(fd, o.Off, unix.SEEK_DATA)
	case fsxStat:
		var st unix.Statx_t
		mask := unix.STATX_BASIC_STATS
		if o.Seed%2 == 0 {
			mask |= unix.STATX_BTIME // which the kernel asks the daemon for in another way
		}
		err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, mask, &st)
		r.N = int64(st.Size)
	case fsxCopy:
		err = w.copy(fd, o)
	case fsxSync:
		err = f.Sync()
	}
	return r, err
}

func filled(o fsxOp) []byte {
	b := make([]byte, o.N)
	fsxFill(b, o.Seed)
	return b
}

func compared(b []byte, o fsxOp) fsxReply {
	if int64(len(b)) == o.Length && fsxSum(b) == o.Want {
		return fsxReply{Same: true}
	}
	return fsxReply{Data: b}
}

// mapped reads or writes through a mapping of the pages of a range.
func mapped(fd int, o fsxOp) (r fsxReply, err error) {
	from := o.Off / 4096 * 4096
	m, err := unix.Mmap(fd, from, int(o.Off+o.N-from), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return r, err
	}
	b := m[o.Off-from:]
	if o.Kind == fsxMapRead {
		r = compared(b, o)
		r.Data = append([]byte(nil), r.Data...)
	} else {
		fsxFill(b, o.Seed)
		err = unix.Msync(m, unix.MS_SYNC)
	}
	return r, errors.Join(err, unix.Munmap(m))
}

func (w *fsxWorker) copy(fd int, o fsxOp) error {
	to, err := os.OpenFile(w.path(o.Target), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	in, out := o.Off, o.Off
	for left := int(o.N); left > 0 && err == nil; {
		var n int
		if n, err = unix.CopyFileRange(fd, &in, int(to.Fd()), &out, left, 0); n == 0 && err == nil {
			err = io.ErrUnexpectedEOF
		}
		left -= n
	}
	return errors.Join(err, to.Close())
}
