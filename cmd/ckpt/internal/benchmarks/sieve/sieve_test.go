package sieve

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/image"
	"ckpt/image/plan/fileview"
	"ckpt/internal/vfs"
)

// TestFile checks the figures that do not depend on the machine: a rule reads all blocks, in no
// more calls than there are blocks, and one that makes naive's calls is named.
func TestFile(t *testing.T) {
	f, remove, err := measured(t.Context(), vfs.OS{}, t.TempDir(), cold, 4<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	order := rand.New(rand.NewPCG(1, 1))
	for _, a := range []fileview.Access{fileview.Read, fileview.Write} {
		for _, c := range []struct{ data, hole int64 }{{4096, 4096}, {64, 1 << 20}} {
			p, err := newPattern(0, c.data, c.hole, 4<<20)
			if err != nil {
				t.Fatal(err)
			}
			device := fileview.Device{Bandwidth: 1 << 30, Latency: 1000, Block: 4096} // which joins nothing
			row, err := compare(t.Context(), f, a, p, device, joining, 2, order)
			if err != nil {
				t.Fatal(err)
			}
			blocks := p.bytes / c.data
			for _, r := range row.Rules {
				moved, calls := r.Bytes, r.Calls
				if a == fileview.Write {
					moved, calls = r.Written, r.Writes
				}
				if moved < p.bytes || calls > blocks || r.Seconds <= 0 || row.Naive <= 0 {
					t.Errorf("%v of %d, holes of %d: %+v", a, c.data, c.hole, r)
				}
				if own := r.Rule == fileview.PerformanceModel; own != r.Same && (own || r.Rule == fileview.ROMIO) {
					t.Errorf("%v of %d, holes of %d: same calls as naive: %v: %+v", a, c.data, c.hole, r.Same, r)
				}
			}
		}
	}
}

// erratic takes 1 s, but for the passes that are listed.
type erratic struct {
	passes int
	slow   map[int]float64
	fail   int
}

var errPass = errors.New("pass")

func (e *erratic) repeats() bool { return true }

// A read takes 50 µs and 1 ns for each byte, but for the passes that are listed.
func (e *erratic) reads(_ []int64, length int64) (float64, error) {
	e.passes++
	if e.passes == e.fail {
		return 0, errPass
	}
	return max(50e-6+1e-9*float64(length), e.slow[e.passes]), nil
}

// TestCalibrate: a slow pass changes nothing.
func TestCalibrate(t *testing.T) {
	s, err := calibrate(t.Context(), &erratic{slow: map[int]float64{3: 1, 6: 1}}, 64<<20, 3)
	if err != nil || math.Abs(s.Bandwidth/1e9-1) > 1e-6 || math.Abs(s.Call.Seconds()/50e-6-1) > 1e-3 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := calibrate(t.Context(), &erratic{fail: 2}, 64<<20, 3); !errors.Is(err, errPass) {
		t.Errorf("the second pass fails: %v", err)
	}
	for _, off := range places(4<<20, 1<<20, 2, 5) {
		if off < 0 || off%smallCall != 0 || off+(1<<20) > 4<<20 {
			t.Errorf("a read at %d", off)
		}
	}
}

func (e *erratic) pass(fileview.Access, *pattern, fileview.Rule, fileview.Device) (float64, fileview.Stats, error) {
	e.passes++
	if e.passes == e.fail {
		return 0, fileview.Stats{}, errPass
	}
	return max(1, e.slow[e.passes]), fileview.Stats{Reads: 1}, nil
}

// TestOutliers: passes beyond 20 % are measured again, a bounded number of times, and what is
// left is the scatter.
func TestOutliers(t *testing.T) {
	p, err := newPattern(0, 4096, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	compared := func(e *erratic) (Times, error) {
		return compare(t.Context(), e, fileview.Read, p, fileview.Device{}, joining[:1], 3, rand.New(rand.NewPCG(1, 1)))
	}
	e := &erratic{slow: map[int]float64{2: 1.5, 4: 1.1}}
	row, err := compared(e)
	if err != nil || row.Again != 1 || e.passes != 7 || row.Naive != 1 || row.Rules[0].Speedup != 1 {
		t.Errorf("%+v, %d passes, %v", row, e.passes, err)
	}
	if most := max(row.Scatter, row.Rules[0].Scatter); math.Abs(most-0.1) > 1e-9 {
		t.Errorf("scatter %v, want 0.1", most)
	}
	always := &erratic{slow: map[int]float64{}}
	for i := range 100 {
		always.slow[i] = 1 + float64(i)
	}
	if row, err = compared(always); err != nil || row.Again == 0 || row.Again > 12 || row.Scatter <= outlier {
		t.Errorf("%+v, %v", row, err)
	}
	for fail := 1; fail <= 7; fail++ {
		if _, err := compared(&erratic{slow: map[int]float64{2: 1.5}, fail: fail}); !errors.Is(err, errPass) {
			t.Errorf("pass %d fails: %v", fail, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := compare(ctx, e, fileview.Read, p, fileview.Device{}, nil, 1, rand.New(rand.NewPCG(1, 1))); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled sweep: %v", err)
	}
}

// TestStorageOf solves for a storage of 1 GiB/s whose calls cost 50 µs.
func TestStorageOf(t *testing.T) {
	took := func(n int64) float64 { return 50e-6 + float64(n)/(1<<30) }
	s, err := storageOf(4096, 1<<20, took(4096), took(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(s.Bandwidth/(1<<30)-1) > 1e-6 || math.Abs(s.Call.Seconds()/50e-6-1) > 1e-3 {
		t.Errorf("storage %+v", s)
	}
	if be := s.BreakEven(); be < 53600 || be > 53700 {
		t.Errorf("break-even %d bytes, want 53687", be)
	}
	if s, err := storageOf(4096, 1<<20, 2, 1); err == nil {
		t.Errorf("longer calls that take less time make %+v", s)
	}
}

// TestResultsOfAnotherDirectory: results of "." go on in the directory where they were begun only.
func TestResultsOfAnotherDirectory(t *testing.T) {
	name, here, there := filepath.Join(t.TempDir(), "results"), t.TempDir(), t.TempDir()
	open := func(dir string) error {
		t.Chdir(dir)
		k, err := openResults(name, &Result{Dir: "."}, "")
		if err == nil {
			err = errors.Join(k.begin(image.Storage{Call: 1}), k.journal.Close())
		}
		return err
	}
	if err := open(here); err != nil {
		t.Fatal(err)
	}
	if err := open(there); err == nil || !strings.Contains(err.Error(), here) {
		t.Errorf("results of %s in another directory: %v", here, err)
	}
	if err := open(here); err != nil {
		t.Error(err)
	}
}
