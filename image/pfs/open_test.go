package pfs

import (
	"io"
	"testing"
)

// opened is a file of 1 GiB on one target of 100 MiB/s, open in a process.
func opened(t *testing.T, more string) (*Sim, *OpenFile) {
	t.Helper()
	sim := NewSim(read(t, more), Options{})
	return sim, sim.Client(0).Open(sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: 1}), 1<<30)
}

// reads reads blocks with holes between them, and returns the time.
func reads(t *testing.T, more string, blocks, data, hole int64) (seconds float64, disk float64) {
	t.Helper()
	sim, f := opened(t, more)
	sim.sys.Targets.Seek = 0.1
	for i := range blocks {
		if n, err := f.ReadAt(make([]byte, data), i*(data+hole)); err != nil || int64(n) != data {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	return sim.Now(), sim.targets[0].disk.busy
}

// TestReadAhead: adjacent reads find their bytes already there, others cost a request
// each, and nothing more is read.
func TestReadAhead(t *testing.T) {
	const mib = 1 << 20
	without := "host: {latency: 10ms}"
	with := without + "\nservers: {read_ahead: {after: 2, most: 8MiB}}"
	alone, _ := reads(t, without, 64, mib, 0)
	near(t, "without reading ahead", alone, 0.1+64*(0.010+0.010))
	ahead, disk := reads(t, with, 64, mib, 0)
	if ahead < 0.74 || ahead > 0.85 {
		t.Errorf("reading ahead: %v s, want little more than 0.74", ahead)
	}
	if disk > 0.83 { // 8 MiB more than the process took
		t.Errorf("reading ahead: the disk worked for %v s", disk)
	}
	apart, disk := reads(t, with, 16, mib/2, mib/2)
	near(t, "blocks that are apart", apart, 0.1+16*(0.010+0.005)+15*0.005)
	near(t, "blocks that are apart, on the disk", disk, 0.1+16*0.005+15*0.005)
	// Holes of less than a page are no holes to it.
	small, _ := reads(t, with, 64, mib-1000, 1000)
	if small > 0.85 {
		t.Errorf("small holes: %v s", small)
	}
}

// TestReadAheadStops: after a read elsewhere nothing more comes of what was adjacent.
func TestReadAheadStops(t *testing.T) {
	const mib = 1 << 20
	sim, f := opened(t, "servers: {read_ahead: {after: 2, most: 8MiB}}")
	for i := range int64(3) {
		f.ReadAt(make([]byte, mib), i*mib)
	}
	f.Sync()
	before := sim.targets[0].disk.busy
	if before < 0.05 {
		t.Errorf("the disk worked for %v s, want more than the 0.03 of three reads", before)
	}
	for i := range int64(4) {
		f.ReadAt(make([]byte, mib), (100+2*i)*mib)
	}
	f.Sync()
	near(t, "four reads elsewhere", sim.targets[0].disk.busy-before, 0.04)
}

// TestPartialPages: a write of a part of a page reads the page first, unless the host
// has it or the file ends before it.
func TestPartialPages(t *testing.T) {
	sim, f := opened(t, "host: {latency: 10ms, dirty: 32MiB}")
	write := func(what string, off, n int64, pages float64) {
		t.Helper()
		before := sim.Now()
		if m, err := f.WriteAt(make([]byte, n), off); err != nil || int64(m) != n {
			t.Fatal(m, err)
		}
		near(t, what, sim.Now()-before, pages*0.010+pages*4096/(100<<20))
	}
	write("whole pages", 0, 8192, 0)
	write("a part of a page", 8200, 100, 1)
	write("the same page", 9000, 100, 0)
	write("two parts of pages", 12288+4000, 200, 2)
	write("the rest is there", 8192, 4096, 0)
	write("beyond the end", 1<<30+5, 10, 0)
	if n, err := f.ReadAt(make([]byte, 100), 1<<30+10); n != 5 || err != io.EOF {
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
	if n, err := f.ReadAt(make([]byte, 100), 2<<30); n != 0 || err != io.EOF {
		t.Errorf("beyond the end: %d bytes, %v", n, err)
	}
}

// TestWriteBehind: writes return at once, those that touch leave together, and Sync
// waits for the disk.
func TestWriteBehind(t *testing.T) {
	const pages = 256
	run := func(hole int64) (written, synced float64) {
		sim, f := opened(t, "host: {dirty: 32MiB}\nin_flight: 2")
		sim.sys.Targets.Seek = 0.001
		for i := range int64(pages) {
			f.WriteAt(make([]byte, 4096), i*(4096+hole))
		}
		written = sim.Now()
		f.Sync()
		return written, sim.Now()
	}
	written, synced := run(0)
	near(t, "written", written, 0)
	near(t, "synced", synced, 0.001+pages*4096./(100<<20))
	written, synced = run(4096)
	near(t, "written apart", written, 0)
	near(t, "synced apart", synced, pages*(0.001+4096./(100<<20)))
}

// TestReadOwn: a process reads what it has written without the disk.
func TestReadOwn(t *testing.T) {
	sim, f := opened(t, "host: {latency: 10ms, dirty: 32MiB}")
	f.WriteAt(make([]byte, 8192), 4096)
	f.ReadAt(make([]byte, 4096), 6000)
	near(t, "own bytes", sim.Now(), 0)
	f.ReadAt(make([]byte, 8192), 8192)
	if sim.Now() < 0.010 {
		t.Error("bytes of the disk came at once")
	}
}
