package mpi

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A shmPort moves messages between this rank and the others of its node.
//
// Sending happens in the goroutine that sends, receiving in one goroutine of the Comm that sleeps
// on the rank's in-bell. A message that fits goes into the ring whole. A longer one is cut into
// the size of cells of the sender's pool; each piece is published as soon as it is copied, so
// sender and receiver overlap, and a message may be longer than the pool.
//
// Waits form no circle: a sender waits only for ring space or cells, which receivers give
// back without waiting for anything, as their inboxes take everything.
type shmPort struct {
	comm *Comm
	seg  *Segment
	me   int    // our index on the node
	in   bell   // rung by senders to us
	out  bell   // rung by receivers that gave us space back
	bell []bell // the others' in-bells
	from []*inflow

	cells    sync.Mutex // held while a cell is looked for
	nextCell int

	inBed atomic.Bool   // the receiver is going to sleep or sleeps
	naps  atomic.Uint64 // how often it did; for tests
}

type inflow struct {
	consumer
	rank, local int
	sender      bell // the out-bell of the rank
	partial     *message
	filled      int // bytes of partial
}

// retryInterval bounds a sender's sleep. Bells are not lost, see bell, but a receiver may be
// killed after it has freed space and before it rings.
const retryInterval = 100 * time.Millisecond

// batch is how many records are taken from a ring before its sender, if it waits for space, is
// woken: waking it for each would cost two context switches per cell.
const batch = 16

func newShmPort(c *Comm, nodeRanks []int) *shmPort {
	seg := c.cfg.Segment
	me := c.peers[c.cfg.Rank].local
	p := &shmPort{comm: c, seg: seg, me: me, in: seg.inBell(me), out: seg.outBell(me)}
	for i, r := range nodeRanks {
		p.bell = append(p.bell, seg.inBell(i))
		if r == c.cfg.Rank {
			continue // what we send to ourselves goes straight to the inbox
		}
		c.peers[r].ring = newProducer(seg.ring(me, i))
		p.from = append(p.from, &inflow{consumer: newConsumer(seg.ring(i, me)), rank: r, local: i, sender: seg.outBell(i)})
	}
	return p
}

func (s *Segment) inBell(local int) bell  { return bell{s.word32(s.geo.ctl(local))} }
func (s *Segment) outBell(local int) bell { return bell{s.word32(s.geo.ctl(local) + ctlBytes/2)} }

// send publishes a message to a rank of the node. The caller holds p.mu.
func (sp *shmPort) send(p *peer, env envelope, data []byte) error {
	to := sp.bell[p.local]
	if len(data) <= p.ring.inlineLimit() {
		rec := record{kind: inlineRecord, envelope: env, length: uint32(len(data)), total: uint64(len(data))}
		if err := sp.awaitRing(p, rec.size()); err != nil {
			return err
		}
		p.ring.put(&rec, data)
		to.ring()
		return nil
	}
	for off := 0; off < len(data); {
		cell, err := sp.takeCell(p.local)
		if err != nil {
			return err
		}
		at := sp.seg.geo.cell(sp.me, cell)
		n := copy(sp.seg.mem[at:at+sp.seg.geo.cellBytes], data[off:])
		rec := record{kind: cellRecord, envelope: env, length: uint32(n), cell: uint32(cell), total: uint64(len(data)), offset: uint64(off)}
		if err := sp.awaitRing(p, rec.size()); err != nil {
			return err
		}
		p.ring.put(&rec, nil)
		to.ring()
		off += n
	}
	return nil
}

func (sp *shmPort) awaitRing(p *peer, n uint64) error {
	return sp.await(func() (bool, error) { return p.ring.room(n) })
}

// takeCell waits for a free cell of ours and marks it as on its way to a rank. Only the owner
// marks cells, only the receiver it is marked for frees it.
func (sp *shmPort) takeCell(to int) (cell int, err error) {
	sp.cells.Lock()
	defer sp.cells.Unlock()
	g := &sp.seg.geo
	err = sp.await(func() (bool, error) {
		for range g.cells {
			cell = sp.nextCell
			sp.nextCell = (cell + 1) % g.cells
			if state := sp.seg.word32(g.state(sp.me, cell)); atomic.LoadUint32(state) == 0 {
				atomic.StoreUint32(state, uint32(to)+1)
				return true, nil
			}
		}
		return false, nil
	})
	return cell, err
}

// await sleeps on our out-bell until try succeeds or fails, or the Comm ends.
func (sp *shmPort) await(try func() (bool, error)) error {
	for {
		if ok, err := try(); ok || err != nil {
			return err
		}
		sp.out.arm()
		if err := sp.comm.err(); err != nil {
			return err
		}
		if ok, err := try(); ok || err != nil {
			return err
		}
		if err := sp.out.sleep(retryInterval); err != nil {
			return fmt.Errorf("futex: %w", err)
		}
	}
}

func (sp *shmPort) receive() {
	yielded := true
	for {
		n, err := sp.poll()
		switch {
		case err != nil:
		case n > 0:
			yielded = false
		case !yielded:
			// A goroutine that got its message just now runs first: the system call of nap would
			// keep its processor busy until the runtime's monitor takes it away, 20 µs later.
			runtime.Gosched()
			yielded = true
		default:
			err = sp.nap()
		}
		if err != nil {
			sp.comm.fail(err)
			return
		}
		if sp.comm.err() != nil {
			return
		}
	}
}

func (sp *shmPort) nap() error {
	sp.in.arm()
	if sp.comm.err() != nil {
		return nil
	}
	for _, f := range sp.from {
		if !f.empty() {
			return nil
		}
	}
	sp.inBed.Store(true)
	defer sp.inBed.Store(false)
	sp.naps.Add(1)
	sp.comm.in.nudge()
	if err := sp.in.sleep(0); err != nil {
		return fmt.Errorf("futex: %w", err)
	}
	return nil
}

// asleep reports whether the receiver sleeps and its bell has not rung: as long as no rank sends,
// it will not touch the segment.
func (sp *shmPort) asleep() bool { return sp.inBed.Load() && sp.in.armed() }

func (sp *shmPort) wake() {
	sp.in.ring()
	sp.out.ring()
}

// poll takes what is there, from each rank in turn, and returns the number of records.
func (sp *shmPort) poll() (n int, err error) {
	for _, f := range sp.from {
		taken := 0
		for taken < batch {
			rec, ok, err := f.peek(&sp.seg.geo, sp.comm.cfg.MaxMessage)
			if ok {
				err = sp.take(f, &rec)
			}
			if err != nil {
				return n, fmt.Errorf("from rank %d through %s: %w", f.rank, sp.seg.path, err)
			}
			if !ok {
				break
			}
			taken++
		}
		if taken > 0 {
			f.sender.ring()
		}
		n += taken
	}
	return n, nil
}

// take copies a record out of the segment, gives its space back and delivers the message if that
// was its end.
func (sp *shmPort) take(f *inflow, rec *record) error {
	pool := &sp.comm.in.pool
	if rec.kind == inlineRecord {
		if f.partial != nil {
			return fmt.Errorf("%w record %+v in the middle of a message", ErrCorrupt, *rec)
		}
		m := pool.get(int(rec.length))
		m.envelope, m.src = rec.envelope, f.rank
		f.payload(m.data)
		f.pop(rec)
		sp.comm.in.deliver(m)
		return nil
	}
	if f.partial == nil {
		f.partial, f.filled = pool.get(int(rec.total)), 0
		f.partial.envelope, f.partial.src = rec.envelope, f.rank
	}
	m := f.partial
	if rec.offset != uint64(f.filled) || rec.total != uint64(len(m.data)) || rec.envelope != m.envelope {
		return fmt.Errorf("%w record %+v: %d bytes of %d have arrived", ErrCorrupt, *rec, f.filled, len(m.data))
	}
	g := &sp.seg.geo
	state := sp.seg.word32(g.state(f.local, int(rec.cell)))
	if got := atomic.LoadUint32(state); got != uint32(sp.me)+1 {
		return fmt.Errorf("%w record %+v: the cell is not for us but for %d", ErrCorrupt, *rec, int(got)-1)
	}
	at := g.cell(f.local, int(rec.cell))
	f.filled += copy(m.data[f.filled:], sp.seg.mem[at:at+int64(rec.length)])
	atomic.SwapUint32(state, 0) // a swap: see bell
	f.pop(rec)
	if f.filled == len(m.data) {
		f.partial = nil
		sp.comm.in.deliver(m)
	}
	return nil
}

// From linux/futex.h. Without FUTEX_PRIVATE_FLAG the kernel identifies the word by file and
// offset, so that processes find each other.
const (
	futexWait = 0
	futexWake = 1
)

// A bell is a word in the segment on which one rank sleeps until another has done something for
// it: 0 is awake, 1 is asleep or about to be.
//
// No wake-up is lost. The sleeper sets the bell to 1 and then looks once more whether there is
// anything to do (arm, look, sleep). The waker does its deed (moves a tail or head, frees a cell,
// notes an abort) and then looks at the bell (ring). Go's atomics are sequentially consistent, so
// one of the two looks comes second and sees what the other wrote: either the sleeper sees the
// deed and does not sleep, or the waker sees 1, sets it to 0 and wakes. If that happens before
// the sleeper is in the kernel, FUTEX_WAIT finds 0 where it expects 1 and returns at once.
//
// That holds for what the race detector makes of them, too, as long as the store before the look
// is a swap: of its stores and loads alone, a processor may carry out the load first. Otherwise a
// swap costs what a store does.
//
// A 1 left behind, by a rank that was killed or in a restored segment, costs one wake-up that
// wakes nobody.
type bell struct{ word *uint32 }

func (b bell) arm()        { atomic.SwapUint32(b.word, 1) }
func (b bell) armed() bool { return atomic.LoadUint32(b.word) == 1 }

// ring wakes all who sleep on the bell.
func (b bell) ring() {
	if b.armed() && atomic.SwapUint32(b.word, 0) == 1 {
		// The only possible error, a bad address, would have faulted in the swap.
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word)), futexWake, math.MaxInt32, 0, 0, 0)
	}
}

// sleep returns when the bell is rung or timeout has passed (0 = never), or for no reason at all:
// the caller looks again. It has armed the bell.
func (b bell) sleep(timeout time.Duration) error {
	var ts *unix.Timespec
	if timeout > 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(b.word)), futexWait, 1, uintptr(unsafe.Pointer(ts)), 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR, unix.ETIMEDOUT:
		return nil
	}
	return errno // a kernel that forbids futexes: rather an error than a spin
}
