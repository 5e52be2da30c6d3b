package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// memory is what an agent has of the memory of its process.
type memory struct {
	view   []mapping // of the last Regions, by address in the agent
	window *window   // for Put, and for Fetch when the pool has no slot
	pool   pool      // for Fetch
	lastID uint32    // of a window

	choices map[string]*choice // by region; "" is for all small ones
	refused bool               // the kernel does not let us read the process's memory
	asked   bool               // the process was asked to allow it

	areas  []zones.Area // of the process, since it began to wait; nil: not read yet
	sets   []*shadows
	forks  forks
	marks  []mark // of Views and Captures, oldest first
	tracks tracks
	device bool // something may write to memory past the page tables
}

// A mapping is the place that a region has in the agent.
type mapping struct {
	region
	mem []byte
}

func (m *mapping) start() uintptr {
	if len(m.mem) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(m.mem)))
}

// windowBytes is the size of the window for Fetch and Put: large enough that an order costs
// little, small enough for the caches and for many ranks on a node.
const windowBytes = 4 << 20

// Regions returns the regions that the program protects now. Their Mem is a reserved place in the
// agent without memory of its own: [Process.Fetch] fills parts of it, [Process.Release] gives the
// memory back, and [Process.Put] copies parts into the process. The slices are valid until the
// next Regions, View, Capture or Close.
func (p *Process) Regions() ([]zones.Region, error) {
	p.orders.Lock()
	defer p.orders.Unlock()
	return p.memory.reserve(p.protected())
}

func (p *Process) protected() []region {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.table.regions)
}

// reserve makes the mappings of a list of regions, in its order. Mappings of the same name and
// size stay.
func (m *memory) reserve(list []region) ([]zones.Region, error) {
	m.pool.dropAll()
	old := map[string][]byte{}
	for _, v := range m.view {
		old[v.name] = v.mem
	}
	view := make([]mapping, len(list))
	var failed error
	for i, r := range list {
		bytes := zones.PageRound(r.size)
		mem, kept := old[r.name]
		if kept && int64(len(mem)) == bytes {
			delete(old, r.name)
		} else if mem, failed = reserved(bytes); failed != nil {
			failed = fmt.Errorf("region %q: %w", r.name, failed)
			break
		}
		view[i] = mapping{region: r, mem: mem}
	}
	for _, mem := range old {
		unmap(mem)
	}
	m.view = slices.Clone(view)
	if failed != nil {
		m.forget()
		return nil, failed
	}
	slices.SortFunc(m.view, func(a, b mapping) int { return cmp.Compare(a.start(), b.start()) })
	regions := make([]zones.Region, len(view))
	for i, v := range view {
		regions[i] = v.zone()
		regions[i].Mem = v.mem
	}
	return regions, nil
}

func reserved(bytes int64) ([]byte, error) {
	if bytes == 0 {
		return []byte{}, nil
	}
	mem, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", bytes, err)
	}
	return mem, nil
}

func unmap(mem []byte) {
	if len(mem) > 0 {
		_ = unix.Munmap(mem)
	}
}

func (m *memory) forget() {
	m.pool.dropAll()
	for _, v := range m.view {
		unmap(v.mem)
	}
	m.view = nil
}

func (m *memory) close() {
	m.forget()
	m.pool.close()
	if m.window != nil {
		m.window.close()
		m.window = nil
	}
	for _, set := range m.sets {
		m.forks.drop(set)
		if set.small != nil {
			set.small.close()
		}
		for _, s := range set.shadows {
			s.window.close()
		}
	}
	m.sets = nil
	if m.tracks.scanner != nil {
		m.tracks.scanner.close()
		m.tracks.scanner = nil
	}
}

// locate finds the region, and the offset in it, of memory that Regions returned. The part past
// the end of the region is cut off.
func (m *memory) locate(mem []byte) (*mapping, int64, []byte, error) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	i, found := slices.BinarySearchFunc(m.view, at, func(v mapping, at uintptr) int { return cmp.Compare(v.start(), at) })
	if !found {
		i--
	}
	if i < 0 || at-m.view[i].start() > uintptr(len(m.view[i].mem)) || len(mem) > len(m.view[i].mem)-int(at-m.view[i].start()) {
		return nil, 0, nil, errors.New("memory of no region")
	}
	v := &m.view[i]
	offset := int64(at - v.start())
	return v, offset, mem[:max(0, min(int64(len(mem)), v.size-offset))], nil
}

// Fetch fills a part of a region's Mem with the memory of the process.
func (p *Process) Fetch(mem []byte) error { return p.transfer("fetch", kindOut, mem) }

// Put copies a part of a region's Mem into the process.
func (p *Process) Put(mem []byte) error { return p.transfer("put", kindIn, mem) }

// Release gives the memory of a part of a region's Mem back. It holds zeros afterwards, until the
// next Fetch.
func (p *Process) Release(mem []byte) {
	if len(mem) == 0 {
		return
	}
	_ = unix.Madvise(mem, unix.MADV_DONTNEED) // of slots it only drops their entries
	p.memory.pool.release(mem)
}

func (p *Process) transfer(what string, kind uint32, mem []byte) error {
	if len(mem) == 0 {
		return nil
	}
	p.orders.Lock()
	defer p.orders.Unlock()
	v, offset, part, err := p.memory.locate(mem)
	if err == nil && kind == kindOut {
		var done int
		done, err = p.fetchPooled(v, offset, part)
		part, offset = part[done:], offset+int64(done)
	}
	if err == nil {
		err = p.transferParts(kind, &v.region, offset, part)
	}
	if err != nil {
		return fmt.Errorf("%s %d bytes: %w", what, len(mem), err)
	}
	return nil
}

// transferParts moves memory, piece by piece, by the way that is faster for the region.
func (p *Process) transferParts(kind uint32, r *region, offset int64, mem []byte) error {
	choice := p.memory.choice(r)
	for len(mem) > 0 {
		w, n := p.next(choice, min(int64(len(mem)), windowBytes))
		ranges := []copyRange{{r.address + uint64(offset), 0, uint64(n)}}
		err := p.move(choice, w, n, func(w way) error {
			if w == byKernel {
				return p.direct(kind, r, mem[:n], ranges)
			}
			return p.throughWindow(kind, r, mem[:n], ranges)
		})
		if err != nil {
			return err
		}
		mem, offset = mem[n:], offset+n
	}
	return nil
}

// throughWindow moves memory with the client's help: the client copies between the region and a
// window, the agent between the window and mem.
func (p *Process) throughWindow(kind uint32, r *region, mem []byte, ranges []copyRange) error {
	if p.memory.window == nil {
		w, err := p.newWindow(windowBytes)
		if err != nil {
			return err
		}
		p.memory.window = w
	}
	w := p.memory.window
	if kind == kindIn {
		copy(w.mem, mem)
	}
	if err := p.copyAll(kind, w, r, ranges); err != nil {
		return err
	}
	if kind == kindOut {
		copy(mem, w.mem)
	}
	return nil
}

// A Capture is the memory of a process at the time of a call.
type Capture struct {
	Regions []zones.Region

	clean   map[int64]map[string]cleanPages // by number of an earlier View or Capture
	ready   func(context.Context) error
	release func()
}

// Ready returns when Regions hold the memory. It may be called from any goroutine, at any later
// time before Release.
func (c *Capture) Ready(ctx context.Context) error {
	if c.ready == nil {
		return nil
	}
	return c.ready(ctx)
}

// Release says that the regions are not read any more.
func (c *Capture) Release() {
	if c.release != nil {
		c.release()
	}
}

type cleanPages struct {
	region
	first, end uint64
	dirty      bitset
}

// Knows reports whether Clean can compare with a checkpoint.
func (c *Capture) Knows(base int64) bool { return c.clean[base] != nil }

// Clean reports whether n bytes at an offset of a region are known to be as they were in the View
// or Capture of checkpoint base. It may be called from any goroutine, at any later time.
func (c *Capture) Clean(base int64, name string, offset, n int64) bool {
	pages, ok := c.clean[base][name]
	if !ok || offset < 0 || offset > pages.size {
		return false
	}
	n = min(n, pages.size-offset) // the rest of the last page is zero in all checkpoints
	if n <= 0 {
		return n == 0
	}
	start := pages.address + uint64(offset)
	end := start + uint64(n)
	if start < pages.first || end > pages.end {
		return false
	}
	from, to := (start-pages.first)/zones.PageSize, (end-pages.first+zones.PageSize-1)/zones.PageSize
	return !pages.dirty.anyIn(int(from), int(to))
}

// View returns the regions like [Process.Regions], for checkpoint number, which is written while
// the process waits. Its Clean knows the pages that were not written since earlier ones. Those
// before base are not asked for any more.
func (p *Process) View(ctx context.Context, number, base int64) (Capture, error) {
	p.orders.Lock()
	defer p.orders.Unlock()
	list := p.protected()
	regions, err := p.memory.reserve(list)
	if err != nil {
		return Capture{}, err
	}
	if err := p.begin(ctx, list); err != nil {
		return Capture{}, err
	}
	return p.taken(number, base, regions, list), nil
}

// Capture copies the regions into memory of the agent, so that they can be written behind the
// computation. It copies the pages that changed since that memory was filled last, or leaves that
// to a child of the process, which has the memory as it is now. The regions are valid from Ready
// until Release or Close; number and base are as for View.
func (p *Process) Capture(ctx context.Context, number, base int64) (Capture, error) {
	p.orders.Lock()
	defer p.orders.Unlock()
	list := p.protected()
	if err := p.begin(ctx, list); err != nil {
		return Capture{}, err
	}
	set := p.memory.freeSet()
	regions, err := p.copyRegions(ctx, set, list)
	if err != nil {
		return Capture{}, err
	}
	set.busy = true
	c := p.taken(number, base, regions, list)
	c.ready = func(ctx context.Context) error { return p.copied(ctx, set) }
	c.release = func() {
		p.orders.Lock()
		defer p.orders.Unlock()
		p.memory.forks.drop(set)
		set.busy = false
	}
	return c, nil
}

// begin finds the pages that were written since the last View or Capture. It refuses memory that
// is gone, which would count as unchanged.
func (p *Process) begin(ctx context.Context, list []region) error {
	p.memory.areas = nil
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.checkWaiting(); err != nil {
		return err
	}
	for _, r := range list {
		if err := p.checkMapped(r); err != nil {
			return err
		}
	}
	return p.update(list)
}

// taken returns a capture, which keeps its own lists of clean pages, and begins a mark.
func (p *Process) taken(number, base int64, regions []zones.Region, list []region) Capture {
	m := &p.memory
	m.marks = slices.DeleteFunc(m.marks, func(k mark) bool { return k.number < base || k.number >= number })
	if n := len(m.marks) - maxMarks; n > 0 {
		m.marks = m.marks[n:]
	}
	c := Capture{Regions: regions, clean: map[int64]map[string]cleanPages{}}
	next := mark{number, map[string]bitset{}}
	for _, k := range m.marks {
		c.clean[k.number] = map[string]cleanPages{}
	}
	for _, r := range list {
		t := m.tracks.tracked[r.name]
		if t == nil || !t.known {
			continue
		}
		for _, k := range m.marks {
			if since, ok := k.since[r.name]; ok {
				c.clean[k.number][r.name] = cleanPages{r, t.first, t.end, slices.Clone(since)}
			}
		}
		if t.on {
			next.since[r.name] = newBitset(t.pages())
		}
	}
	m.marks = append(m.marks, next)
	return c
}
