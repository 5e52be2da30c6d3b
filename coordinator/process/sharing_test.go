package process

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"ckpt/zones"
	"ckpt/zones/global"
)

// TestSharing: the agent learns which regions are parts of arrays of all ranks, and which
// are the same on all ranks, from programs in C and in Python.
func TestSharing(t *testing.T) {
	t.Parallel()
	for language, start := range map[string]func(t *testing.T) *program{
		"c":      func(t *testing.T) *program { return startProgram(t, plainProgram(t)) },
		"python": startPython,
	} {
		t.Run(language, func(t *testing.T) {
			pr := start(t)
			p := pr.connect()
			pr.do("protect own 80 1")
			pr.do("replicated t 12")
			pr.do("rows u 10 2 4")
			pr.do("columns v 10 2 4")
			pr.do("dealt w 10 2 1")
			pr.tell("rows bad 10 7 4")
			if got := pr.answer(); !strings.Contains(got, "axis 0: 4 cells from 7, halo 1, block 0, stride 0 are no part of 10") {
				t.Errorf("answer %q", got)
			}
			rows := global.Stretch{Cells: 10, First: 2, Count: 4, Halo: 1}
			columns := global.Stretch{Cells: 5, Count: 5}
			want := []zones.Region{
				{Name: "own", Elem: zones.Float64, Size: 80},
				{Name: "t", Elem: zones.Int32, Size: 12, Replicated: true},
				{Name: "u", Elem: zones.Float64, Size: 480, Part: &global.Part{Elem: 16, Axes: []global.Stretch{rows, columns}}},
				{Name: "v", Elem: zones.Float64, Size: 480, Part: &global.Part{Elem: 16, Axes: []global.Stretch{columns, rows}}},
				{Name: "w", Elem: zones.Float64, Size: 320, Part: &global.Part{Elem: 16, Axes: []global.Stretch{{Cells: 10, First: 2, Count: 4, Block: 2, Stride: 6}, columns}}},
			}
			for i, r := range pr.capture(p).Regions {
				r.Mem = nil
				if i >= len(want) || text(r) != text(want[i]) {
					t.Errorf("region %d is %s", i, text(r))
				}
			}
			pr.do("rows u 10 3 3") // it has another part now
			if r := pr.capture(p).Regions[2]; r.Size != 400 || r.Part.Axes[0].First != 3 {
				t.Errorf("after another call the region is %s", text(r))
			}
		})
	}
}

func text(r zones.Region) string {
	part := "none"
	if r.Part != nil {
		part = fmt.Sprintf("%+v", *r.Part)
	}
	return fmt.Sprintf("%s, %d of %v, replicated %v, part %s", r.Name, r.Size, r.Elem, r.Replicated, part)
}

// TestSharingC: C itself refuses what Python cannot say.
func TestSharingC(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	pr.connect()
	pr.tell("uneven u 10 2 4")
	pr.expect("-2 ckpt_protect_global u: 472 bytes do not hold 30 cells of values of 8 bytes, halo included")
	pr.tell("dealt u 10 2 3")
	pr.expect("-2 ckpt_deal: axis 0, 10 cells in blocks of 2, place 3 of 3: out of range")
}

// TestBadPart: a client that describes a part which makes no sense ends the link.
func TestBadPart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		numbers []int64
		bytes   int64
		want    string
		version int
	}{
		{[]int64{1}, 8, "ends early", 2},
		{[]int64{9, 0}, 8, "description of 9 axes", 2},
		{[]int64{2, 0, 1, 0, 1, 0, 0, 0}, 8, "description of 2 axes in", 2},
		{[]int64{1, 2, 1, 0, 1, 0, 0, 0}, 8, "unknown order 2", 2},
		{[]int64{1, 0, 10, 5, 6, 0, 0, 0}, 48, "no part of 10", 2},
		{[]int64{1, 0, 10, 5, 5, 0, 0, 0}, 44, "do not hold 5 cells", 2},
		{[]int64{1, 0, 10, 5, 5, 0, 0, 0}, 80, "", 2},
		{[]int64{1, 0, 10, 5, 5, 0, 0, 0, 1, 2, 0, 0}, 64, "", 3},
		{[]int64{1, 0, 10, 5, 5, 0, 0, 0, 0, 0, 3, 0}, 64, "", 3},
		{[]int64{1, 0, 10, 5, 5, 0, 0, 0, 11, 0, 0, 0}, 128, "no part of 10", 3},
		{[]int64{1, 0, 10, 5, 5, 0, 0, 0, 0, 0, 0, 9}, 40, "ends early", 3},
	} {
		m := message{kind: kindProtect, value: uint32(zones.Float64), a: 1 << 40, b: c.bytes, c: sharingGlobal}
		for _, n := range c.numbers {
			m.payload = binary.LittleEndian.AppendUint64(m.payload, uint64(n))
		}
		if len(c.numbers) > 1 {
			m.payload = append(m.payload, 'u')
		}
		r, err := parseRegion(m, c.version)
		if err == nil {
			var t table
			err = t.protect(r)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.numbers, err, c.want)
		}
	}
}
