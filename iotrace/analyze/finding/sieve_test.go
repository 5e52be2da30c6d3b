package finding

import (
	"slices"
	"testing"
)

// reader is a run that reads 2000 times 4 KiB in 2 s with holes between the reads, and large
// blocks at 400 MB/s.
func reader(hole float64) *Run {
	small := Work{Count: 2000, Bytes: 2000 * 4096, Time: 2, Wall: 2}
	large := Work{Count: 8, Bytes: 32e6, Time: 0.08, Wall: 0.08}
	all := Work{Count: 2008, Bytes: small.Bytes + large.Bytes, Time: 2.08, Wall: 2.08}
	class := Class{Work: all, Large: large}
	return &Run{Time: 3, Wall: 3, Timed: true, Ranks: 1, ActiveRanks: 1, Busy: 2.08,
		Data: [2]Class{{}, class}, Small: [2]Work{{}, small},
		Files: []File{{Name: "/d", Ranks: 1, Readers: 1, Touchers: 1, Data: [2]Class{{}, class}, Small: [2]Work{{}, small}, Hole: hole}}}
}

func TestSieve(t *testing.T) {
	found := func(hole float64) *Finding {
		all := Find(reader(hole), Default())
		if i := slices.IndexFunc(all, func(f Finding) bool { return f.Code == "CK13" }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	none, near := found(0), found(12288)
	if none == nil || slices.Contains(none.Hints, overHoles) {
		t.Fatalf("without holes: %+v", none)
	}
	if near == nil || near.Hints[0] != overHoles || *near.Gain >= *none.Gain {
		t.Fatalf("with holes: %+v", near)
	}
	// A read takes 1 ms, in which 400 kB could be read.
	i := slices.IndexFunc(near.Evidence, func(n Number) bool { return n.Name == "hole_bytes" })
	if i < 0 || near.Evidence[i].Value != 12288 || near.Evidence[i].Limit < 370e3 || near.Evidence[i].Limit > 400e3 {
		t.Errorf("%+v", near.Evidence)
	}
	if far := found(1 << 20); far != nil {
		t.Errorf("holes beyond the break-even: %+v", far)
	}
}
