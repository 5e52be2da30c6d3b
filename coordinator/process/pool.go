package process

import (
	"cmp"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A pool is memory that the client can write and that Fetch maps at the place of the memory it
// fetches, in slots. A piece is copied once, into pages that are there already: a private place
// would cost a second copy, and a fault for each page.
type pool struct {
	mu     sync.Mutex
	window *window
	file   *os.File
	slots  int
	free   []int
	pieces map[uintptr]*piece // by their address in the agent
}

// A piece is slotBytes of a region's Mem, or its last part.
type piece struct {
	slot int
	mem  []byte
	held int // bytes fetched and not released
}

const (
	slotBytes = 256 << 10
	// poolSlots is the greatest number of slots. A write holds at most 32 MiB, in pieces that may
	// not begin where a slot does.
	poolSlots = 160
)

// openPool makes the pool, as large as the regions need. The caller holds p.orders.
func (p *Process) openPool() error {
	want := 0
	for _, v := range p.memory.view {
		want = min(want+(len(v.mem)+slotBytes-1)/slotBytes, poolSlots)
	}
	pl := &p.memory.pool
	if pl.window != nil {
		if want <= pl.slots || !pl.idle() {
			return nil
		}
		_ = p.instruct(message{kind: kindUnmap, value: pl.window.id}, nil)
		pl.close()
	}
	w, file, err := p.newSharedWindow(int64(want) * slotBytes)
	if err != nil {
		return err
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.window, pl.file, pl.slots, pl.free, pl.pieces = w, file, want, nil, map[uintptr]*piece{}
	for i := range want {
		pl.free = append(pl.free, want-1-i)
	}
	return nil
}

func (pl *pool) idle() bool {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return len(pl.free) == pl.slots
}

// fetchPooled fetches from the start of mem as much as the pool has slots for, and returns how
// much that was. The caller holds p.orders.
func (p *Process) fetchPooled(v *mapping, offset int64, mem []byte) (int, error) {
	if err := p.openPool(); err != nil {
		return 0, err
	}
	var ranges []copyRange
	done := 0
	for done < len(mem) {
		at := offset + int64(done)
		start := at &^ (slotBytes - 1)
		n := min(len(mem)-done, int(start+slotBytes-at))
		slot, ok := p.memory.pool.take(v.mem[start:min(start+slotBytes, int64(len(v.mem)))], n)
		if !ok {
			break
		}
		to := int64(slot)*slotBytes + at - start
		ranges = append(ranges, copyRange{v.address + uint64(at), uint64(to), uint64(n)})
		if end := at + int64(n); end == v.size { // the rest of the page is zero
			clear(p.memory.pool.window.mem[to+int64(n) : to+int64(n)+int64(len(v.mem))-end])
		}
		done += n
	}
	return done, p.copyRanges(p.memory.pool.window, v.region, joined(ranges))
}

// joined joins ranges that continue each other on both sides.
func joined(ranges []copyRange) (out []copyRange) {
	for _, r := range ranges {
		if k := len(out) - 1; k >= 0 && out[k].address+out[k].bytes == r.address && out[k].offset+out[k].bytes == r.offset {
			out[k].bytes += r.bytes
			continue
		}
		out = append(out, r)
	}
	return out
}

// take maps a slot at a piece, unless it has one, and counts n bytes of it as held.
func (pl *pool) take(mem []byte, n int) (slot int, ok bool) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	if pc := pl.pieces[at]; pc != nil {
		pc.held += n
		return pc.slot, true
	}
	if len(pl.free) == 0 {
		return 0, false
	}
	slot = pl.free[len(pl.free)-1]
	_, err := unix.MmapPtr(int(pl.file.Fd()), int64(slot)*slotBytes, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return 0, false
	}
	pl.free = pl.free[:len(pl.free)-1]
	pl.pieces[at] = &piece{slot: slot, mem: mem, held: n}
	return slot, true
}

// release counts bytes as held no more. A piece without held bytes gets its own memory back, as
// zeros.
func (pl *pool) release(mem []byte) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	start := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	end := start + uintptr(len(mem))
	for at, pc := range pl.overlapping(start, end) {
		pc.held -= int(min(end, at+uintptr(len(pc.mem))) - max(start, at))
		if pc.held <= 0 {
			pl.drop(at, pc)
		}
	}
}

// overlapping yields the pieces with memory in [start, end).
func (pl *pool) overlapping(start, end uintptr) map[uintptr]*piece {
	found := map[uintptr]*piece{}
	for at, pc := range pl.pieces {
		if at < end && start < at+uintptr(len(pc.mem)) {
			found[at] = pc
		}
	}
	return found
}

func (pl *pool) drop(at uintptr, pc *piece) {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(pc.mem)), uintptr(len(pc.mem)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if err != nil {
		return // the slot stays with it
	}
	delete(pl.pieces, at)
	pl.free = append(pl.free, pc.slot)
	if len(pl.free) == pl.slots { // the next ones lie in order again
		slices.SortFunc(pl.free, func(a, b int) int { return cmp.Compare(b, a) })
	}
}

// dropAll takes all slots back. Mem of a region must not be unmapped before.
func (pl *pool) dropAll() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	for at, pc := range pl.pieces {
		pl.drop(at, pc)
	}
}

func (pl *pool) close() {
	pl.dropAll()
	if pl.window != nil {
		pl.window.close()
		pl.file.Close()
		pl.window = nil
	}
}
