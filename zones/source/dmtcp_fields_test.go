package source

import (
	"testing"

	"ckpt/internal/testkit"
	"ckpt/zones"
)

// all is the mask of a field every bit of which is checked.
const all = ^uint64(0)

// low are the bits of the slots that are 32 bits wide.
const low = 1<<32 - 1

// A field is eight bytes of an area header, and which of their bits cannot
// change without being found. This is what the package comment says.
type field struct {
	name                string
	at                  int64
	whole, dropped, cut uint64 // in areas stored whole, as nothing, and cut into runs
}

var fields = []field{
	{"start", 0, all, all, all},
	{"end", 8, all, all, all},
	{"size", 16, all, all, all},
	{"offset", 24, 0xfff, 0xfff, all},
	{"protection", 32, low &^ 7, low &^ 7, low},
	{"flags", 40, low &^ (0x10 | 0x100 | 0x4000 | 0x20000), low &^ (0x10 | 0x100 | 0x4000 | 0x20000), low},
	{"major", 48, all &^ 0xfff, all &^ 0xfff, all},
	{"minor", 56, all &^ 0xfffff, all &^ 0xfffff, all},
	{"inode", 64, 0, 0, all},
	{"length", 72, all, all, all},
	{"properties", 80, all, all, all},
}

// TestDamagedAreaHeaders changes bits, at night all, of the fields of all headers. Detectable
// changes are found in the header, or where the next one is or should be. The others
// change no length.
func TestDamagedAreaHeaders(t *testing.T) {
	im := mixed()
	f := flipper{t: t, b: im.Bytes(), headers: im.Headers(), every: 3}
	if testkit.Nightly() {
		f.every = 1
	}
	f.whole = mustReadImage(t, f.b)
	i := 0
	for _, a := range im.Areas {
		for range 1 + len(a.Runs) {
			for _, field := range fields {
				mask := field.whole
				switch {
				case a.Runs != nil:
					mask = field.cut
				case a.Dropped:
					mask = field.dropped
				}
				for bit := range 64 {
					f.flip(i, field.name, field.at, bit, mask&(1<<bit) != 0)
				}
			}
			// Of the name of a file's area the slash is checked, of that of an
			// area in runs all, even if it is empty.
			for bit := range 8 * max(len(a.Name), 1) {
				f.flip(i, "name", atName, bit, a.Runs != nil || bit < 8 && !a.Dropped)
			}
			i++
		}
	}
	for bit := range 64 {
		f.flip(i, "start", atStart, bit, true)
		f.flip(i, "end", atEnd, bit, false)
		f.flip(i, "size", atSize, bit, true)
		f.flip(i, "properties", atProperties, bit, false)
	}
	if f.found < 10000/f.every || f.missed < 1000/f.every {
		t.Errorf("%d bits found, %d missed: too few were tried", f.found, f.missed)
	}
}

// A flipper changes bits of an image and looks at what a reader makes of it.
type flipper struct {
	t             *testing.T
	b             []byte
	headers       []int64
	whole         *zones.Process
	tried, every  int // every so many bits
	found, missed int
}

// flip changes a bit of a field of header i.
func (f *flipper) flip(i int, name string, field int64, bit int, find bool) {
	f.t.Helper()
	if f.tried++; f.tried%f.every != 0 {
		return
	}
	at := f.headers[i] + field + int64(bit/8)
	f.b[at] ^= 1 << (bit % 8)
	p, err := readImage(f.b)
	f.b[at] ^= 1 << (bit % 8)
	switch {
	case !find:
		f.missed++
		if err != nil || p.Unpacked != f.whole.Unpacked || len(p.Areas) != len(f.whole.Areas) || p.Image() != f.whole.Image() {
			f.t.Errorf("header %d, %s, bit %d: %v; was not said to be found", i, name, bit, err)
		}
		return
	case err == nil:
		f.t.Errorf("header %d, %s, bit %d is not found", i, name, bit)
		return
	}
	f.found++
	fe := formatError(f.t, err, int64(len(f.b)))
	// Only a field that says how much follows leads astray.
	next := f.headers[min(i+1, len(f.headers)-1)] + headerSize
	if fe.Offset < f.headers[i] || fe.Unsupported || fe.Offset >= next && name != "length" && name != "properties" {
		f.t.Errorf("header %d at %d, %s, bit %d: %v", i, f.headers[i], name, bit, err)
	}
}
