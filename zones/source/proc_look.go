package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// facts are properties of an area in a live process beyond its fields.
type facts struct {
	layout   *layout // nil if unknown
	fileSize int64   // of the file behind it, or -1 if unknown
	missing  bool    // the file is gone, although the kernel does not mark it
}

// look finds the facts of all areas and sets their Runs.
func look(ctx context.Context, dir string, areas []zones.Area, measure Measure) ([]facts, error) {
	found := make([]facts, len(areas))
	pages, err := openPagemap(dir)
	if err == nil {
		defer pages.Close()
	}
	files := make(map[string]facts)
	for i := range areas {
		a, f := &areas[i], &found[i]
		f.fileSize = -1
		switch {
		case err == nil && worthScanning(a):
			t := newTracer(a.Start, a.End)
			if err := pages.each(ctx, a.Start, a.End, t.add); ctx.Err() != nil {
				return nil, ctx.Err()
			} else if err == nil {
				l := t.done()
				f.layout, a.Runs = &l, l.runs
			}
		case measure == DMTCP && inFile(a):
			known, ok := files[a.Name]
			if !ok {
				known = stat(dir, a)
				files[a.Name] = known
			}
			f.fileSize, f.missing = known.fileSize, known.missing
		}
	}
	return found, nil
}

// worthScanning reports whether to look up the pages of an area: memory without a file,
// of this process alone, that is partly in use. Go, Java and sanitizers reserve terabytes that
// they never touch, some of it readable.
//
// A page that was only read is the page of zeros. The kernel counts it in pagemap, but
// not in smaps. So an area of such pages is skipped here and counts as empty.
func worthScanning(a *zones.Area) bool {
	return (ownShared(a) || !a.Shared && absentIsZero(a.Name)) && a.Prot != 0 && a.Resident > 0
}

// stat looks at the file of an area as the process sees it: in the root of the
// process, or by the address of the mapping if the root is out of reach.
func stat(dir string, a *zones.Area) facts {
	name := strings.ReplaceAll(a.Name, `\012`, "\n") // as the kernel writes it
	info, err := os.Stat(dir + "/root" + name)
	if err == nil {
		return facts{fileSize: info.Size()}
	}
	mapping := filepath.Join(dir, "map_files", fmt.Sprintf("%x-%x", a.Start, a.End))
	if info, err := os.Stat(mapping); err == nil {
		return facts{fileSize: info.Size()}
	}
	return facts{fileSize: -1, missing: errors.Is(err, fs.ErrNotExist)}
}

// A pagemap tells which pages of a process are in memory or swap
// (Documentation/admin-guide/mm/pagemap.rst of the kernel).
type pagemap struct {
	f *os.File
	// scan is set if the kernel lists ranges itself (ioctl PAGEMAP_SCAN, since Linux
	// 6.7), skipping memory without page tables. Otherwise eight bytes must be read
	// for each page of the address space.
	scan    bool
	regions []pageRegion
	entries []byte
}

func openPagemap(dir string) (*pagemap, error) {
	f, err := os.Open(filepath.Join(dir, "pagemap"))
	if err != nil {
		return nil, err
	}
	return &pagemap{f: f, scan: true}, nil
}

func (m *pagemap) Close() error { return m.f.Close() }

// maxRead bounds the area that is read page by page: 64 GiB need 128 MiB of entries,
// about a second.
const maxRead = 64 << 30

var errTooLarge = errors.New("too large to be read page by page")

// each calls yield with the ranges of touched pages between two addresses, in order.
// Ranges may be adjacent.
func (m *pagemap) each(ctx context.Context, start, end uint64, yield func(from, to uint64)) error {
	if m.scan {
		err := m.list(ctx, start, end, yield)
		if !errors.Is(err, errNoScan) {
			return err
		}
		m.scan = false
	}
	if end-start > maxRead {
		return errTooLarge
	}
	return m.read(ctx, start, end, yield)
}

// The bits of an entry of pagemap.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
)

func (m *pagemap) read(ctx context.Context, start, end uint64, yield func(from, to uint64)) error {
	const chunk = 64 << 10
	if m.entries == nil {
		m.entries = make([]byte, chunk)
	}
	page := uint64(os.Getpagesize())
	var from, to uint64 // the range so far
	for at := start; at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := m.entries[:min(chunk, (end-at)/page*8)]
		if n, err := m.f.ReadAt(b, int64(at/page*8)); err != nil && (err != io.EOF || n < len(b)) {
			return err
		}
		for ; len(b) > 0; b, at = b[8:], at+page {
			if binary.NativeEndian.Uint64(b)&(pagePresent|pageSwapped) == 0 {
				continue
			}
			if at != to {
				if to > from {
					yield(from, to)
				}
				from = at
			}
			to = at + page
		}
	}
	if to > from {
		yield(from, to)
	}
	return nil
}

// The ioctl PAGEMAP_SCAN of the kernel's include/uapi/linux/fs.h.
type (
	pageScan struct {
		size, flags        uint64
		start, end         uint64
		walkEnd            uint64 // where the kernel stopped
		vec, vecLen        uint64
		maxPages           uint64
		inverted, all, any uint64 // categories to select
		report             uint64 // categories to report
	}
	pageRegion struct{ start, end, categories uint64 }
)

const (
	pagemapScan = 3<<30 | unsafe.Sizeof(pageScan{})<<16 | 'f'<<8 | 16 // _IOWR('f', 16, struct pm_scan_arg)

	categoryPresent = 1 << 3
	categorySwapped = 1 << 4
)

var errNoScan = errors.New("the kernel has no PAGEMAP_SCAN")

func (m *pagemap) list(ctx context.Context, start, end uint64, yield func(from, to uint64)) error {
	if m.regions == nil {
		m.regions = make([]pageRegion, 1024)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&m.regions[0])
	arg := pageScan{
		size: uint64(unsafe.Sizeof(pageScan{})), start: start, end: end,
		vec: uint64(uintptr(unsafe.Pointer(&m.regions[0]))), vecLen: uint64(len(m.regions)),
		any: categoryPresent | categorySwapped, report: categoryPresent | categorySwapped,
	}
	for arg.start < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, m.f.Fd(), pagemapScan, uintptr(unsafe.Pointer(&arg)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.ENOTTY || errno == unix.EINVAL || errno == unix.ENOSYS:
			return errNoScan // before the first range: the kernel refuses the call itself
		case errno != 0:
			return errno
		}
		for _, r := range m.regions[:n] {
			yield(r.start, r.end)
		}
		if arg.walkEnd <= arg.start {
			return io.ErrNoProgress
		}
		arg.start = arg.walkEnd
	}
	return nil
}
