package benchmarks

import (
	"math"
	"testing"
)

// TestSieve checks the figures that do not depend on the machine: each pattern has every
// rule, and a rule reads all blocks in no more calls than there are blocks.
func TestSieve(t *testing.T) {
	told := int64(0)
	o := sieveOptions{Size: 8 << 20, Rounds: 1, Progress: func(n int64) { told += n }}
	r, err := measureSieve(t.Context(), t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Patterns) != len(sieveSizes)*len(sieveSizes) || r.BreakEven <= 0 || told == 0 {
		t.Errorf("%d patterns, break-even %d bytes, told of %d bytes", len(r.Patterns), r.BreakEven, told)
	}
	for _, p := range r.Patterns {
		blocks := max(1, o.Size/(p.Data+p.Hole))
		for _, rule := range p.Rules {
			if rule.Bytes < blocks*p.Data || rule.Seconds <= 0 || rule.Calls > blocks {
				t.Errorf("blocks of %d, holes of %d bytes: %+v", p.Data, p.Hole, rule)
			}
		}
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
