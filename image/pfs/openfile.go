package pfs

import "io"

// page is the least that a system keeps of a file.
const page = 4096

// OpenFile is a file as one process has it open, through the cache of its host: it
// reads ahead and writes behind. Its calls take virtual time and move no bytes, so that
// whatever works on a file can be timed:
//
//	f := sim.Client(0).Open(file, 10<<30)
//	v, err := fileview.NewFile(f, view, fileview.Options{Rule: fileview.ROMIO})
//	v.ReadAt(buffer, 0)
//	fmt.Println(sim.Now())
//
// A read of adjacent pages goes on with the next ones by itself, up to
// Servers.ReadAhead.Most, and stops as soon as a read is elsewhere. A write returns when
// its bytes are in the cache; of a page that it covers in part the rest is read first.
// Writes that touch leave the host together, others do not.
//
// It is for one goroutine, the one of the Sim.
type OpenFile struct {
	client *Client
	file   *File
	size   int64

	kept []*kept // what the host has of the file, in order, of where the process works

	next     int64 // the page after the last read
	adjacent int64 // bytes that were read in one go up to there
	ahead    int64 // where reading ahead has come to

	lo, hi int64 // bytes that have not left the host
}

// kept are pages that the host has, or that are on their way to it.
type kept struct {
	lo, hi int64
	here   bool
}

// Open opens a file that has so many bytes.
func (c *Client) Open(f *File, size int64) *OpenFile {
	return &OpenFile{client: c, file: f, size: size, next: -1}
}

// wait lets virtual time pass until something has happened.
func (sim *Sim) wait(happened func() bool) {
	for !happened() && len(sim.events.heap) > 0 {
		e := sim.events.pop()
		sim.now = e.at
		e.who.act(e.what)
	}
}

// pause lets some time pass.
func (sim *Sim) pause(seconds float64) {
	over := false
	sim.At(sim.now+seconds, func() { over = true })
	sim.wait(func() bool { return over })
}

// copying lets the time pass that a processor takes to copy so many bytes.
func (o *OpenFile) copying(bytes int64) {
	if rate := float64(o.client.sim.sys.Host.Copy); rate > 0 {
		o.client.sim.pause(float64(bytes) / rate)
	}
}

// ReadAt reads len(p) bytes, and leaves p as it is.
func (o *OpenFile) ReadAt(p []byte, off int64) (int, error) {
	n := max(0, min(int64(len(p)), o.size-off))
	if n > 0 {
		o.fetch(off/page*page, min(roundUp(off+n), roundUp(o.size)), true)
		o.copying(n)
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func roundUp(n int64) int64 { return (n + page - 1) / page * page }

// fetch waits until the host has the pages from lo to hi.
func (o *OpenFile) fetch(lo, hi int64, ahead bool) {
	o.flushBefore(lo, hi)
	missing := o.missing(lo, hi)
	for _, m := range missing {
		o.load(m.offset, m.offset+m.bytes)
	}
	if ahead {
		o.readAhead(lo, hi)
	}
	o.client.sim.wait(func() bool {
		for _, k := range o.kept {
			if k.lo < hi && k.hi > lo && !k.here {
				return false
			}
		}
		return true
	})
	o.forget(lo)
}

// load begins to read pages.
func (o *OpenFile) load(lo, hi int64) {
	k := &kept{lo: lo, hi: hi}
	o.keep(k)
	o.client.Read(o.file, lo, hi-lo, func() { k.here = true })
}

// keep puts pages in their place.
func (o *OpenFile) keep(k *kept) {
	i := len(o.kept)
	for i > 0 && o.kept[i-1].lo > k.lo {
		i--
	}
	o.kept = append(o.kept, nil)
	copy(o.kept[i+1:], o.kept[i:])
	o.kept[i] = k
}

// missing returns the pages from lo to hi that the host has to ask for.
func (o *OpenFile) missing(lo, hi int64) (gaps []extent) {
	for _, k := range o.kept {
		if k.hi <= lo || k.lo >= hi {
			continue
		}
		if k.lo > lo {
			gaps = append(gaps, extent{lo, k.lo - lo})
		}
		lo = max(lo, k.hi)
	}
	if lo < hi {
		gaps = append(gaps, extent{lo, hi - lo})
	}
	return gaps
}

// readAhead asks for the pages after hi once enough adjacent ones have been read, in
// whole requests. The window is as long as what has been read in one go.
func (o *OpenFile) readAhead(lo, hi int64) {
	s, rpc := &o.client.sim.sys.Servers.ReadAhead, int64(o.client.sim.sys.RPC)
	if lo > o.next || hi < o.next {
		o.adjacent, o.ahead, o.next = 0, hi, lo
	}
	o.adjacent += hi - o.next
	o.next = hi
	o.ahead = max(o.ahead, hi)
	if s.Most == 0 || o.adjacent < int64(s.After)*rpc {
		return
	}
	end := min(hi+min(o.adjacent, int64(s.Most)), roundUp(o.size))
	if end < roundUp(o.size) {
		end -= end % rpc
	}
	for o.ahead < end {
		to := min(end, o.ahead-o.ahead%rpc+rpc)
		for _, m := range o.missing(o.ahead, to) {
			o.load(m.offset, m.offset+m.bytes)
		}
		o.ahead = to
	}
}

// behind is how much of what has been read a host keeps.
const behind = 8 << 20

// forget drops pages far before lo, and joins those that are here.
func (o *OpenFile) forget(lo int64) {
	joined := o.kept[:0]
	for _, k := range o.kept {
		if k.hi < lo-behind && k.here {
			continue
		}
		if n := len(joined) - 1; n >= 0 && joined[n].here && k.here && k.lo <= joined[n].hi {
			joined[n].hi = max(joined[n].hi, k.hi)
			continue
		}
		joined = append(joined, k)
	}
	o.kept = joined
}

// WriteAt writes len(p) bytes.
func (o *OpenFile) WriteAt(p []byte, off int64) (int, error) {
	n := int64(len(p))
	if n == 0 {
		return 0, nil
	}
	end := off + n
	lo, hi := off/page*page, roundUp(end)
	// The rest of the first and the last page.
	if off > lo && lo < o.size && !o.has(lo) {
		o.fetch(lo, lo+page, false)
	}
	if last := hi - page; end < hi && end < o.size && !o.has(last) {
		o.fetch(last, hi, false)
	}
	o.copying(n)
	for _, m := range o.missing(lo, hi) {
		o.keep(&kept{lo: m.offset, hi: m.offset + m.bytes, here: true})
	}
	o.forget(lo)
	o.size = max(o.size, end)
	if o.lo == o.hi || off/page*page > roundUp(o.hi) || end < o.lo/page*page {
		o.flush()
		o.lo, o.hi = off, end
	} else {
		o.lo, o.hi = min(o.lo, off), max(o.hi, end)
	}
	if whole := int64(o.client.sim.sys.RPC) * int64(len(o.file.targets)); o.hi-o.lo/page*page >= whole {
		from, to := o.lo/page*page, o.hi/page*page
		o.send(from, to)
		o.lo = to
	}
	return len(p), nil
}

// has says whether the host has a page.
func (o *OpenFile) has(at int64) bool { return len(o.missing(at, at+page)) == 0 }

// flush sends what has not left the host.
func (o *OpenFile) flush() {
	if o.hi > o.lo {
		o.send(o.lo/page*page, roundUp(o.hi))
	}
	o.lo, o.hi = 0, 0
}

// flushBefore sends bytes that a read would overtake.
func (o *OpenFile) flushBefore(lo, hi int64) {
	if o.lo < hi && o.hi > lo && len(o.missing(lo, hi)) > 0 {
		o.flush()
	}
}

// send sends pages, and waits as long as the host has too many dirty ones.
func (o *OpenFile) send(lo, hi int64) {
	done := false
	o.client.Write(o.file, lo, hi-lo, func() { done = true })
	o.client.sim.wait(func() bool { return done })
}

// LockRange takes a free lock, and makes an OpenFile a fileview.Locker.
// Other processes are not simulated.
func (o *OpenFile) LockRange(int64, int64) (unlock func(), err error) {
	o.client.sim.pause(float64(o.client.sim.sys.Locks.Grant))
	return func() {}, nil
}

// Sync waits until everything written is on the targets.
func (o *OpenFile) Sync() {
	o.flush()
	done := false
	o.client.Flush(func() { done = true })
	o.client.sim.wait(func() bool { return done })
	drained := false
	o.client.Drain(0, func() { drained = true })
	o.client.sim.wait(func() bool { return drained })
}
