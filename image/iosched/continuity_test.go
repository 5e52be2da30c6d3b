package iosched

import (
	"math"
	"strings"
	"testing"
)

// thesisDisk is the machine P1 of Lebre 2006.
func thesisDisk(p Pattern) Pattern {
	p.Seek, p.Disk = 9e-3, 57e6
	return p
}

// Golden test 10: inputs on both sides of β = 0. The times are worked out by hand from
// the formulas of appendix A.
func TestContinuity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                      string
		p                         Pattern
		plain, sieved, collective float64
		degree                    float64
		way                       Way
	}{
		{
			// n(S + C/D) = 10·(1 + 100/100) = 20; S + C'/D + nC/Q = 1 + 1900/100 + 10·100/1000 = 21
			name:  "one process, holes as large as blocks",
			p:     Pattern{Processes: 1, Blocks: 10, Block: 100, Span: 1900, Seek: 1, Disk: 100, Copy: 1000},
			plain: 20, sieved: 21, collective: 21, degree: 1 - 21./20, way: PlainAccess,
		},
		{
			// S + C'/D + nC/Q = 1 + 1300/100 + 1 = 15
			name:  "one process, smaller holes",
			p:     Pattern{Processes: 1, Blocks: 10, Block: 100, Span: 1300, Seek: 1, Disk: 100, Copy: 1000},
			plain: 20, sieved: 15, collective: 15, degree: .25, way: SievedAccess,
		},
		{
			// Exactly as long: β = 0 is plain.
			name:  "one process, between both",
			p:     Pattern{Processes: 1, Blocks: 10, Block: 100, Span: 1800, Seek: 1, Disk: 100, Copy: 1000},
			plain: 20, sieved: 20, collective: 20, degree: 0, way: PlainAccess,
		},
		{
			// 4·10·10/100 + 4·(1 + 1000/100 + 1) + 4·10·90/100 = 4 + 48 + 36 = 88 of 80
			name:  "four processes on a slow network",
			p:     Pattern{Processes: 4, Blocks: 10, Block: 100, Span: 3700, Domain: 1000, Seek: 1, Disk: 100, Copy: 1000, Network: 100, Request: 10, Answer: 90},
			plain: 80, sieved: 4 * 39, collective: 88, degree: 1 - 88./80, way: PlainAccess,
		},
		{
			// The same on a network that is ten times as fast: 0.4 + 48 + 3.6 = 52
			name:  "four processes on a fast network",
			p:     Pattern{Processes: 4, Blocks: 10, Block: 100, Span: 3700, Domain: 1000, Seek: 1, Disk: 100, Copy: 1000, Network: 1000, Request: 10, Answer: 90},
			plain: 80, sieved: 4 * 39, collective: 52, degree: 1 - 52./80, way: CollectiveAccess,
		},
		{
			// 10·10/100 + 12 + 10·90/100 = 22: the ideal network.
			name:  "four processes at the same time",
			p:     Pattern{Processes: 4, Blocks: 10, Block: 100, Span: 3700, Domain: 1000, Seek: 1, Disk: 100, Copy: 1000, Network: 100, Request: 10, Answer: 90, Parallel: true},
			plain: 80, sieved: 4 * 39, collective: 22, degree: 1 - 22./80, way: CollectiveAccess,
		},
		{
			// A.5: holes of 100 bytes fill the buffer of 64, two of which a block needs:
			// 10·(1 + 128/100 + 100/1000) = 23.8
			name:  "holes that fill the buffer",
			p:     Pattern{Processes: 1, Blocks: 10, Block: 100, Span: 1900, Buffer: 64, Seek: 1, Disk: 100, Copy: 1000},
			plain: 20, sieved: 23.8, collective: 23.8, degree: 1 - 23.8/20, way: PlainAccess,
		},
		{
			// A write reads the 1300 bytes first: 2·(1 + 13) + 1 = 29
			name:  "a write over holes",
			p:     Pattern{Processes: 1, Blocks: 10, Block: 100, Span: 1300, Write: true, Seek: 1, Disk: 100, Copy: 1000},
			plain: 20, sieved: 29, collective: 29, degree: 1 - 29./20, way: PlainAccess,
		},
		{
			// A write without holes needs no read: 4·(1 + 10 + 1) = 48
			name:  "a collective write without holes",
			p:     Pattern{Processes: 4, Blocks: 10, Block: 100, Span: 3700, Domain: 1000, Write: true, Seek: 1, Disk: 100, Copy: 1000},
			plain: 80, sieved: 4 * (2*38 + 1), collective: 48, degree: .4, way: CollectiveAccess,
		},
	} {
		got, err := c.p.Continuity()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, x := range []struct {
			name      string
			got, want float64
		}{{"plain", got.Plain, c.plain}, {"sieved", got.Sieved, c.sieved}, {"collective", got.Collective, c.collective}, {"degree", got.Degree, c.degree}} {
			if math.Abs(x.got-x.want) > 1e-12*max(1, math.Abs(x.want)) {
				t.Errorf("%s: %s %.15g, want %.15g", c.name, x.name, x.got, x.want)
			}
		}
		if got.Way != c.way {
			t.Errorf("%s: %s, want %s", c.name, got.Way, c.way)
		}
	}
}

// On the disk of the thesis β tends to 1 where blocks are small and close, and is negative
// where one block follows another after a long hole.
func TestContinuityOfThesisDisk(t *testing.T) {
	t.Parallel()
	dense := thesisDisk(Pattern{Processes: 32, Blocks: 1 << 14, Block: 8 << 10, Span: 32 << 27, Domain: 1 << 27, Network: 100e6, Request: 64, Answer: 8 << 10})
	sparse := thesisDisk(Pattern{Processes: 1, Blocks: 32, Block: 8 << 10, Span: 32 * (8<<10 + 4<<20)})
	d, err := dense.Continuity()
	if err != nil || d.Degree < .9 || d.Way != CollectiveAccess {
		t.Errorf("32 processes with 8 KiB in turn: %+v, %v", d, err)
	}
	s, err := sparse.Continuity()
	if err != nil || s.Degree >= 0 || s.Way != PlainAccess {
		t.Errorf("holes of 4 MiB: %+v, %v", s, err)
	}
}

// The sign of β changes where the hole takes as long as a seek, but for the copies.
func TestContinuityBreakEven(t *testing.T) {
	t.Parallel()
	way := func(hole int64) Way {
		p := thesisDisk(Pattern{Processes: 1, Blocks: 100, Block: 4096, Span: 100*4096 + 99*hole})
		c, err := p.Continuity()
		if err != nil {
			t.Fatal(err)
		}
		return c.Way
	}
	// 99 holes against 99 seeks of 9 ms: 513,000 bytes each.
	if got := way(512_999); got != SievedAccess {
		t.Errorf("below: %s", got)
	}
	if got := way(513_001); got != PlainAccess {
		t.Errorf("above: %s", got)
	}
}

func TestContinuityMistakes(t *testing.T) {
	t.Parallel()
	good := Pattern{Processes: 1, Blocks: 2, Block: 10, Span: 30, Seek: 1, Disk: 1}
	if _, err := good.Continuity(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Pattern){
		"0 processes":         func(p *Pattern) { p.Processes = 0 },
		"0 blocks":            func(p *Pattern) { p.Blocks = 0 },
		"blocks of 0 bytes":   func(p *Pattern) { p.Block = 0 },
		"2^60 bytes of a":     func(p *Pattern) { p.Block = 1 << 60 },
		"a span of 19 bytes":  func(p *Pattern) { p.Span = 19 },
		"a part of 19 bytes":  func(p *Pattern) { p.Domain = 19 },
		"buffer -1":           func(p *Pattern) { p.Buffer = -1 },
		"request -1":          func(p *Pattern) { p.Request = -1 },
		"seek NaN":            func(p *Pattern) { p.Seek = math.NaN() },
		"disk 0 bytes/s":      func(p *Pattern) { p.Disk = 0 },
		"network +Inf":        func(p *Pattern) { p.Network = math.Inf(1) },
		"copy -1 bytes/s":     func(p *Pattern) { p.Copy = -1 },
		"a part of -1 bytes":  func(p *Pattern) { p.Domain = -1 },
		"answer -1: want no":  func(p *Pattern) { p.Answer = -1 },
		"disk +Inf bytes/s: ": func(p *Pattern) { p.Disk = math.Inf(1) },
	} {
		p := good
		change(&p)
		if _, err := p.Continuity(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}
