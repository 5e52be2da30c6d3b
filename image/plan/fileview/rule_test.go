package fileview_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ckpt/image/plan/fileview"
)

// calls runs one request on an empty file and returns what the file saw, as
// offset+length, writes with a w before them.
func calls(t *testing.T, o fileview.Options, a fileview.Access, v *fileview.View, viewOff, n int64) string {
	t.Helper()
	m := &memFile{}
	if a == fileview.Read {
		m.data = make([]byte, 4096)
	}
	f := mustFile(t, m, v, o)
	p := make([]byte, n)
	var err error
	if a == fileview.Read {
		_, err = f.ReadAt(p, viewOff)
	} else {
		_, err = f.WriteAt(p, viewOff)
	}
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, c := range m.calls {
		s := fmt.Sprintf("%d+%d", c.off, c.n)
		if c.write {
			s = "w" + s
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}

// The accesses of each rule, to the byte.
func TestRules(t *testing.T) {
	t.Parallel()
	// A byte takes 10 ms, a call as long as 25 bytes.
	dev := fileview.Device{Bandwidth: 100, Latency: 250 * time.Millisecond}
	striped, both := dev, dev
	striped.Stripe = 64
	both.Stripe, both.Block = 64, 16
	// Blocks at 10, 40, 70, ...; and at 10, 25, 75, 90, 140, ...
	even := []fileview.Tuple{{Size: 10, Hole: 20}}
	pairs := []fileview.Tuple{{Size: 10, Hole: 5}, {Size: 10, Hole: 40}}
	for _, c := range []struct {
		name       string
		rule       fileview.Method
		buffer     int64
		dev        fileview.Device
		access     fileview.Access
		tuples     []fileview.Tuple
		viewOff, n int64
		want       string
	}{
		{"one call per block", fileview.Naive, 100, dev, fileview.Read, pairs, 5, 20, "15+5 25+10 75+5"},
		{"a block larger than the buffer", fileview.Naive, 4, dev, fileview.Read, pairs, 0, 11, "10+4 14+4 18+2 25+1"},
		{"blocks that touch", fileview.Naive, 100, dev, fileview.Read, []fileview.Tuple{{Size: 8}}, 0, 20, "10+8 18+8 26+4"},

		{"fills with hole", fileview.ROMIO, 64, dev, fileview.Read, pairs, 0, 30, "10+64 75+10"},
		{"fills at the end of the request", fileview.ROMIO, 25, dev, fileview.Read, pairs, 0, 20, "10+25"},
		{"fills with half a block", fileview.ROMIO, 70, dev, fileview.Read, pairs, 0, 40, "10+70 80+20"},
		{"joins what touches", fileview.ROMIO, 100, dev, fileview.Write, []fileview.Tuple{{Size: 8}}, 0, 20, "w10+20"},
		{"does not fill a write", fileview.ROMIO, 64, dev, fileview.Write, pairs, 0, 40, "10+25 w10+25 75+25 w75+25"},
		{"plain write of one block", fileview.ROMIO, 25, dev, fileview.Write, even, 0, 20, "w10+10 w40+10"},

		{"first to last byte", fileview.Extent, 64, dev, fileview.Read, pairs, 0, 40, "10+25 75+25"},
		{"half a block", fileview.Extent, 70, dev, fileview.Read, pairs, 0, 40, "10+70 80+20"},

		{"whole stripes", fileview.ScanFile, 150, striped, fileview.Read, pairs, 0, 60, "0+128 128+64"},
		{"stripes within a hole", fileview.ScanFile, 64, striped, fileview.Read, []fileview.Tuple{{Size: 10, Hole: 200}}, 0, 20, "0+64 64+64 128+64 192+64"},
		{"blocks if a stripe does not fit", fileview.ScanFile, 40, both, fileview.Read, even, 0, 20, "0+32 32+32"},
		{"bytes if there are none", fileview.ScanFile, 40, dev, fileview.Read, even, 0, 20, "10+40"},
		{"ends within a block", fileview.ScanFile, 64, striped, fileview.Read, []fileview.Tuple{{Size: 500}}, 0, 70, "0+64 64+64"},
		{"begins within a block", fileview.ScanFile, 64, striped, fileview.Read, []fileview.Tuple{{Size: 500}}, 60, 10, "64+64"},
		{"a write skips holes", fileview.ScanFile, 64, striped, fileview.Write, []fileview.Tuple{{Size: 10, Hole: 200}}, 0, 20, "w10+10 w220+10"},
		{"a write ends with a stripe", fileview.ScanFile, 64, striped, fileview.Write, pairs, 0, 40, "10+25 w10+25 75+25 w75+25"},
		{"a write does not begin with a stripe", fileview.ScanFile, 124, striped, fileview.Write, even, 0, 50, "10+100 w10+100 w130+10"},
		{"a large block is written to the end of a stripe", fileview.ScanFile, 124, striped, fileview.Write, []fileview.Tuple{{Size: 200}}, 0, 150, "w10+118 w128+32"},
		{"a write is cut by a stripe", fileview.ScanFile, 64, striped, fileview.Write, even, 0, 30, "10+40 w10+40 w70+10"},

		{"below the break-even", fileview.PerformanceModel, 200, dev, fileview.Read, pairs, 0, 40, "10+25 75+25"},
		{"cuts a block", fileview.PerformanceModel, 20, dev, fileview.Read, pairs, 0, 20, "10+20 30+5"},
		{"no model", fileview.PerformanceModel, 200, fileview.Device{}, fileview.Read, pairs, 0, 20, "10+10 25+10"},

		{"reads over short holes", fileview.Adaptive, 200, dev, fileview.Read, pairs, 0, 40, "10+25 75+25"},
		{"does not cut a block", fileview.Adaptive, 20, dev, fileview.Read, pairs, 0, 20, "10+10 25+10"},
		{"not across a stripe", fileview.Adaptive, 200, striped, fileview.Read, even, 0, 30, "10+40 70+10"},
		{"to the end of a stripe", fileview.Adaptive, 200, striped, fileview.Read, []fileview.Tuple{{Size: 10, Hole: 12}}, 0, 40, "10+54 76+10"},
		{"a device block is moved once", fileview.Adaptive, 200, fileview.Device{Block: 16}, fileview.Read, pairs, 0, 40, "10+25 75+25"},
		{"two device blocks", fileview.Adaptive, 200, fileview.Device{Block: 16}, fileview.Read, even, 0, 20, "10+10 40+10"},
		{"a large block ends with a stripe", fileview.Adaptive, 100, both, fileview.Read, []fileview.Tuple{{Size: 200}}, 0, 200, "10+54 64+64 128+82"},
		{"a large block ends with a device block", fileview.Adaptive, 40, both, fileview.Read, []fileview.Tuple{{Size: 70}}, 0, 70, "10+38 48+32"},
		{"a large block without alignment", fileview.Adaptive, 40, dev, fileview.Read, []fileview.Tuple{{Size: 70}}, 0, 70, "10+40 50+30"},
		{"what touches, without a model", fileview.Adaptive, 100, fileview.Device{}, fileview.Write, []fileview.Tuple{{Size: 8}}, 0, 20, "w10+20"},
		// Reading and writing 25 bytes, 100 in all, or 20 bytes and a call more, 70.
		{"no rewrite for two blocks", fileview.Adaptive, 200, dev, fileview.Write, pairs, 0, 20, "w10+10 w25+10"},
		// 5 bytes and a hole of 1, ten times: 2·59+2·25 bytes against 50+10·25.
		{"a rewrite for ten", fileview.Adaptive, 200, dev, fileview.Write, []fileview.Tuple{{Size: 5, Hole: 1}}, 0, 50, "10+59 w10+59"},
		{"a rewrite stops before a large block", fileview.Adaptive, 200, dev, fileview.Write,
			append(slices.Repeat([]fileview.Tuple{{Size: 5, Hole: 1}}, 5), fileview.Tuple{Size: 5}, fileview.Tuple{Size: 60}), 0, 90, "10+35 w10+35 w45+60"},
	} {
		v := mustView(t, 10, c.tuples, 20)
		o := fileview.Options{Rule: c.rule, Buffer: c.buffer, Device: c.dev}
		if got := calls(t, o, c.access, v, c.viewOff, c.n); got != c.want {
			t.Errorf("%v, %s:\n got %s\nwant %s", c.rule, c.name, got, c.want)
		}
	}
}

// always is a rule with one answer.
type always fileview.Decision

func (r always) Decide(fileview.Step) fileview.Decision { return fileview.Decision(r) }

// An answer of a rule is cut to the buffer or the hole; the request still completes.
func TestAnswersAreCut(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	for _, c := range []struct {
		rule   always
		hole   int64
		access fileview.Access
		want   string
	}{
		{always{Fill: most}, 3, fileview.Read, "10+13 23+16"},
		{always{}, 20, fileview.Read, "10+10 40+10"},
		{always{Take: -1, Lead: -1, Fill: -1}, 20, fileview.Read, "10+10 40+10"},
		{always{Take: 4}, 20, fileview.Read, "10+4 14+4 18+2 40+4 44+4 48+2"},
		{always{Take: most}, 20, fileview.Read, "10+10 40+10"},
		{always{Take: most, Lead: most}, 20, fileview.Read, "0+16 16+4 25+16 41+9"},
		{always{Take: most, Fill: most}, 20, fileview.Read, "10+16 40+16"},
		{always{Lead: most}, 20, fileview.Read, "0+16 16+4 25+16 41+9"},
		{always{Lead: most, Fill: most}, 20, fileview.Read, "0+10 10+16 26+14 40+16"},
		{always{Lead: most, Fill: most}, 40, fileview.Read, "0+10 10+16 26+16 42+16 58+2 60+16"},
		{always{Lead: 12, Fill: 7}, 20, fileview.Read, "0+7 7+3 10+16 28+7 35+5 40+16"},
		{always{Take: most, Lead: most, Fill: most}, 20, fileview.Write, "w10+10 w40+10"},
	} {
		v := mustView(t, 10, []fileview.Tuple{{Size: 10, Hole: c.hole}}, 20)
		if got := calls(t, fileview.Options{Rule: c.rule, Buffer: 16}, c.access, v, 0, 20); got != c.want {
			t.Errorf("%+v, hole %d, %v:\n got %s\nwant %s", c.rule, c.hole, c.access, got, c.want)
		}
	}
}

func TestMethodNames(t *testing.T) {
	t.Parallel()
	for _, m := range methods {
		text, err := m.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		back := fileview.Method(99)
		if err := back.UnmarshalText(text); err != nil || back != m || m.String() != string(text) {
			t.Errorf("%v is %q and that is %v, %v", m, text, back, err)
		}
	}
	m := fileview.Naive
	if err := m.UnmarshalText([]byte("Naive")); err == nil || !strings.Contains(err.Error(), "performance-model") || m != fileview.Naive {
		t.Errorf("Naive with a capital letter: %v, %v", m, err)
	}
	if _, err := fileview.Method(99).MarshalText(); err == nil {
		t.Error("method 99 has a name")
	}
}
