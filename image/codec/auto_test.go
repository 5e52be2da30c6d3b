package codec

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"ckpt/zones"
)

// stopped is a clock that stands still: every measured operation takes no time.
func stopped() time.Time { return time.Time{} }

// speeds gives e what it would have measured of an element type, in bytes/s.
func speeds(e *Encoder, elem zones.Elem, s2None, s2Shuffle, zstdNone, zstdShuffle float64) {
	k := &e.auto.kinds[elem]
	for f := range numFilters {
		s2, zstd := s2Shuffle, zstdShuffle
		if f == NoFilter {
			s2, zstd = s2None, zstdNone
		}
		k.pace[S2][f] = pace{speed: s2}
		k.pace[Zstd][f] = pace{speed: zstd}
	}
}

// TestAutoChoice is what auto makes of known data and speeds. With s2 the field
// shrinks by about 1.16, with zstd by 1.24; the text by 4.2 and 5.6.
func TestAutoChoice(t *testing.T) {
	field, words := heat(1<<20), text(512<<10)
	tests := []struct {
		name  string
		raw   []byte
		elem  zones.Elem
		given Conditions
		want  plan
	}{
		// Slow storage: the smallest.
		{"field to a disk", field, zones.Float64, Conditions{Bandwidth: 50e6}, plan{Zstd, Shuffle8}},
		{"text to a slow disk", words, zones.Bytes, Conditions{Bandwidth: 10e6}, plan{Zstd, NoFilter}},
		// 1 GB/s is not worth it beyond 1 GB/s · 0.24/1.24 = 190 MB/s for one
		// worker; S2 at 4 GB/s, shuffled, is up to 550 MB/s.
		{"field to flash", field, zones.Float64, Conditions{Bandwidth: 300e6}, plan{S2, Shuffle8}},
		// To gain 3 % is not worth it.
		{"field to flash that is as fast", field, zones.Float64, Conditions{Bandwidth: 430e6}, plan{}},
		{"field to fast flash", field, zones.Float64, Conditions{Bandwidth: 2e9}, plan{}},
		{"text to flash", words, zones.Bytes, Conditions{Bandwidth: 300e6}, plan{S2, NoFilter}},
		{"text to fast flash", words, zones.Bytes, Conditions{Bandwidth: 2e9}, plan{}},
		// More processors and rounds hide the encoding behind the writes.
		{"field to flash by four", field, zones.Float64, Conditions{Bandwidth: 300e6, Processors: 4, Rounds: 8}, plan{Zstd, Shuffle8}},
		{"field to fast flash by four", field, zones.Float64, Conditions{Bandwidth: 1.5e9, Processors: 4, Rounds: 8}, plan{Zstd, Shuffle8}},
		{"text to fast flash by four", words, zones.Bytes, Conditions{Bandwidth: 2e9, Processors: 4, Rounds: 8}, plan{S2, NoFilter}},
		{"field to an array by eight", field, zones.Float64, Conditions{Bandwidth: 30e9, Processors: 8, Rounds: 8}, plan{}},
		{"noise to a disk", noise(512<<10, 1), zones.Bytes, Conditions{Bandwidth: 50e6, Processors: 4, Rounds: 8}, plan{}},
		// Nothing is known of the storage.
		{"field to somewhere", field, zones.Float64, Conditions{Bandwidth: 0, Processors: 4, Rounds: 8}, plan{S2, Shuffle8}},
		{"text to somewhere", words, zones.Bytes, Conditions{Bandwidth: math.NaN()}, plan{S2, NoFilter}},
		{"noise to somewhere else", noise(512<<10, 1), zones.Bytes, Conditions{Bandwidth: -1}, plan{}},
		{"noise to somewhere", noise(512<<10, 1), zones.Float64, Conditions{Bandwidth: 0}, plan{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := NewEncoder(UseAuto, Options{Conditions: test.given, Now: stopped})
			speeds(e, test.elem, 1e9, 4e9, 250e6, 1e9)
			x := e.Encode(test.raw, test.elem)
			if got := (plan{x.ID, x.Filter}); got != test.want {
				t.Errorf("stored as %v, %v; want %v, %v", got.id, got.filter, test.want.id, test.want.filter)
			}
			if got := mustDecode(t, new(Decoder), x, len(test.raw)); !bytes.Equal(got, test.raw) {
				t.Error("does not come back")
			}
		})
	}
}

// TestAutoRule compares the estimate with the rules it should come to: for one round
// speed > bandwidth·r/(r-1)/C, for many bandwidth/C.
func TestAutoRule(t *testing.T) {
	const length, bandwidth = 1 << 20, 500e6
	for _, processors := range []float64{0.25, 1, 2, 8} {
		for _, r := range []float64{1.1, 1.5, 3, 20} {
			for rounds, limit := range map[float64]float64{1: bandwidth * r / (r - 1) / processors, 1e9: bandwidth / processors} {
				a := auto{Conditions: Conditions{Bandwidth: bandwidth, Processors: processors, Rounds: rounds}.sane()}
				for _, speed := range []float64{limit * 0.99, limit * 1.01} {
					got := a.seconds(length, length/speed, length/r) < a.seconds(length, 0, length)
					if want := speed > limit; got != want {
						t.Errorf("%v processors, %v rounds, r = %v, %.0f bytes/s: compress %v, want %v", processors, rounds, r, speed, got, want)
					}
				}
			}
		}
	}
}

// TestAutoRest: what is done to an extent in any case takes processors from encoding.
func TestAutoRest(t *testing.T) {
	const length, r = 1 << 20, 1.4
	field := func(rest float64) bool {
		a := auto{Conditions: Conditions{Bandwidth: 500e6, Processors: 1, Rounds: 1e9, Rest: rest}}
		return a.seconds(length, length/1e9, length/r) < a.seconds(length, 0, length)
	}
	if !field(0) || field(1/600e6) {
		t.Errorf("compress %v without other work, %v with more of it; want true, false", field(0), field(1/600e6))
	}
}

// TestAutoLearnsConditions: a field that paid on many idle processors is stored raw
// when other ranks take them, and packed again when they are back. Nothing that was
// measured of the codec is lost.
func TestAutoLearnsConditions(t *testing.T) {
	field := heat(1 << 20)
	idle := Conditions{Bandwidth: 900e6, Processors: 4, Rounds: 8}
	busy := idle
	busy.Processors = 0.2
	e := NewEncoder(UseAuto, Options{Conditions: idle, Now: stopped})
	speeds(e, zones.Float64, 1e9, 4e9, 250e6, 1e9)
	for _, step := range []struct {
		c      Conditions
		packed bool
	}{{idle, true}, {busy, false}, {idle, true}} {
		e.Learn(step.c)
		e.Encode(field, zones.Float64)
		if x := e.Encode(field, zones.Float64); step.packed != (x.ID != Raw) {
			t.Errorf("with %v processors stored as %v", step.c.Processors, x.ID)
		}
		speeds(e, zones.Float64, 1e9, 4e9, 250e6, 1e9) // the clock stands still
	}
}

// TestAutoLearns: what auto measures decides, and a later measurement can
// overturn it.
func TestAutoLearns(t *testing.T) {
	step := time.Second // a hiccup: nothing can be so slow
	var now time.Time
	clock := func() time.Time {
		now = now.Add(step)
		return now
	}
	e := NewEncoder(UseAuto, Options{Conditions: Conditions{Bandwidth: 200e6}, Now: clock})
	words := text(1 << 20)
	if x := e.Encode(words, zones.Bytes); x.ID != Raw {
		t.Fatalf("stored as %v although encoding takes seconds", x.ID)
	}
	step = time.Microsecond
	tries := 0
	for e.Encode(words, zones.Bytes).ID == Raw {
		if tries++; tries > 10 {
			t.Fatal("does not recover")
		}
	}
	if tries < 1 {
		t.Error("does not wait before it looks again")
	}
	// And back: what it chose turns out to be slow.
	step = time.Second
	tries = 0
	for e.Encode(words, zones.Bytes).ID != Raw {
		if tries++; tries > 40 { // ten for each way
			t.Fatal("goes on although encoding takes seconds")
		}
	}
}

// TestAutoRawIsCheap counts how often auto looks at extents that do not
// compress, and at how much of them.
func TestAutoRawIsCheap(t *testing.T) {
	for _, bandwidth := range []float64{0, 1e9} {
		e := NewEncoder(UseAuto, Options{Conditions: Conditions{Bandwidth: bandwidth}, Now: ticking(time.Microsecond)})
		raw, words := noise(512<<10, 1), text(512<<10)
		const extents = 1000
		looks, bytes := 0, 0
		for range extents {
			e.sampled = e.sampled[:0]
			if x := e.Encode(raw, zones.Bytes); x.ID != Raw {
				t.Fatalf("noise is stored as %v", x.ID)
			}
			if len(e.sampled) > 0 {
				looks++
				bytes += len(e.sampled)
				if len(e.sampled) > len(raw)/16 {
					t.Fatalf("looks at %d of %d bytes", len(e.sampled), len(raw))
				}
			}
		}
		if limit := extents/maxGap + 6; looks > limit || looks < extents/maxGap/2 {
			t.Errorf("bandwidth %v: %d looks at %d extents, want about %d", bandwidth, looks, extents, limit)
		}
		if limit := extents * len(raw) / 500; bytes > limit {
			t.Errorf("bandwidth %v: looks at %d bytes, want at most %d", bandwidth, bytes, limit)
		}
		if e.zstd != nil || e.zstdPlanes != nil {
			t.Errorf("bandwidth %v: tries zstd, which is not so fast", bandwidth)
		}
		// Extents of another type are not suspected for that, and those of this
		// one not forever.
		if x := e.Encode(words, zones.Int64); x.ID == Raw {
			t.Errorf("bandwidth %v: text of another type is stored raw", bandwidth)
		}
		tries := 0
		for e.Encode(words, zones.Bytes).ID == Raw {
			if tries++; tries > maxGap {
				t.Fatalf("bandwidth %v: still raw after %d extents that compress", bandwidth, tries)
			}
		}
		if e.Encode(words, zones.Bytes).ID == Raw {
			t.Errorf("bandwidth %v: raw again right after an extent that compressed", bandwidth)
		}
	}
}

func TestBackoff(t *testing.T) {
	var b backoff
	gaps := func(n int) (gaps []int) {
		for gap := 0; len(gaps) < n; gap++ {
			if b.due() {
				b.result(false)
				gaps = append(gaps, gap)
				gap = -1
			}
		}
		return gaps
	}
	if got, want := gaps(8), []int{0, 1, 2, 4, 8, 16, 32, 32}; !slices.Equal(got, want) {
		t.Errorf("gaps %v, want %v", got, want)
	}
	b.result(true)
	if got, want := gaps(3), []int{0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("gaps after a success %v, want %v", got, want)
	}
}

// TestPace: what is measured counts half, a clock that stands still is not
// believed, and after some looks it is time to measure again.
func TestPace(t *testing.T) {
	var k kind
	p := &k.pace[S2][Shuffle8]
	if !k.stale(S2, Shuffle8) {
		t.Error("what was never measured is not stale")
	}
	p.measured(time.Second, 1000)
	p.measured(time.Second, 3000)
	if p.speed != 2000 {
		t.Errorf("speed is %v, want 2000", p.speed)
	}
	for range paceAge {
		if k.stale(S2, Shuffle8) {
			t.Fatal("stale too soon")
		}
	}
	if !k.stale(S2, Shuffle8) || !k.stale(S2, NoFilter, Shuffle8) {
		t.Errorf("not stale after %d looks", paceAge)
	}
	p.measured(0, 1000)
	if p.speed > maxSpeed || k.stale(S2, Shuffle8) {
		t.Errorf("speed is %v", p.speed)
	}
}

// TestAutoZstdRests: zstd is not tried at each extent where S2 keeps winning.
func TestAutoZstdRests(t *testing.T) {
	words := text(512 << 10)
	for bandwidth, failing := range map[float64]bool{300e6: true, 10e6: false} {
		e := NewEncoder(UseAuto, Options{Conditions: Conditions{Bandwidth: bandwidth}, Now: stopped})
		speeds(e, zones.Bytes, 1e9, 4e9, 250e6, 1e9)
		e.Encode(words, zones.Bytes)
		if got := e.auto.kinds[zones.Bytes].zstd.failing(); got != failing {
			t.Errorf("bandwidth %v: zstd rests: %v, want %v", bandwidth, got, failing)
		}
	}
}

// TestAutoBlind: without a bandwidth, time plays no part.
func TestAutoBlind(t *testing.T) {
	e := NewEncoder(UseAuto, Options{Now: func() time.Time {
		t.Error("looks at the clock")
		return time.Time{}
	}})
	field := heat(512 << 10)
	for range 5 {
		if x := e.Encode(field, zones.Float64); x.ID != S2 || x.Filter != Shuffle8 {
			t.Fatalf("stored as %v, %v", x.ID, x.Filter)
		}
	}
	// A twentieth is not enough.
	raw := noise(512<<10, 1)
	for at := 0; at < len(raw); at += 20 * 512 {
		clear(raw[at:min(at+512, len(raw))])
	}
	if x := e.Encode(raw, zones.Bytes); x.ID != Raw {
		t.Errorf("stored as %v in %d of %d bytes", x.ID, len(x.Data), len(raw))
	}
	// Elements nobody has heard of are bytes.
	e = NewEncoder(UseAuto, Options{})
	if x := e.Encode(text(512<<10), zones.Elem(200)); x.ID != S2 {
		t.Errorf("unknown elements are stored as %v", x.ID)
	}
}
