package source

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/zones"
	"ckpt/zones/dmtcptest"
)

// TestDamagedGzip changes bits of a compressed image. A few mean nothing: in
// gzip's header when and where it was made, padding before a stored block.
func TestDamagedGzip(t *testing.T) {
	im := tiny()
	im.Gzip = true
	b := im.Bytes()
	want := mustReadImage(t, b)
	missed := 0
	for i := 2; i < len(b); i = imageStep(i, len(b)) {
		b[i] ^= 1 << (i % 8)
		p, err := readImage(b)
		b[i] ^= 1 << (i % 8)
		if err != nil {
			formatError(t, err, 1<<30)
			continue
		}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Errorf("byte %d: %s", i, diff)
		}
		missed++
	}
	if missed > 8 {
		t.Errorf("%d bits are not found", missed)
	}
	_, err := readImage(append(bytes.Clone(b), "rubbish"...))
	if fe := formatError(t, err, im.Size()); fe.Offset != im.Size() {
		t.Error(err)
	}
}

func TestDamagedFileHeader(t *testing.T) {
	im := tiny()
	b := im.Bytes()
	for i := range 2 * headerSize {
		for bit := range 8 {
			if i%headerSize >= 256 && bit != i%8 {
				continue // of names and padding, a bit of each byte
			}
			b[i] ^= 1 << bit
			_, err := NewImageScanner("image", bytes.NewReader(b), -1)
			b[i] ^= 1 << bit
			if fe := formatError(t, err, 2*headerSize); fe.Offset != int64(i%headerSize) || fe.Unsupported {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
}

// TestRubbish changes all bytes that mean nothing.
func TestRubbish(t *testing.T) {
	im := mixed()
	b := im.Bytes()
	want := mustReadImage(t, b)
	r := dmtcptest.Noise(77)
	headers := im.Headers()
	for _, at := range headers[:len(headers)-1] {
		h := b[at : at+headerSize]
		r(h[atProt+4:atProt+8], at)
		r(h[atFlags+4:atFlags+8], at)
		end := atName + bytes.IndexByte(h[atName:], 0) + 1
		r(h[end:], at)
	}
	m := b[headers[len(headers)-1]:]
	r(m[8:16], 0)
	r(m[24:], 0)
	if diff := cmp.Diff(want, mustReadImage(t, b)); diff != "" {
		t.Error(diff)
	}
	im.Seed++
	if diff := cmp.Diff(want, mustReadImage(t, im.Bytes())); diff != "" {
		t.Error(diff)
	}
}

// TestContradictions makes images that are wrong in more than a bit.
func TestContradictions(t *testing.T) {
	// The headers of mixed: 0 executable, 1 its data, 2 device, 3 nscd, 4 heap
	// with runs 5 to 7, 8 reserved with run 9, 10 segment with run 11, 12 stack
	// with runs 13 and 14, 15 end marker.
	im := mixed()
	b, h := im.Bytes(), im.Headers()
	move := func(b []byte, at int64, start, end uint64) []byte {
		return with(with(with(b, at, start), at+8, end), at+16, end-start)
	}
	cat := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	for _, c := range []struct {
		name   string
		b      []byte
		at     int64
		reason string
	}{
		{"marker twice", cat(b, b[h[15]:]), int64(len(b)), "follow the end marker"},
		{"byte behind", append(bytes.Clone(b), 0), int64(len(b)), "follow the end marker"},
		{"no marker", b[:h[15]], h[15], "without its end marker"},
		{"marker in an area", cat(b[:h[6]], b[h[15]:]), h[6], "comes before the runs"},
		{"marker without size", with(b, h[15]+16, 4096), h[15], "starts at 0"},
		{"marker with a start", with(b, h[15], 1<<47), h[15] + 8, "not after its start"},
		{"empty area", move(b, h[0], 0x400000, 0x400000), h[0] + 8, "not after its start"},
		{"backward area", move(b, h[0], 0x402000, 0x400000), h[0] + 8, "not after its start"},
		{"odd start", move(b, h[0], 0x400001, 0x402000), h[0], "multiple of the page size"},
		{"odd end", move(b, h[0], 0x400000, 0x401fff), h[0] + 8, "multiple of the page size"},
		{"kernel's addresses", move(b, h[0], 0xffffffffff600000, 0xffffffffff601000), h[0] + 8, "beyond the addresses"},
		{"overlap", move(b, h[1], 0x401000, 0x405000), h[1], "not above the one before"},
		{"same area twice", cat(b[:h[1]], b[h[0]:]), h[1], "not above the one before"},
		{"descending", cat(b[:h[0]], b[h[4]:h[8]], b[h[0]:]), h[0] + h[8] - h[4], "not above the one before"},
		{"run of no area", cat(b[:h[4]], b[h[5]:]), h[4] + 80, "part of no area"},
		{"run missing", cat(b[:h[6]], b[h[7]:]), h[6], "starts at 0x1a42000, not at 0x1a3f000"},
		{"first run missing", cat(b[:h[5]], b[h[6]:]), h[5], "not at 0x1a3d000"},
		{"last run missing", cat(b[:h[7]], b[h[8]:]), h[7] + 80, "end at 0x1a42000"},
		{"run twice", cat(b[:h[6]], b[h[5]:]), h[6], "starts at 0x1a3d000, not at 0x1a3f000"},
		{"run too long", move(b, h[6], 0x1a3f000, 0x1a44000), h[6] + 8, "ends at 0x1a44000"},
		{"zeros too long", move(b, h[9], 0x1a43000, 1<<40), h[9] + 8, "ends at"},
		{"area in an area", cat(b[:h[5]], b[h[4]:]), h[5] + 80, "end at 0x1a3d000"},
		{"both shared and private", with(b, h[0]+40, 0x13), h[0] + 40, "either a shared or a private"},
		{"neither", with(b, h[0]+40, 0x10), h[0] + 40, "either a shared or a private"},
		{"unknown flag", with(b, h[0]+40, 0x52), h[0] + 40, "unknown bits"},
		{"protection", with(b, h[0]+32, 8), h[0] + 32, "unknown bits"},
		{"anonymous file", with(b, h[0]+40, 0x32), h[0] + 40, "not cut into runs"},
		{"file without name", with(b, h[0]+88, 0), h[0] + 88, "named"},
		{"zeros of a file", with(b, h[0]+80, 1), h[0] + 72, "not stored whole"},
		{"zeros of a device", with(b, h[2]+80, 1), h[2] + 80, "not anonymous"},
		{"parent and zero", with(b, h[4]+80, 3), h[4] + 80, "contradict"},
		{"parent and child", with(b, h[5]+80, 6), h[5] + 80, "contradict"},
		{"unknown property", with(b, h[2]+80, 8), h[2] + 80, "contradict"},
		{"segment stored whole", with(b, h[10]+80, 0), h[10] + 80, "removed file"},
		{"length of a run", with(b, h[5]+72, 4096), h[5] + 72, "not stored whole"},
		{"length beyond the area", with(b, h[0]+72, 8193), h[0] + 72, "8193 bytes are stored of an area of 8192"},
		{"negative length", with(b, h[0]+72, 1<<63), h[0] + 72, "bytes are stored of a file"},
		{"name without end", cat(b[:h[0]+88], bytes.Repeat([]byte{'/'}, 1024), b[h[0]+88+1024:]), h[0] + 88, "no end"},
		{"device", with(b, h[0]+48, 1<<12), h[0] + 48, "12 bits"},
	} {
		_, err := readImage(c.b)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		fe := formatError(t, err, int64(len(c.b)))
		if fe.Offset != c.at || !strings.Contains(fe.Reason, c.reason) || fe.Unsupported {
			t.Errorf("%s: %v; want %q at %d", c.name, err, c.reason, c.at)
		}
	}
}

// TestTolerated checks what looks odd and is real, or may become so.
func TestTolerated(t *testing.T) {
	im := mixed()
	b, h := im.Bytes(), im.Headers()
	both := func(at int64, v uint64) []byte { // of the segment and its run
		return with(with(b, h[10]+at, v), h[11]+at, v)
	}
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"stack's flags", with(b, h[0]+40, 0x20112)},
		{"no page is reserved", both(40, 0x4011)},
		{"file removed while it was stored", with(b, h[2]+72, all)},
		{"other device under the same name", with(b, h[0]+56, 99)},
		{"other name of the same inode", with(b, h[0]+88+8, 'x')},
		{"length of an area in runs is 0", both(72, 0)},
		{"largest name", slices.Concat(b[:h[0]+88], bytes.Repeat([]byte{'/'}, 1023), []byte{0}, b[h[0]+88+1024:])},
	} {
		if _, err := readImage(c.b); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// Runs of the same kind may adjoin.
	im.Areas = []dmtcptest.Area{dmtcptest.Anonymous(1<<40, "", nil,
		dmtcptest.Touched(1), dmtcptest.Touched(2), dmtcptest.Untouched(1), dmtcptest.Untouched(1), dmtcptest.Touched(1))}
	if a := mustReadImage(t, im.Bytes()).Areas[0]; a.Runs != 2 || a.Occupied != 4*zones.PageSize || a.Stored != (6+4)*4096 {
		t.Errorf("area %+v", a)
	}
	// No area at all.
	im.Areas = nil
	if p := mustReadImage(t, im.Bytes()); p.Areas != nil || p.Unpacked != p.Overhead {
		t.Errorf("process %+v", p)
	}
}
