package pfs

import (
	"testing"
	"time"

	"ckpt/image/plan/fileview"
)

// access is a run of the benchmark of Zickler (thesis, Hamburg 2015, section 5.1): one
// process reads or writes blocks with holes between them in a file that exists.
type access struct {
	preset     string // default wr-lustre
	servers    int    // default 2
	stripe     int64  // default 2 MiB
	initial    int64
	data, hole int64
	rule       fileview.Method
	write      bool
	// legacy has sieving writes read before they write even where nothing is between the
	// blocks, as the library of the thesis does.
	legacy bool
	change func(*System)
}

// at returns the access with other sizes, beginning as in Table 5.1 with a hole.
func (a access) at(data, hole int64) access {
	a.data, a.hole, a.initial = data, hole, hole
	return a
}

func (a access) by(rule fileview.Method) access {
	a.rule = rule
	return a
}

// zeros are what all runs write, and what they read into.
var zeros []byte

// rate returns MiB of data per second.
func (a access) rate(t testing.TB) float64 {
	t.Helper()
	if a.preset == "" {
		a.preset = "wr-lustre"
	}
	if a.servers == 0 {
		a.servers = 2
	}
	if a.stripe == 0 {
		a.stripe = 2 << 20
	}
	s := mustLoad(t, a.preset)
	if a.change != nil {
		a.change(s)
	}
	sim := NewSim(s, Options{})
	const size = 10_000_000_000
	file := sim.Client(0).Open(sim.File(FileSpec{StripeSize: a.stripe, StripeCount: a.servers}), size)
	v, err := fileview.NewView(a.initial, []fileview.Tuple{{Size: a.data, Hole: a.hole}}, fileview.Forever)
	if err != nil {
		t.Fatal(err)
	}
	// The rules know the network, and take 1 ms for the file system.
	device := fileview.Device{Bandwidth: float64(s.Host.Network), Latency: time.Millisecond + time.Duration(float64(s.Host.Latency)/2*1e9), Stripe: a.stripe}
	f, err := fileview.NewFile(a.on(file), v, fileview.Options{Rule: a.rule, Device: device, Locker: a.locker(file)})
	if err != nil {
		t.Fatal(err)
	}
	// A request of the thesis is 30 MB of data; many blocks are cut short.
	blocks := max(20, min(30_000_000/a.data, 4000, size/2/(a.data+a.hole)))
	if int64(len(zeros)) < blocks*a.data {
		zeros = make([]byte, blocks*a.data)
	}
	buffer := zeros[:blocks*a.data]
	if a.write {
		_, err = f.WriteAt(buffer, 0)
		file.Sync()
	} else {
		_, err = f.ReadAt(buffer, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return float64(len(buffer)) / (1 << 20) / sim.Now()
}

// on returns the file that the rule works on.
func (a access) on(f *OpenFile) fileview.ReadWriterAt {
	if a.legacy && a.rule != fileview.Naive {
		return &legacyFile{OpenFile: f}
	}
	return f
}

// locker returns the lock of each access. The naive way locks once.
func (a access) locker(f *OpenFile) fileview.Locker {
	if a.rule == fileview.Naive {
		return &fileview.RangeLock{}
	}
	return f
}

// legacyFile reads before each write.
type legacyFile struct {
	*OpenFile
	off, n int64 // of the last read
}

func (l *legacyFile) ReadAt(p []byte, off int64) (int, error) {
	l.off, l.n = off, int64(len(p))
	return l.OpenFile.ReadAt(p, off)
}

func (l *legacyFile) WriteAt(p []byte, off int64) (int, error) {
	if l.off != off || l.n != int64(len(p)) {
		if _, err := l.ReadAt(make([]byte, len(p)), off); err != nil {
			return 0, err
		}
	}
	return l.OpenFile.WriteAt(p, off)
}

// The thesis prints no rates, so each claim is an ordering; C1 to C12 number those
// of its sections 5.3.3 to 5.3.5.

// compare checks that one rate is at least so many times another.
func compare(t *testing.T, what string, more, factor, less float64) {
	t.Helper()
	if !(more >= factor*less) {
		t.Errorf("%s: %.2f MiB/s, want at least %g times %.2f", what, more, factor, less)
	}
}

const (
	kib = 1 << 10
	big = 10_000_000
)

// C1: a naive read is good for data of more than 4 KiB with holes below that, and bad for
// larger holes or small data. C2: holes of 4 to 32 KiB are tolerated, of 128 KiB not.
func TestNaiveRead(t *testing.T) {
	for _, preset := range []string{"wr-lustre", "dkrz"} {
		for _, servers := range []int{1, 2} {
			a := access{rule: fileview.Naive, preset: preset, servers: servers}
			good := a.at(32768, 1000).rate(t)
			compare(t, preset+", C1, larger data", good, 0.8, a.at(100_000, 0).rate(t))
			compare(t, preset+", C1, small data", good, 5, a.at(64, 1000).rate(t))
			compare(t, preset+", C1, large hole", good, 5, a.at(32768, 1_000_000).rate(t))
			for _, data := range []int64{32768, 100_000} {
				whole := a.at(data, 0).rate(t)
				compare(t, preset+", C2, 4 KiB", a.at(data, 4*kib).rate(t), 0.25, whole)
				compare(t, preset+", C2, 128 KiB", 0.5*whole, 1, a.at(data, 128*kib).rate(t))
			}
		}
	}
}

// C3: a naive write has no plateau of small holes, where a read has one.
func TestNaiveWrite(t *testing.T) {
	for _, data := range []int64{4096, 32768} {
		read, write := access{rule: fileview.Naive}.at(data, 0), access{rule: fileview.Naive}.at(data, 0)
		write.write = true
		for _, hole := range []int64{8, 64, 1000} {
			compare(t, "read over small holes", read.at(data, hole).rate(t), 0.8, read.rate(t))
			compare(t, "write over small holes", 0.5*write.rate(t), 1, write.at(data, hole).rate(t))
		}
	}
}

// C4: aligned writes of one stripe of 128 KiB over two servers go up and down with the
// hole: an even number of stripes reaches both servers, an odd number only one. Writes
// of two stripes, or not aligned, reach both anyway.
func TestWriteWave(t *testing.T) {
	const stripe = 128 * kib
	for _, preset := range []string{"wr-lustre", "dkrz"} {
		wave := func(data, initial int64) (rates []float64) {
			for hole := int64(2); hole <= 9; hole++ { // 1: the blocks of one server touch
				rates = append(rates, access{rule: fileview.Naive, preset: preset, stripe: stripe, data: data, hole: hole * stripe, initial: initial, write: true}.rate(t))
			}
			return rates
		}
		for i, rates := 0, wave(stripe, 0); i+1 < len(rates); i += 2 {
			compare(t, preset+", both servers or one", rates[i], 1.5, rates[i+1])
		}
		for _, flat := range [][]float64{wave(2*stripe, 0), wave(stripe, stripe/2)} {
			for i := range flat[1:] {
				compare(t, preset+", no wave", flat[i+1], 0.9, flat[i])
				compare(t, preset+", no wave", flat[i], 0.9, flat[i+1])
			}
		}
	}
}

// C6: ROMIO's sieving reads well while a hole is less than 100 KiB and less than the
// data. C7: it does harm where data of more than 4 KiB has holes of more than a MByte.
func TestROMIORead(t *testing.T) {
	a := access{rule: fileview.Naive}
	romio := a.by(fileview.ROMIO)
	for _, p := range [][2]int64{{32768, 4096}, {100_000, 32768}, {1_000_000, 32768}, {2_097_152, 4096}} {
		good := romio.at(p[0], p[1]).rate(t)
		compare(t, "C6, over naive", good, 1, a.at(p[0], p[1]).rate(t))
		compare(t, "C6, of no holes", good, 0.6, romio.at(p[0], 0).rate(t))
		compare(t, "C6, larger holes", good, 2, romio.at(p[0], 10*p[0]).rate(t))
	}
	for _, data := range []int64{32768, 100_000, 1_000_000, 2_097_152} {
		compare(t, "C7", a.at(data, big).rate(t), 1.5, romio.at(data, big).rate(t))
	}
	compare(t, "C7", a.at(32768, 2_097_152).rate(t), 1.5, romio.at(32768, 2_097_152).rate(t))
}

// C8: ROMIO's writes read before they write. That costs more than it saves with large
// data, and less with small holes in small data.
func TestROMIOWrite(t *testing.T) {
	a := access{rule: fileview.Naive, write: true}
	romio := a.by(fileview.ROMIO)
	for _, p := range [][2]int64{{1000, 8}, {4096, 64}, {4096, 4096}, {32768, 1000}} {
		compare(t, "gain", romio.at(p[0], p[1]).rate(t), 1.1, a.at(p[0], p[1]).rate(t))
	}
	for _, p := range [][2]int64{{2_097_152, 1000}, {2_097_152, 32768}} {
		compare(t, "penalty", a.at(p[0], p[1]).rate(t), 1.3, romio.at(p[0], p[1]).rate(t))
	}
}

// C9: reads by the simple performance model are never slower than naive ones, and faster
// where they can be. C10: its writes, as the thesis has them, do not reach naive ones
// with large data and holes; they do where single blocks are written plainly.
func TestPerformanceModel(t *testing.T) {
	a := access{rule: fileview.Naive}
	for _, data := range []int64{1000, 4096, 32768, 2_097_152} {
		for _, hole := range []int64{8, 4096, 32768, 100_000, big} {
			compare(t, "C9", a.by(fileview.PerformanceModel).at(data, hole).rate(t), 0.95, a.at(data, hole).rate(t))
		}
	}
	compare(t, "C9, improved", a.by(fileview.PerformanceModel).at(4096, 4096).rate(t), 2, a.at(4096, 4096).rate(t))
	a.write = true
	legacy := a.by(fileview.PerformanceModel)
	legacy.legacy = true
	for _, p := range [][2]int64{{2_097_152, 2_097_152}, {2_097_152, big}} {
		naive := a.at(p[0], p[1]).rate(t)
		compare(t, "C10", naive, 1.2, legacy.at(p[0], p[1]).rate(t))
		compare(t, "C10, plain writes", a.by(fileview.PerformanceModel).at(p[0], p[1]).rate(t), 0.95, naive)
	}
}

// C11: where the disk is not in the way, the latency of the network dominates below 4 KiB,
// and its bandwidth beyond; reads decline with the hole. C12: where reads are slow, the
// disk is why.
func TestLatencies(t *testing.T) {
	a := access{rule: fileview.Naive}
	changed := func(a access, changes ...func(*System)) float64 {
		a.change = func(s *System) {
			for _, change := range changes {
				change(s)
			}
		}
		return a.rate(t)
	}
	noLatency := func(s *System) { s.Host.Latency = 0 }
	noSeek := func(s *System) { s.Targets.Seek = 0 }
	noDisk := func(s *System) { s.Targets.Seek, s.Targets.Rate, s.Targets.ReadRate = 0, 1e12, 1e12 }
	small, large := a.at(1000, 8192), a.at(1_000_000, 8192)
	compare(t, "C11, small", changed(small, noDisk, noLatency), 2, changed(small, noDisk))
	compare(t, "C11, large", 1.3*changed(large, noDisk), 1, changed(large, noDisk, noLatency))
	last := a.at(4096, 0).rate(t)
	for _, hole := range []int64{4096, 32768, 100_000, 1_000_000} {
		rate := a.at(4096, hole).rate(t)
		compare(t, "C11, decline", last, 1, rate)
		last = rate
	}
	bad := a.at(4096, 1_000_000)
	compare(t, "C12, without seeks", changed(bad, noSeek), 10, bad.rate(t))
	compare(t, "C12, without latency", 1.1*bad.rate(t), 1, changed(bad, noLatency))
}
