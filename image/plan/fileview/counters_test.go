package fileview_test

import (
	"math"
	"testing"
	"time"

	"ckpt/image/plan/fileview"
)

const (
	mib     = 1 << 20
	nBlocks = 1000
)

// wr is the cluster that Zickler (thesis, 2015), section 5.2, measured on:
// Gigabit Ethernet with 118 MiB/s and 0.08 ms. The file system's share of the
// latency is not in the thesis; 1 ms is the low end of its seek times of disks.
var wr = fileview.Device{Bandwidth: 118 * mib, Latency: 80*time.Microsecond + time.Millisecond}

// seconds is what calls and bytes take on the device, the disk apart.
func seconds(s fileview.Stats, d fileview.Device) float64 {
	return float64(s.Reads+s.Writes)*d.Latency.Seconds() + float64(s.Read+s.Written)/d.Bandwidth
}

func plan(t *testing.T, m fileview.Method, d fileview.Device, a fileview.Access, tuple fileview.Tuple, blocks int64) fileview.Stats {
	v := mustView(t, tuple.Hole, []fileview.Tuple{tuple}, fileview.Forever)
	return mustFile(t, nullFile{}, v, fileview.Options{Rule: m, Device: d}).Plan(a, 0, blocks*tuple.Size)
}

type counter struct{ calls, bytes int64 }

// counters are calls and bytes of 1,000 blocks read in one request through
// 4 MiB, as the rules of Zickler (thesis, 2015), Listings 4.4 and 4.5, give
// them. They were worked out by hand and by a program that shares nothing with
// this one; the thesis has no such table.
var counters = []struct {
	tuple fileview.Tuple
	want  map[fileview.Method]counter
}{
	{fileview.Tuple{Size: 4096, Hole: 4096}, map[fileview.Method]counter{
		fileview.Naive: {1000, 4_096_000}, fileview.ROMIO: {2, 8_187_904}, fileview.PerformanceModel: {2, 8_183_808}}},
	{fileview.Tuple{Size: 4096, Hole: 100_000}, map[fileview.Method]counter{
		fileview.Naive: {1000, 4_096_000}, fileview.ROMIO: {25, 102_228_832}, fileview.PerformanceModel: {25, 101_596_000}}},
	{fileview.Tuple{Size: 32768, Hole: 4096}, map[fileview.Method]counter{
		fileview.Naive: {1000, 32_768_000}, fileview.ROMIO: {9, 36_855_808}, fileview.PerformanceModel: {9, 36_855_808}}},
	{fileview.Tuple{Size: 32768, Hole: 1_000_000}, map[fileview.Method]counter{
		fileview.Naive: {1000, 32_768_000}, fileview.ROMIO: {200, 838_860_800}, fileview.PerformanceModel: {1000, 32_768_000}}},
	{fileview.Tuple{Size: 2097152, Hole: 2097152}, map[fileview.Method]counter{
		fileview.Naive: {1000, 2_097_152_000}, fileview.ROMIO: {1000, 4_194_304_000}, fileview.PerformanceModel: {1000, 2_097_152_000}}},
}

func TestCountersPlanned(t *testing.T) {
	t.Parallel()
	for _, row := range counters {
		for m, want := range row.want {
			got := plan(t, m, wr, fileview.Read, row.tuple, nBlocks)
			if w := (fileview.Stats{Reads: want.calls, Read: want.bytes, Useful: nBlocks * row.tuple.Size}); got != w {
				t.Errorf("%v %v:\n got %+v\nwant %+v", row.tuple, m, got, w)
			}
		}
	}
}

// Reads follow the plan. Of the last row, whose every block is an
// access of its own, 10 are enough.
func TestCountersRead(t *testing.T) {
	t.Parallel()
	p := make([]byte, nBlocks*32768)
	for _, row := range counters {
		part := int64(1)
		if row.tuple.Size == 2097152 {
			part = 100
		}
		n := nBlocks / part * row.tuple.Size
		v := mustView(t, row.tuple.Hole, []fileview.Tuple{row.tuple}, fileview.Forever)
		for m, want := range row.want {
			f := mustFile(t, nullFile{}, v, fileview.Options{Rule: m, Device: wr})
			if _, err := f.ReadAt(p[:n], 0); err != nil {
				t.Fatal(err)
			}
			if got, w := f.Stats(), (fileview.Stats{Reads: want.calls / part, Read: want.bytes / part, Useful: n}); got != w {
				t.Errorf("%v %v:\n got %+v\nwant %+v", row.tuple, m, got, w)
			}
		}
	}
}

// A write reads and writes each access that has a hole, and only writes the
// others. It stops at the last block, so that ROMIO does not fill.
func TestCountersWritten(t *testing.T) {
	t.Parallel()
	p := make([]byte, nBlocks*32768)
	for _, c := range []struct {
		tuple fileview.Tuple
		m     fileview.Method
		want  fileview.Stats
	}{
		{counters[0].tuple, fileview.Naive, fileview.Stats{Writes: 1000, Written: 4_096_000, Locks: 1000}},
		{counters[0].tuple, fileview.ROMIO, fileview.Stats{Reads: 2, Read: 8_183_808, Writes: 2, Written: 8_183_808, Locks: 2, Rewrites: 2}},
		{counters[0].tuple, fileview.Extent, fileview.Stats{Reads: 2, Read: 8_183_808, Writes: 2, Written: 8_183_808, Locks: 2, Rewrites: 2}},
		{counters[0].tuple, fileview.PerformanceModel, fileview.Stats{Reads: 2, Read: 8_183_808, Writes: 2, Written: 8_183_808, Locks: 2, Rewrites: 2}},
		{counters[0].tuple, fileview.Adaptive, fileview.Stats{Reads: 2, Read: 8_183_808, Writes: 2, Written: 8_183_808, Locks: 2, Rewrites: 2}},
		// 2·(4096+100000) bytes for one call less: not for a write.
		{counters[1].tuple, fileview.PerformanceModel, fileview.Stats{Reads: 25, Read: 101_596_000, Writes: 25, Written: 101_596_000, Locks: 25, Rewrites: 25}},
		{counters[1].tuple, fileview.Adaptive, fileview.Stats{Writes: 1000, Written: 4_096_000, Locks: 1000}},
		{counters[3].tuple, fileview.ROMIO, fileview.Stats{Reads: 200, Read: 200 * 4_163_840, Writes: 200, Written: 200 * 4_163_840, Locks: 200, Rewrites: 200}},
		{counters[3].tuple, fileview.PerformanceModel, fileview.Stats{Writes: 1000, Written: 32_768_000, Locks: 1000}},
		{fileview.Tuple{Size: 32768}, fileview.ROMIO, fileview.Stats{Writes: 8, Written: 32_768_000, Locks: 8}},
		{fileview.Tuple{Size: 32768}, fileview.Adaptive, fileview.Stats{Writes: 8, Written: 32_768_000, Locks: 8}},
	} {
		c.want.Useful = nBlocks * c.tuple.Size
		v := mustView(t, c.tuple.Hole, []fileview.Tuple{c.tuple}, fileview.Forever)
		f := mustFile(t, nullFile{}, v, fileview.Options{Rule: c.m, Device: wr})
		if _, err := f.WriteAt(p[:c.want.Useful], 0); err != nil {
			t.Fatal(err)
		}
		if got := f.Stats(); got != c.want {
			t.Errorf("%v %v:\n got %+v\nwant %+v", c.tuple, c.m, got, c.want)
		}
		if got := f.Plan(fileview.Write, 0, c.want.Useful); got != c.want {
			t.Errorf("%v %v planned:\n got %+v\nwant %+v", c.tuple, c.m, got, c.want)
		}
	}
}

// The data and hole sizes of Zickler (thesis, 2015), Table 5.1.
var (
	dataSizes = []int64{8, 64, 100, 1000, 4096, 32768, 100_000, 1_000_000, 2_097_152}
	holeSizes = []int64{0, 8, 64, 100, 1000, 4096, 32768, 100_000, 1_000_000, 2_097_152, 10_000_000}
)

// The model joins over holes below bandwidth·latency and not over others.
func TestPerformanceModelBreakEven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		latency        time.Duration
		most           int64 // the longest hole that is joined over
		mostOfTheTable int64
	}{
		{80 * time.Microsecond, 9_898, 4096},
		{1080 * time.Microsecond, 133_630, 100_000},
		{8080 * time.Microsecond, 999_754, 100_000},
	} {
		d := fileview.Device{Bandwidth: 118 * mib, Latency: c.latency}
		joins := func(hole int64) bool {
			return plan(t, fileview.PerformanceModel, d, fileview.Read, fileview.Tuple{Size: 1000, Hole: hole}, 2).Reads == 1
		}
		if !joins(c.most) || joins(c.most+1) {
			t.Errorf("latency %v: joins over %d bytes: %v, over one more: %v", c.latency, c.most, joins(c.most), joins(c.most+1))
		}
		for _, hole := range holeSizes {
			if joins(hole) != (hole <= c.mostOfTheTable) {
				t.Errorf("latency %v: joins over %d bytes: %v", c.latency, hole, joins(hole))
			}
		}
	}
	// Strictly less: a hole that takes as long as a call is not joined over.
	d := fileview.Device{Bandwidth: 1 << 20, Latency: 500 * time.Millisecond}
	s := fileview.Step{Access: fileview.Read, Len: 1, Data: 1, Hole: 1 << 19, Size: 1, Rest: 1, Buffer: 1 << 30, Device: d}
	if got := fileview.PerformanceModel.Decide(s); got.Take != 0 {
		t.Errorf("joins over the break-even hole: %+v", got)
	}
}

// Times by calls and bytes, as rates in MiB/s. A request is 30 MB of data, as in
// Zickler (thesis, 2015), section 5.1; the figures were worked out apart from
// this program, for the thesis prints none.
func TestRates(t *testing.T) {
	t.Parallel()
	rate := func(m fileview.Method, d fileview.Device, a fileview.Access, tuple fileview.Tuple) float64 {
		v := mustView(t, tuple.Hole, []fileview.Tuple{tuple}, fileview.Forever)
		s := mustFile(t, nullFile{}, v, fileview.Options{Rule: m, Device: d}).Plan(a, 0, 30_000_000)
		return float64(s.Useful) / mib / seconds(s, d)
	}
	for _, c := range []struct {
		tuple            fileview.Tuple
		naive, romio, pm float64
		digit            float64
	}{
		{fileview.Tuple{Size: 4096, Hole: 4096}, 3.5, 57, 57, 1},
		{fileview.Tuple{Size: 32768, Hole: 1_000_000}, 23.2, 4.5, 23.2, 0.1},
		{fileview.Tuple{Size: 1_000_000, Hole: 10_000_000}, 104, 27, 104, 1},
		{fileview.Tuple{Size: 2_097_152, Hole: 100_000}, 110.6, math.NaN(), 109.0, 0.1},
	} {
		for m, want := range map[fileview.Method]float64{fileview.Naive: c.naive, fileview.ROMIO: c.romio, fileview.PerformanceModel: c.pm} {
			if got := rate(m, wr, fileview.Read, c.tuple); math.Abs(got-want) > c.digit/2 {
				t.Errorf("read %v %v: %.2f MiB/s, want %v", c.tuple, m, got, want)
			}
		}
	}
	// Without the disk: size/(size/bandwidth + 0.08 ms).
	gbe := fileview.Device{Bandwidth: wr.Bandwidth, Latency: 80 * time.Microsecond}
	for i, want := range []float64{0.10, 0.76, 1.18, 10.8, 34.5, 90.6, 107.4, 116.8, 117.4} {
		s := plan(t, fileview.Naive, gbe, fileview.Write, fileview.Tuple{Size: dataSizes[i], Hole: 1}, 1)
		digit := 0.1
		if want < 10 {
			digit = 0.01
		}
		if got := float64(s.Useful) / mib / seconds(s, gbe); math.Abs(got-want) > digit/2 {
			t.Errorf("naive write of %d bytes: %.3f MiB/s, want %v", dataSizes[i], got, want)
		}
	}
}

// Over the whole of Table 5.1 the adaptive rule takes no longer than the naive
// one, reading and writing. (The performance model does, where the end of the
// buffer cuts a block.)
func TestAdaptiveIsNeverWorse(t *testing.T) {
	t.Parallel()
	better := 0
	for _, stripe := range []int64{0, 128 << 10, 2 * mib} {
		for _, size := range dataSizes {
			for _, hole := range holeSizes {
				for _, a := range []fileview.Access{fileview.Read, fileview.Write} {
					d := wr
					d.Stripe = stripe
					tuple := fileview.Tuple{Size: size, Hole: hole}
					naive := seconds(plan(t, fileview.Naive, d, a, tuple, nBlocks), d)
					got := seconds(plan(t, fileview.Adaptive, d, a, tuple, nBlocks), d)
					if got > naive*(1+1e-12) {
						t.Errorf("%v %v, stripe %d: %.6f s, naive %.6f s", a, tuple, stripe, got, naive)
					}
					if got < naive*0.9 {
						better++
					}
				}
			}
		}
	}
	if better < 100 {
		t.Errorf("better than naive in %d cases only", better)
	}
}
