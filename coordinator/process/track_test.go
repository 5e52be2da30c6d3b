package process

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/zones"
)

// TestReturnedPages hands whole page tables of memory back to the kernel, which leaves no
// entry that says so.
func TestReturnedPages(t *testing.T) {
	t.Parallel()
	for _, huge := range []int{0, 1} {
		pr := startProgram(t, plainProgram(t))
		p := pr.connect()
		pr.do("map u %d %d", 8<<20, huge)
		pr.do("fill u 3")
		take := func() Capture {
			t.Helper()
			return pr.capture(p)
		}
		take()
		pr.do("write u 0 1 9")
		if c := take(); !c.Clean(pr.number-1, "u", 4<<20, 1<<20) && !p.memory.tracks.refused {
			t.Error("pages that nobody wrote are not clean")
		}
		pr.do("dontneed u %d %d", 2<<20, 4<<20)
		c := take()
		for _, b := range c.Regions[0].Mem[2<<20 : 6<<20] {
			if b != 0 {
				t.Fatalf("huge %d: memory that was handed back is captured as it was", huge)
			}
		}
		if c.Clean(pr.number-1, "u", 4<<20, 4096) {
			t.Errorf("huge %d: memory that was handed back is clean", huge)
		}
	}
}

// TestAbortedStaysDirty aborts a checkpoint: pages that it would have stored are not clean
// for the next, which compares with the one before.
func TestAbortedStaysDirty(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	pr.do("map u %d 0", 4<<20)
	pr.capture(p)
	pr.do("write u 8192 1 9")
	pr.capture(p)
	pr.do("write u 40960 1 9")
	c := pr.capture(p)
	if !c.Knows(1) || !c.Knows(2) || c.Knows(3) {
		t.Error("it compares with other captures than 1 and 2")
	}
	if known := !p.memory.tracks.refused; c.Clean(2, "u", 8192, 4096) != known || c.Clean(2, "u", 40960, 4096) {
		t.Error("since capture 2 page 10 alone was written")
	}
	clean := 0
	for page := range int64(1024) {
		if c.Clean(1, "u", page*zones.PageSize, zones.PageSize) {
			clean++
			if page == 2 || page == 10 {
				t.Errorf("page %d was written since checkpoint 1 and is clean", page)
			}
		}
	}
	if !p.memory.tracks.refused && clean != 1022 {
		t.Errorf("%d pages are clean, want 1022", clean)
	}
}

// TestMuchWritten rewrites a region again and again: it is left alone for a while, and
// tried again later.
func TestMuchWritten(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	pr.do("map u %d 0", 4<<20)
	states := ""
	for i := range 10 {
		pr.do("write u 0 %d %d", 4<<20, i)
		pr.capture(p)
		if p.memory.tracks.refused {
			testkit.Skip(t, "a kernel that tells which pages are written")
		}
		if p.memory.tracks.tracked["u"].on {
			states += "+"
		} else {
			states += "-"
		}
	}
	// Tracked from the first, found to be rewritten by the second, left alone for four.
	if want := "+-----+---"; states != want {
		t.Errorf("tracked %s, want %s", states, want)
	}
}

// TestEachWay forces each way of taking memory: it delivers every byte, and is not torn
// by what the program writes right after.
func TestEachWay(t *testing.T) {
	t.Parallel()
	for _, tracked := range []bool{true, false} {
		for w := range ways {
			t.Run(fmt.Sprintf("way %d tracked %v", w, tracked), func(t *testing.T) {
				s := &subject{program: startProgram(t, plainProgram(t))}
				s.p = s.connect()
				s.p.memory.tracks.refused = !tracked
				s.regions = []subjectRegion{{"u", "heap", 3<<20 + 5}, {"v", "map", 5 << 20}, {"w", "heap", 70000}}
				for _, r := range s.regions {
					s.do("%s %s %d 1", r.kind, r.name, r.size)
					s.do("fill %s 1", r.name)
				}
				if w == byClient {
					s.p.memory.refused = true
				}
				for i := range 4 {
					for _, r := range s.regions {
						// It is always tried next, as if it were the fastest.
						s.p.memory.choice(&region{name: r.name, size: int64(r.size)}).pace = [ways]float64{1, 1e-12}
						s.do("write %s %d 9000 %d", r.name, 30000+i, i)
					}
					s.eachWay(t)
				}
			})
		}
	}
}

func (s *subject) eachWay(t *testing.T) {
	t.Helper()
	var truth map[string][]byte
	s.atBoundary(s.p, func() {
		truth = s.truths(s.p)
		s.number++
		v, err := s.p.View(context.Background(), s.number, 0)
		s.must(err)
		for _, r := range v.Regions {
			s.must(s.p.Fetch(r.Mem))
		}
		s.compare(t, v, truth)
	})
	c := s.capture(s.p)
	for _, r := range s.regions {
		s.do("write %s 0 %d 200", r.name, r.size)
	}
	s.compare(t, c, truth)
	for _, r := range s.regions {
		s.do("fill %s 1", r.name)
	}
}

// TestManyRegions has more regions than one call of the kernel or one order can take.
func TestManyRegions(t *testing.T) {
	t.Parallel()
	s := &subject{program: startProgram(t, plainProgram(t))}
	s.p = s.connect()
	s.do("many m 3000 400")
	for _, refused := range []bool{false, true} {
		s.p.memory.refused = refused
		var truth map[string][]byte
		s.do("fill m 8")
		var c Capture
		s.atBoundary(s.p, func() {
			truth = s.truths(s.p)
			var err error
			s.number++
			c, err = s.p.Capture(context.Background(), s.number, 0)
			s.must(err)
		})
		s.do("write m 0 1000000 1")
		s.compare(t, c, truth)
	}
}

// TestSharedPage has two regions that meet within a page: what is written there changes
// both, and looking at one must not hide it from the other.
func TestSharedPage(t *testing.T) {
	t.Parallel()
	const size, meet = 6 << 20, 3<<20 + 1000
	s := &subject{program: startProgram(t, plainProgram(t))}
	s.p = s.connect()
	s.do("split u %d %d", size, meet)
	for i := range 6 {
		if i > 1 { // the others find nothing but the page that is written now
			s.do("write u %d 2 %d", []int{meet - 1, meet - 500, meet + 500, meet + 3000}[i-2], i)
		}
		var truth map[string][]byte
		var c Capture
		s.atBoundary(s.p, func() {
			truth = s.truths(s.p)
			var err error
			s.number++
			c, err = s.p.Capture(context.Background(), s.number, 0)
			s.must(err)
		})
		s.compare(t, c, truth)
		s.keep(truth)
	}
	if !s.p.memory.tracks.refused && s.clean == 0 {
		t.Error("no page was ever clean")
	}
}

func TestPageExtents(t *testing.T) {
	t.Parallel()
	list := []region{
		{name: "end", address: 0x9100, size: 0x2000},
		{name: "alone", address: 0x3010, size: 0x2000},
		{name: "whole", address: 0x6000, size: 0x3000},
		{name: "meets", address: 0x9000, size: 0x100},
		{name: "none", address: 0x9080, size: 0},
		{name: "over", address: 0x20000, size: 0x5000},
		{name: "lapping", address: 0x24000, size: 0x2000},
	}
	want := []extent{{0xa000, 0xc000}, {0x3000, 0x6000}, {0x6000, 0x9000}, {0x9000, 0x9000}, {}, {}, {}}
	for i, e := range pageExtents(list) {
		if e != want[i] {
			t.Errorf("%s: %#x, want %#x", list[i].name, e, want[i])
		}
	}
}

// TestBypass opens a file through which hardware may write to memory: pages that nobody
// is seen to write may then have changed.
func TestBypass(t *testing.T) { // not beside others, since it changes what they look for
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	pr.do("map u %d 0", 4<<20)
	pr.capture(p)
	if c := pr.capture(p); !p.memory.tracks.refused && !c.Clean(1, "u", 0, 4096) {
		t.Error("nothing is clean without such a file")
	}
	defer func(old []string) { devices = old }(devices)
	devices = append(slices.Clone(devices), "socket:") // the link is one
	if c := pr.capture(p); c.Clean(2, "u", 0, 4096) {
		t.Error("a page is clean that hardware may have written")
	}
	if notes := p.Notes(); len(notes) != 1 || notes[0].Call != "userfaultfd" || !strings.Contains(notes[0].Err.Error(), "socket:") {
		t.Errorf("notes are %v", notes)
	}
}
