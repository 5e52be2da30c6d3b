package codec

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"ckpt/zones"
)

// slack is what a decoder may allocate beyond the length of an extent: buffers
// and tables of the libraries.
const slack = 2 << 20

// zstdStream returns b as a frame without content size.
func zstdStream(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 { // in parts, as the writer knows the size of a single one
		n := min(len(b), 1<<20)
		if _, err := w.Write(b[:n]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		b = b[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// lyingFrame returns a zstd frame that announces size bytes and holds blocks
// runs of 128 KiB.
func lyingFrame(size uint32, blocks int) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x50} // 4 bytes of size, window of 1 MiB
	b = binary.LittleEndian.AppendUint32(b, size)
	for i := range blocks {
		head := uint32(128<<10)<<3 | 1<<1
		if i == blocks-1 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 'x')
	}
	return b
}

// TestBombs has little input that would make much output, or says it would.
func TestBombs(t *testing.T) {
	const n = 16 * page
	big := make([]byte, 8<<20)
	all := newZstd(false).EncodeAll(big, nil)
	fit := newZstd(false).EncodeAll(big[:n], nil)
	part := newZstd(false).EncodeAll(big[:n/2], nil)
	empty := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}
	huge := bytes.Clone(lyingFrame(n, 1))
	binary.LittleEndian.PutUint32(huge[6:], 1<<31)
	s2Huge := binary.AppendUvarint(nil, 1<<32-1)
	s2Lies := append(binary.AppendUvarint(nil, n), s2.Encode(nil, big)[4:]...)

	bombs := []struct {
		name   string
		id     ID
		stored []byte
	}{
		{"zstd", Zstd, all},
		{"zstd without size", Zstd, zstdStream(t, big)},
		{"zstd of the right size, but without it", Zstd, zstdStream(t, big[:n])},
		{"zstd that announces 2 GiB", Zstd, huge},
		{"zstd that announces less than it holds", Zstd, lyingFrame(n, 500)},
		{"zstd of two frames, one too many", Zstd, bytes.Repeat(fit, 2)},
		{"zstd of three halves", Zstd, bytes.Repeat(part, 3)},
		{"zstd of many empty frames", Zstd, append(bytes.Repeat(empty, 1000), fit...)},
		{"zstd behind a frame to skip", Zstd, append([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x'}, fit...)},
		{"zstd with bytes behind", Zstd, append(bytes.Clone(fit), 0)},
		{"zstd cut", Zstd, fit[:len(fit)-1]},
		{"zstd half", Zstd, part},
		{"gzip", Gzip, gzipped(t, big)},
		{"gzip one byte long", Gzip, gzipped(t, big[:n+1])},
		{"gzip one byte short", Gzip, gzipped(t, big[:n-1])},
		{"gzip of two members", Gzip, append(gzipped(t, big[:n/2]), gzipped(t, big[:n/2])...)},
		{"gzip with a member behind", Gzip, bytes.Repeat(gzipped(t, big[:n]), 2)},
		{"gzip with a byte behind", Gzip, append(gzipped(t, big[:n]), 0)},
		{"gzip without checksum", Gzip, gzipped(t, big[:n])[:20]},
		{"s2", S2, s2.Encode(nil, big)},
		{"s2 that announces 4 GiB", S2, s2Huge},
		{"s2 that announces less than it holds", S2, s2Lies},
		{"s2 one byte short", S2, s2.Encode(nil, big[:n-1])},
		{"s2 with a byte behind", S2, append(s2.Encode(nil, big[:n]), 0)},
		{"raw long", Raw, make([]byte, n+1)},
		{"raw short", Raw, nil},
		{"zero with data", Zero, []byte{0}},
		{"nothing as s2", S2, nil},
		{"nothing as zstd", Zstd, nil},
		{"nothing as gzip", Gzip, nil},
	}
	for _, bomb := range bombs {
		t.Run(bomb.name, func(t *testing.T) {
			for f := range numFilters {
				dst := make([]byte, n)
				var err error
				size := allocated(func() { err = new(Decoder).Decode(dst, bomb.stored, bomb.id, f) })
				if err == nil {
					t.Errorf("is accepted with %v", f)
				}
				if size > n+slack {
					t.Errorf("allocates %d bytes for %d", size, n)
				}
			}
		})
	}

	// The same shapes without the lie are sound, or the test shows nothing.
	for name, sound := range map[string]struct {
		id     ID
		stored []byte
	}{
		"zstd frame":      {Zstd, fit},
		"zstd two halves": {Zstd, bytes.Repeat(part, 2)},
		"gzip":            {Gzip, gzipped(t, big[:n])},
		"s2":              {S2, s2.Encode(nil, big[:n])},
	} {
		if err := new(Decoder).Decode(make([]byte, n), sound.stored, sound.id, NoFilter); err != nil {
			t.Errorf("sound %s: %v", name, err)
		}
	}
	if err := new(Decoder).Decode(make([]byte, 128<<10), lyingFrame(128<<10, 1), Zstd, NoFilter); err != nil {
		t.Errorf("sound handmade frame: %v", err)
	}
}

// TestLyingFrame: a long frame that overflows at its end must not make the
// decoder copy all of it to somewhere larger.
func TestLyingFrame(t *testing.T) {
	const n = 8 << 20
	dst := make([]byte, n)
	for _, blocks := range []int{n>>17 - 1, n>>17 + 1} {
		stored := lyingFrame(n, blocks)
		var err error
		size := allocated(func() { err = new(Decoder).Decode(dst, stored, Zstd, NoFilter) })
		if err == nil {
			t.Errorf("%d blocks are accepted", blocks)
		}
		if size > n+slack {
			t.Errorf("%d blocks allocate %d bytes", blocks, size)
		}
	}
}

// TestRefusals are the arguments that make no sense whatever is stored.
func TestRefusals(t *testing.T) {
	good := keep(NewEncoder(UseS2, Options{}).Encode(text(4*page), zones.Bytes))
	for name, err := range map[string]error{
		"unknown id":      new(Decoder).Decode(make([]byte, 4*page), good.Data, numIDs, NoFilter),
		"unknown filter":  new(Decoder).Decode(make([]byte, 4*page), good.Data, S2, numFilters),
		"raw filtered":    new(Decoder).Decode(make([]byte, page), make([]byte, page), Raw, Shuffle8),
		"zero filtered":   new(Decoder).Decode(make([]byte, page), nil, Zero, Shuffle4),
		"half an element": new(Decoder).Decode(make([]byte, 12), s2.Encode(nil, make([]byte, 12)), S2, Shuffle8),
		"too long":        new(Decoder).Decode(make([]byte, maxExtent+page), nil, Zero, NoFilter),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestDamage flips each bit of small encodings and cuts them everywhere. Most of
// it is noticed, none of it may panic, and the next extent must be none the
// worse.
func TestDamage(t *testing.T) {
	raw := heat(2 * page)
	copy(raw[page:], indices(page))
	var dec Decoder
	for _, s := range []Setting{UseGzip, UseZstd, UseS2} {
		for f := range numFilters {
			id := settings[s].id
			stored := bytes.Clone(NewEncoder(s, Options{}).compress(plan{id, f}, raw))
			dst := make([]byte, len(raw))
			for i := 0; i < len(stored); i += 1 + len(stored)/200 {
				stored[i] ^= 1 << (i % 8)
				_ = dec.Decode(dst, stored, id, f)
				stored[i] ^= 1 << (i % 8)
				if err := dec.Decode(dst, stored[:i], id, f); err == nil {
					t.Errorf("%v with %v is accepted cut to %d of %d bytes", id, f, i, len(stored))
				}
			}
			if err := dec.Decode(dst, stored, id, f); err != nil || !bytes.Equal(dst, raw) {
				t.Errorf("%v with %v is lost after damaged ones: %v", id, f, err)
			}
		}
	}
}

// TestSteadyMemory: once they have seen an extent, encoder and decoder allocate
// little. S2 has pools, which lose some when races are looked for.
func TestSteadyMemory(t *testing.T) {
	raw := heat(1 << 20)
	for _, s := range []Setting{UseZstd, UseS2} {
		e := NewEncoder(s, Options{})
		var dec Decoder
		dst := mustDecode(t, &dec, e.Encode(raw, zones.Float64), len(raw))
		const rounds = 3
		size := allocated(func() {
			for range rounds {
				x := e.Encode(raw, zones.Float64)
				if err := dec.Decode(dst, x.Data, x.ID, x.Filter); err != nil {
					t.Fatal(err)
				}
			}
		})
		if limit := rounds * len(raw) / 2; size > uint64(limit) {
			t.Errorf("%v allocates %d bytes in %d rounds, want at most %d", s, size, rounds, limit)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []Setting{UseGzip, UseZstd, UseS2} {
		for _, raw := range [][]byte{heat(4 * page), text(2 * page), indices(3 * page)} {
			x := NewEncoder(s, Options{}).Encode(raw, zones.Bytes)
			f.Add(x.Data, uint8(x.ID), uint8(x.Filter), uint32(len(raw)))
		}
	}
	f.Add(lyingFrame(64, 3), uint8(Zstd), uint8(Shuffle8), uint32(64))
	f.Add([]byte{}, uint8(Zero), uint8(NoFilter), uint32(page))
	f.Fuzz(func(t *testing.T, stored []byte, id, filter uint8, n uint32) {
		n %= 1 << 20
		guard := bytes.Repeat([]byte{0xa5}, int(n)+64)
		dst := guard[:n] // the capacity behind is not the decoder's
		var err error
		size := allocated(func() { err = new(Decoder).Decode(dst, stored, ID(id), Filter(filter)) })
		if size > uint64(n)+slack {
			t.Errorf("allocates %d bytes for %d", size, n)
		}
		for i, x := range guard[n:] {
			if x != 0xa5 {
				t.Fatalf("byte %d behind the extent is overwritten", i)
			}
		}
		if err != nil {
			return
		}
		// A decoder that was used before gives the same result for accepted bytes.
		var dec Decoder
		_ = dec.Decode(make([]byte, page), stored, ID(id), Filter(filter))
		again := make([]byte, n)
		if err := dec.Decode(again, stored, ID(id), Filter(filter)); err != nil || !bytes.Equal(again, dst) {
			t.Fatalf("second time otherwise: %v", err)
		}
	})
}
