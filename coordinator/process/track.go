package process

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

const (
	// manyShare is the share of written pages above which a region is no longer tracked: the
	// first write to each page costs the program more than the copy that it saves.
	manyShare = 0.2
	// After that the region is tracked again after firstRest checkpoints, then after twice as
	// many, at most maxRest.
	firstRest, maxRest = 4, 64
)

// tracks are the regions whose written pages are known.
type tracks struct {
	scanner *scanner
	refused bool // by the kernel, for all regions
	tracked map[string]*track
}

// A mark tells which pages were written since a View or Capture, by region. A region is missing
// where that is not known.
type mark struct {
	number int64 // of the checkpoint
	since  map[string]bitset
}

// maxMarks bounds the marks that no commit has made needless yet.
const maxMarks = 80

// A track knows whether the written pages of a region are found.
type track struct {
	region
	on          bool   // the kernel notes the first write to each page
	known       bool   // they were found for the capture that began last
	first, end  uint64 // whole pages, by address
	rest, pause int    // captures until tracking begins again
}

func (t *track) pages() int { return int((t.end - t.first) / zones.PageSize) }

// wrote notes pages of a region that were written since the View or Capture before.
func (m *memory) wrote(name string, found bitset) {
	for _, k := range m.marks {
		if since, ok := k.since[name]; ok {
			since.or(found)
		}
	}
	for _, set := range m.sets {
		if s := set.shadows[name]; s != nil && s.since != nil {
			s.since.or(found)
		}
	}
}

// missed notes that pages of a region may have been written unseen.
func (m *memory) missed(name string) {
	for _, k := range m.marks {
		delete(k.since, name)
	}
	for _, set := range m.sets {
		if s := set.shadows[name]; s != nil {
			s.since = nil
		}
	}
}

// update brings what is known of written pages up to date, for all regions. The process waits in
// a call.
func (p *Process) update(list []region) error {
	ts := &p.memory.tracks
	if ts.tracked == nil {
		ts.tracked = map[string]*track{}
	}
	extents := pageExtents(list)
	seen := map[string]bool{}
	for i, r := range list {
		if !r.small() {
			seen[r.name] = true
			if t := ts.tracked[r.name]; t != nil && (t.address != r.address || t.size != r.size || t.first != extents[i].start || t.end != extents[i].end) {
				p.untrack(r.name)
			}
		}
	}
	for name := range ts.tracked {
		if !seen[name] {
			p.untrack(name)
		}
	}
	p.checkDevices()
	for i, r := range list {
		if ts.refused || !seen[r.name] || extents[i].end <= extents[i].start {
			continue
		}
		if err := p.updateOne(r, extents[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkDevices ends tracking, and children that copy, when something may write past the page
// tables.
func (p *Process) checkDevices() {
	device, err := bypass(p.hello.PID)
	if err == nil && device != "" {
		err = fmt.Errorf("%s may write to memory unseen", device)
	}
	if p.memory.device = err != nil; p.memory.device {
		p.refuseTracking("userfaultfd", err)
	}
}

func (p *Process) refuseTracking(call string, err error) {
	p.note(call, err)
	ts := &p.memory.tracks
	for name := range ts.tracked {
		p.untrack(name)
	}
	ts.refused = true
	if ts.scanner != nil {
		ts.scanner.close()
		ts.scanner = nil
	}
}

func (p *Process) untrack(name string) {
	ts := &p.memory.tracks
	if t := ts.tracked[name]; t != nil && t.on {
		ts.scanner.unregister(t.first, t.end)
	}
	delete(ts.tracked, name)
	p.memory.missed(name)
}

// updateOne looks for the written pages of a region, or begins to.
func (p *Process) updateOne(r region, pages extent) error {
	ts := &p.memory.tracks
	t := ts.tracked[r.name]
	if t == nil {
		t = &track{region: r, first: pages.start, end: pages.end, pause: firstRest}
		ts.tracked[r.name] = t
	}
	t.known = false
	if t.rest > 0 {
		t.rest--
		p.memory.missed(r.name)
		return nil
	}
	if !t.on {
		return p.beginTrack(t)
	}
	found := newBitset(t.pages())
	err := ts.scanner.written(t.first, t.end, found)
	if err != nil {
		// the program has mapped something else there
		ts.scanner.unregister(t.first, t.end)
		t.on = false
		return p.beginTrack(t)
	}
	t.known = true
	p.memory.wrote(r.name, found)
	if float64(found.count()) > manyShare*float64(t.pages()) {
		ts.scanner.unregister(t.first, t.end)
		t.on, t.rest = false, t.pause
		t.pause = min(2*t.pause, maxRest)
	}
	return nil
}

// beginTrack write-protects a region. Until the next capture all its pages count as written.
func (p *Process) beginTrack(t *track) error {
	p.memory.missed(t.name)
	ts := &p.memory.tracks
	if ts.scanner == nil {
		if err := p.openScanner(); err != nil {
			return err
		}
		if ts.scanner == nil {
			return nil
		}
	}
	list, err := p.areas()
	if err != nil {
		p.refuseTracking("/proc/PID/maps", err)
		return nil
	}
	if !private(list, t.first, t.end) {
		t.rest = maxRest
		return nil
	}
	if err := ts.scanner.register(t.first, t.end); err != nil {
		p.note("UFFDIO_REGISTER", fmt.Errorf("region %q: %w", t.name, err))
		t.rest = maxRest
		return nil
	}
	if err := ts.scanner.written(t.first, t.end, newBitset(t.pages())); err != nil {
		p.refuseTracking("PAGEMAP_SCAN", err)
		return nil
	}
	t.on, t.known = true, true
	return nil
}

func (p *Process) openScanner() error {
	r, err := p.order(message{kind: kindTrack}, kindTracked)
	if err != nil {
		return err
	}
	if r.errno == 0 && len(r.files) != 2 {
		closeAll(r.files)
		return errors.New("the process sent no files to track its memory")
	}
	if r.errno != 0 {
		closeAll(r.files)
		p.refuseTracking("userfaultfd", r.errno)
		return nil
	}
	s, err := newScanner(r.files[0], r.files[1])
	if err != nil {
		closeAll(r.files)
		p.refuseTracking("userfaultfd", err)
		return nil
	}
	p.memory.tracks.scanner = s
	return nil
}

type extent struct{ start, end uint64 }

// pageExtents returns for each region the pages that are tracked: all that it touches, or, where
// another region touches one of them too, only the pages that it fills. Regions that overlap have
// no such pages.
func pageExtents(list []region) []extent {
	var order []int
	for i := range list {
		if list[i].size > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(list[a].address, list[b].address) })
	out := make([]extent, len(list))
	reach := uint64(0) // the end of all regions before
	for k, i := range order {
		r := &list[i]
		end := r.address + uint64(r.size)
		e := extent{r.address &^ (zones.PageSize - 1), uint64(zones.PageRound(int64(end)))}
		if reach > e.start {
			e.start = uint64(zones.PageRound(int64(r.address)))
		}
		next := ^uint64(0)
		if k+1 < len(order) {
			next = list[order[k+1]].address
		}
		if next < e.end {
			e.end = end &^ (zones.PageSize - 1)
		}
		if reach > r.address || next < end {
			e = extent{}
		}
		out[i] = e
		reach = max(reach, end)
	}
	return out
}

// errGone reports whether the kernel does not offer a call.
func errGone(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
}

// A bitset has a bit for each page of a region.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) setRange(from, to int) {
	for i := from; i < to; {
		if i%64 == 0 && to-i >= 64 {
			b[i/64] = ^uint64(0)
			i += 64
			continue
		}
		b[i/64] |= 1 << (i % 64)
		i++
	}
}

func (b bitset) anyIn(from, to int) bool {
	i := b.next(from)
	return i >= 0 && i < to
}

func (b bitset) next(i int) int {
	for w := i / 64; w < len(b); w++ {
		word := b[w]
		if w == i/64 {
			word &= ^uint64(0) << (i % 64)
		}
		if word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

func (b bitset) runs(n int, f func(from, to int)) {
	for i := b.next(0); i >= 0 && i < n; {
		end := i
		for end < n && b[end/64]&(1<<(end%64)) != 0 {
			if end%64 == 0 && b[end/64] == ^uint64(0) {
				end += 64
				continue
			}
			end++
		}
		end = min(end, n)
		f(i, end)
		if end >= n {
			return
		}
		i = b.next(end)
	}
}

func (b bitset) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

func (b bitset) or(other bitset) {
	for i, w := range other {
		b[i] |= w
	}
}
