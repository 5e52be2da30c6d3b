package job

import (
	"errors"
	"strings"
	"testing"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/zones"
	"ckpt/zones/global"
)

// rows is the part of a rank that has some of ten rows.
func rows(first, count int64) *global.Part {
	return &global.Part{Elem: 8, Axes: []global.Stretch{{Cells: 10, First: first, Count: count}, {Cells: 3, Count: 3}}}
}

// rowsManifest is that of ranks with these parts, and a replicated region.
func rowsManifest(parts ...*global.Part) *image.Manifest {
	m := &image.Manifest{Number: 4, NP: len(parts)}
	for i, p := range parts {
		m.Ranks = append(m.Ranks, image.Rank{Rank: i, Replicated: []string{"time"}, Global: []image.GlobalPart{{Region: "u", Part: *p}}})
	}
	return m
}

func TestDealt(t *testing.T) {
	m := rowsManifest(rows(0, 5), rows(5, 5))
	clock := zones.Region{Name: "time", Replicated: true}
	for _, c := range []struct {
		np, rank int
		part     *global.Part
		want     bool
	}{
		{2, 1, rows(5, 5), false},
		{2, 1, rows(4, 6), true},
		{3, 1, rows(5, 5), true},
		{3, 2, rows(5, 5), true},
	} {
		if got := Dealt(m, c.np, c.rank, []zones.Region{clock, {Name: "u", Part: c.part}}); got != c.want {
			t.Errorf("rank %d of %d with %+v: %t", c.rank, c.np, c.part, got)
		}
	}
}

func TestCheckParts(t *testing.T) {
	m := rowsManifest(rows(0, 5), rows(5, 5))
	u, clock, own := zones.Region{Name: "u", Part: rows(0, 10)}, zones.Region{Name: "time", Replicated: true}, zones.Region{Name: "own"}
	for _, c := range []struct {
		np      int
		regions []zones.Region
		want    string
	}{
		{1, []zones.Region{u, clock}, ""},
		{2, []zones.Region{u, clock, own}, ""},
		{1, []zones.Region{u, clock, own}, `region "own" of rank 0 belongs to that rank alone: 1 rank cannot resume from checkpoint 4 of 2`},
		{1, []zones.Region{clock}, `checkpoint 4 has region "u", which rank 0 does not protect`},
		{1, []zones.Region{u}, `checkpoint 4 has region "time", which rank 0 does not protect`},
	} {
		err := CheckParts(m, c.np, 0, c.regions)
		switch {
		case c.want == "" && err == nil:
		case err == nil || err.Error() != c.want:
			t.Errorf("%v, want %q", err, c.want)
		case !errors.Is(err, container.ErrRegionsDiffer):
			t.Errorf("%v is not an error of regions", err)
		}
	}
}

func TestCheckArrays(t *testing.T) {
	group := func(first int, parts ...*global.Part) *image.Manifest {
		m := rowsManifest(parts...)
		for i := range m.Ranks {
			m.Ranks[i].Rank += first
		}
		m.NP = 8
		return m
	}
	absent, other := rowsManifest(rows(0, 5), rows(5, 5)), rowsManifest(rows(0, 5), rows(5, 5))
	absent.Ranks[1].Global = nil
	other.Ranks[1].Replicated = []string{"time", "date"}
	for _, c := range []struct {
		m    *image.Manifest
		want string
	}{
		{rowsManifest(rows(0, 5), rows(5, 5)), ""},
		{rowsManifest(rows(0, 6), rows(5, 5)), `array "u": ranks 0 and 1 both hold cell [5 0]`},
		{rowsManifest(rows(0, 5), rows(6, 4)), `array "u": 3 of 30 cells are held by no rank`},
		{group(0, rows(0, 2), rows(2, 3)), ""},
		{group(6, rows(5, 2), rows(8, 2)), ""},
		{group(6, rows(5, 3), rows(7, 3)), `array "u": ranks 6 and 7 both hold cell [7 0]`},
		{absent, `array "u": 1 of 2 ranks protect it`},
		{other, `ranks 0 and 1 protect different replicated regions`},
	} {
		if err := CheckArrays(c.m); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestDealtGroup: a checkpoint of a group holds some ranks, not the first ones.
func TestDealtGroup(t *testing.T) {
	m := rowsManifest(rows(4, 3), rows(7, 3))
	m.NP, m.Ranks[0].Rank, m.Ranks[1].Rank = 4, 2, 3
	for _, c := range []struct {
		rank int
		part *global.Part
		want bool
	}{{2, rows(4, 3), false}, {3, rows(7, 3), false}, {2, rows(7, 3), true}, {0, rows(4, 3), true}} {
		if got := Dealt(m, 4, c.rank, []zones.Region{{Name: "u", Part: c.part}}); got != c.want {
			t.Errorf("rank %d with %+v: %t", c.rank, c.part, got)
		}
	}
}
