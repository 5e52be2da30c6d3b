package codec

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"ckpt/zones"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// contents draws an extent of up to 30 pages made of stretches of all sorts.
func contents(t *rapid.T, field []byte) []byte {
	n := rapid.IntRange(0, 30).Draw(t, "pages") * page
	var b []byte
	for len(b) < n {
		size := min(rapid.IntRange(1, 6*page).Draw(t, "size"), n-len(b))
		switch rapid.SampledFrom([]string{"zeros", "noise", "heat", "indices", "text", "drawn"}).Draw(t, "sort") {
		case "zeros":
			b = append(b, make([]byte, size)...)
		case "noise":
			b = append(b, noise(size, rapid.Uint64().Draw(t, "seed"))...)
		case "heat":
			b = append(b, field[:size]...)
		case "indices":
			b = append(b, indices(size)...)
		case "text":
			b = append(b, text(size)...)
		case "drawn":
			drawn := rapid.SliceOfN(rapid.Byte(), 1, 64).Draw(t, "bytes")
			b = append(b, bytes.Repeat(drawn, size/len(drawn)+1)[:size]...)
		}
	}
	return b
}

// ticking returns a clock that advances by step at each reading.
func ticking(step time.Duration) func() time.Time {
	var now time.Time
	return func() time.Time {
		now = now.Add(step)
		return now
	}
}

// TestRoundTrip checks the promises on whatever rapid thinks of, with encoders
// and a decoder that have a past.
func TestRoundTrip(t *testing.T) {
	var encoders [numSettings]*Encoder
	for s := range encoders {
		encoders[s] = NewEncoder(Setting(s), Options{Conditions: Conditions{Bandwidth: 1e9, Processors: 2, Rounds: 4}, Now: ticking(time.Microsecond)})
	}
	var dec Decoder
	field := heat(8 * page)
	rapid.Check(t, func(t *rapid.T) {
		raw := contents(t, field)
		elem := zones.Elem(rapid.IntRange(0, int(zones.Int64)).Draw(t, "elem"))
		s := Setting(rapid.IntRange(0, int(numSettings)-1).Draw(t, "setting"))
		before := bytes.Clone(raw)

		x := encoders[s].Encode(raw, elem)
		if !bytes.Equal(raw, before) {
			t.Fatal("Encode changes its input")
		}
		switch {
		case x.ID == Zero:
			if x.Data != nil || !IsZero(raw) {
				t.Fatalf("zero extent stores %d bytes", len(x.Data))
			}
		case IsZero(raw):
			t.Fatalf("zeros are stored as %v", x.ID)
		case x.ID == Raw:
			if len(x.Data) != len(raw) || &x.Data[0] != &raw[0] {
				t.Fatal("raw extent is not the input itself")
			}
		case zones.PageRound(int64(len(x.Data))) >= int64(len(raw)):
			t.Fatalf("%d bytes are stored in %d, which saves no page", len(raw), len(x.Data))
		}
		if (x.ID == Raw || x.ID == Zero) && x.Filter != NoFilter {
			t.Fatalf("%v extent has %v", x.ID, x.Filter)
		}
		if s != UseAuto && x.ID != Zero && x.ID != Raw && x.ID != settings[s].id {
			t.Fatalf("%v under setting %v", x.ID, s)
		}
		x = keep(x)
		if s != UseAuto {
			y := NewEncoder(s, Options{}).Encode(raw, elem)
			if x.ID != y.ID || x.Filter != y.Filter || !bytes.Equal(x.Data, y.Data) {
				t.Fatal("a new encoder gives other bytes than a used one")
			}
		}
		if got := mustDecode(t, &dec, x, len(raw)); !bytes.Equal(got, raw) {
			t.Fatal("extent does not come back")
		}
	})
}

// TestChoice is what the settings come to on data of known nature, in extents
// longer than the compressors' blocks.
func TestChoice(t *testing.T) {
	const n = 600<<10 + page
	field := heat(n)
	tests := []struct {
		name    string
		raw     []byte
		elem    zones.Elem
		setting Setting
		id      ID
		filter  Filter
		atMost  float64 // of the length
	}{
		{"field zstd", field, zones.Float64, UseZstd, Zstd, Shuffle8, 0.85},
		{"field s2", field, zones.Float64, UseS2, S2, Shuffle8, 0.93},
		{"field gzip", field, zones.Float64, UseGzip, Gzip, Shuffle8, 0.9},
		{"field of no type", field, zones.Bytes, UseZstd, Zstd, Shuffle8, 0.85},
		{"indices", indices(n), zones.Int32, UseS2, S2, Shuffle4, 0.35},
		{"indices of no type", indices(n), zones.Bytes, UseZstd, Zstd, Shuffle4, 0.35},
		{"random numbers", normals(n), zones.Float64, UseZstd, Zstd, Shuffle8, 0.9},
		{"random numbers gzip", normals(n), zones.Bytes, UseGzip, Gzip, Shuffle8, 0.93},
		{"random numbers s2", normals(n), zones.Float64, UseS2, Raw, NoFilter, 1},
		{"text", text(n), zones.Bytes, UseS2, S2, NoFilter, 0.5},
		{"text as floats", text(n), zones.Float64, UseZstd, Zstd, NoFilter, 0.3},
		{"noise s2", noise(n, 1), zones.Float64, UseS2, Raw, NoFilter, 1},
		{"noise zstd", noise(n, 1), zones.Bytes, UseZstd, Raw, NoFilter, 1},
		{"noise gzip", noise(n, 1), zones.Bytes, UseGzip, Raw, NoFilter, 1},
		{"text uncompressed", text(n), zones.Bytes, UseNone, Raw, NoFilter, 1},
		{"zeros uncompressed", make([]byte, n), zones.Bytes, UseNone, Zero, NoFilter, 0},
		{"one page", text(page), zones.Bytes, UseZstd, Raw, NoFilter, 1},
		{"two pages", text(2 * page), zones.Bytes, UseZstd, Zstd, NoFilter, 0.5},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			x := NewEncoder(test.setting, Options{}).Encode(test.raw, test.elem)
			if x.ID != test.id || x.Filter != test.filter {
				t.Errorf("stored as %v, %v; want %v, %v", x.ID, x.Filter, test.id, test.filter)
			}
			if share := float64(len(x.Data)) / float64(len(test.raw)); share > test.atMost {
				t.Errorf("takes %.3f of the length, want at most %.3f", share, test.atMost)
			}
			if got := mustDecode(t, new(Decoder), x, len(test.raw)); !bytes.Equal(got, test.raw) {
				t.Error("does not come back")
			}
		})
	}
}

// TestPageRule has an extent that compresses, but by less than a page.
func TestPageRule(t *testing.T) {
	raw := append(make([]byte, 2048), noise(4*page-2048, 1)...)
	for _, s := range []Setting{UseS2, UseZstd, UseGzip} {
		e := NewEncoder(s, Options{})
		if n := len(e.compress(plan{settings[s].id, NoFilter}, raw)); n >= len(raw) {
			t.Fatalf("%v does not compress the extent at all", s)
		}
		if x := e.Encode(raw, zones.Bytes); x.ID != Raw {
			t.Errorf("%v stores %d bytes in %d", s, len(raw), len(x.Data))
		}
		// With a zero page more there is something to save.
		if x := e.Encode(append(make([]byte, page), raw...), zones.Bytes); x.ID == Raw {
			t.Errorf("%v does not save a page", s)
		}
	}
}

// TestStandardReaders decompresses with other programs' code.
func TestStandardReaders(t *testing.T) {
	raw := text(gzipBlock + page)
	x := NewEncoder(UseGzip, Options{}).Encode(raw, zones.Bytes)
	r, err := gzip.NewReader(bytes.NewReader(x.Data))
	if err != nil {
		t.Fatal(err)
	}
	if !r.ModTime.IsZero() {
		t.Errorf("gzip header says %v", r.ModTime)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("gzip comes back otherwise, %v", err)
	}

	field := heat(256 << 10)
	x = NewEncoder(UseZstd, Options{}).Encode(field, zones.Float64)
	z, err := zstd.NewReader(bytes.NewReader(x.Data), zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	got, err := io.ReadAll(z)
	want := make([]byte, len(field))
	naiveShuffle(want, field, 8)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("zstd comes back otherwise, %v", err)
	}
}

// TestLength checks what is no extent: an encoder must still not lose it.
func TestLength(t *testing.T) {
	var dec Decoder
	for _, n := range []int{0, 1, 4095, 4097, 8191, 2*page + 4, 5*page + 8, 16*page + 4, 16*page + 5} {
		for s := range numSettings {
			raw := heat(n)
			x := NewEncoder(s, Options{}).Encode(raw, zones.Float64)
			if got := mustDecode(t, &dec, x, n); !bytes.Equal(got, raw) {
				t.Errorf("%d bytes under %v do not come back", n, s)
			}
		}
	}
	long := make([]byte, maxExtent+page)
	long[maxExtent] = 1
	if x := NewEncoder(UseS2, Options{}).Encode(long, zones.Bytes); x.ID != Raw {
		t.Errorf("%d bytes are stored as %v", len(long), x.ID)
	}
}

func TestNames(t *testing.T) {
	for s := range numSettings {
		if back, err := ParseSetting(s.String()); err != nil || back != s {
			t.Errorf("%v came back as %v, %v", s, back, err)
		}
	}
	for id := range numIDs {
		if back, err := ParseID(id.String()); err != nil || back != id {
			t.Errorf("%v came back as %v, %v", id, back, err)
		}
	}
	if id, err := ParseID("none"); err != nil || id != Raw {
		t.Errorf("none is %v, %v", id, err)
	}
	if _, err := ParseID("auto"); err == nil {
		t.Error("auto parsed as a way of storing")
	}
	if got, want := Choices(), "auto, none, gzip, zstd or s2"; got != want || len(Settings()) != int(numSettings)-1 {
		t.Errorf("choices are %q, want %q; %d settings", got, want, len(Settings()))
	}
	if _, err := ParseSetting("zero"); err == nil {
		t.Error("zero parsed as a setting")
	}
	if numIDs.Valid() || numFilters.Valid() || !Gzip.Valid() || !Shuffle8.Valid() {
		t.Error("Valid is wrong at the ends")
	}
	for f, want := range map[Filter]string{NoFilter: "none", Shuffle4: "shuffle4", Shuffle8: "shuffle8", 7: "filter(7)"} {
		if f.String() != want {
			t.Errorf("filter %d is called %v", uint8(f), f)
		}
	}
}
