package process

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ckpt/internal/testkit"
	"ckpt/zones"
)

// A subject is a program with regions, and what the test knows of them.
type subject struct {
	*program
	p       *Process
	rng     *rand.Rand
	regions []subjectRegion
	past    map[int64]map[string][]byte // the memory at earlier checkpoints
	flying  []flown
	clean   int // pages that were clean
}

// A flown is a capture that is not released, with the memory that it is of.
type flown struct {
	c     Capture
	truth map[string][]byte
}

// keep remembers the memory of the checkpoint that was taken last.
func (s *subject) keep(truth map[string][]byte) {
	if s.past == nil {
		s.past = map[int64]map[string][]byte{}
	}
	s.past[s.number] = truth
}

type subjectRegion struct {
	name string
	kind string // map or heap
	size int
}

// TestPatterns writes to memory in every way that programs do, in patterns of a seed, and
// compares each byte that is taken, and each page that is called clean.
func TestPatterns(t *testing.T) {
	t.Parallel()
	runs := 30
	if testkit.Nightly() {
		runs = 1000
	}
	pr := startProgram(t, plainProgram(t))
	s := &subject{program: pr, p: pr.connect()}
	for seed := range runs {
		s.pattern(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if tracks := s.p.memory.tracks; !tracks.refused && s.clean == 0 {
		t.Error("no page was ever clean")
	}
	t.Logf("%d clean pages; notes %v", s.clean, s.p.Notes())
}

// pattern is one run: regions come, change, and go.
func (s *subject) pattern(t *testing.T, seed int) {
	s.rng = rand.New(rand.NewPCG(uint64(seed), 16))
	for i := range 1 + s.rng.IntN(3) {
		r := subjectRegion{name: fmt.Sprintf("r%d", i), kind: []string{"map", "heap"}[s.rng.IntN(2)], size: 1000 + s.rng.IntN(4<<20)}
		huge := s.rng.IntN(2)
		if r.kind == "map" {
			r.size = (r.size + 4095) &^ 4095
		}
		s.do("%s %s %d %d", r.kind, r.name, r.size, huge)
		if s.rng.IntN(3) > 0 {
			s.do("fill %s %d", r.name, seed)
		}
		s.regions = append(s.regions, r)
	}
	for range 4 + s.rng.IntN(4) {
		for range s.rng.IntN(5) {
			s.change(&s.regions[s.rng.IntN(len(s.regions))])
		}
		s.checkpoint(t)
		if t.Failed() {
			return
		}
	}
	for _, f := range s.flying {
		f.c.Release()
	}
	s.flying, s.past = nil, nil
	for _, r := range s.regions {
		free := 0
		if r.kind == "heap" {
			free = 1
		}
		s.do("release %s 0 %d", r.name, free)
	}
	s.regions = nil
}

// change changes a region in one of the ways.
func (s *subject) change(r *subjectRegion) {
	from := s.rng.IntN(r.size)
	n := 1 + s.rng.IntN(min(r.size-from, 40000))
	value := s.rng.IntN(100)
	page, pages := from&^4095, max(4096, n&^4095)
	page = min(page, max(0, r.size-pages)&^4095)
	switch way := s.rng.IntN(14); {
	case way == 0:
		s.do("readin %s %d %d %d", r.name, from, n, value)
	case way == 1:
		s.do("threads %s %d", r.name, value)
	case way == 2:
		s.do("write %s 0 %d %d", r.name, r.size, value)
	case way == 3 && r.kind == "map":
		s.do("dontneed %s %d %d", r.name, page, pages)
	case way == 4 && r.kind == "map":
		s.do("dontneed %s 0 %d", r.name, r.size)
	case way == 5 && r.kind == "map":
		s.do("remap %s %d %d", r.name, page, pages)
	case way == 6 && r.kind == "map":
		s.do("mremap %s %d %d %d", r.name, from, n, value)
	case way == 7 && r.kind == "heap":
		r.size = max(1000, r.size/2+s.rng.IntN(r.size))
		s.do("realloc %s %d 0 %d", r.name, r.size, value)
	case way == 9: // as an MPI library on the same host sends
		s.writeFrom(r.name, from, bytes.Repeat([]byte{byte(value)}, n))
	case way == 8:
		s.do("child %s %d %d %d", r.name, from, n, value)
	default:
		s.do("write %s %d %d %d", r.name, from, n, value)
	}
}

// writeFrom writes to a region from another process: this one.
func (s *subject) writeFrom(name string, offset int, b []byte) {
	s.t.Helper()
	s.tell("wait") // all that it said of its regions has arrived then
	s.call(s.p, Wait)
	s.must(s.p.Answer(Answer{}))
	s.expect("0")
	list := s.p.protected()
	i := slices.IndexFunc(list, func(r region) bool { return r.name == name })
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	remote := []unix.RemoteIovec{{Base: uintptr(list[i].address) + uintptr(offset), Len: len(b)}}
	n, err := unix.ProcessVMWritev(s.p.hello.PID, local, remote, 0)
	if err == nil && n == len(b) {
		return
	}
	if !errGone(err) { // a filter of the test may refuse it
		s.t.Fatalf("wrote %d of %d bytes: %v", n, len(b), err)
	}
}

// checkpoint takes the memory in one of the ways, and compares.
func (s *subject) checkpoint(t *testing.T) {
	s.tell("boundary x 1")
	s.call(s.p, Boundary)
	truth := s.truths(s.p)
	behind := s.rng.IntN(2) == 0
	var c Capture
	var err error
	s.number++
	s.p.memory.forks.always = s.p.memory.forks.always || s.rng.IntN(2) == 0
	base := int64(0)
	if s.rng.IntN(4) == 0 {
		base = max(0, s.number-1-s.rng.Int64N(4))
	}
	if behind {
		c, err = s.p.Capture(context.Background(), s.number, base)
	} else {
		c, err = s.p.View(context.Background(), s.number, base)
		for _, r := range c.Regions {
			s.must(s.p.Fetch(r.Mem))
		}
	}
	s.must(err)
	if s.rng.IntN(4) == 0 { // else a child may copy while the program goes on
		s.compare(t, c, truth)
	}
	s.must(s.p.Answer(Answer{}))
	s.expect("0")
	s.keep(truth)
	if !behind {
		return
	}
	if s.rng.IntN(3) == 0 { // the program rewrites all before the capture is read
		for _, r := range s.regions {
			s.do("write %s 0 %d %d", r.name, r.size, 7)
		}
	}
	s.flying = append(s.flying, flown{c, truth})
	for _, f := range s.flying {
		s.compare(t, f.c, f.truth)
	}
	for len(s.flying) > 3 || len(s.flying) > 0 && s.rng.IntN(2) == 0 {
		s.flying[0].c.Release()
		s.flying = s.flying[1:]
	}
}

// compare compares a capture with the memory of the process, and what is clean with the memory at
// the earlier checkpoints.
func (s *subject) compare(t *testing.T, c Capture, truth map[string][]byte) {
	t.Helper()
	s.must(c.Ready(context.Background()))
	if len(c.Regions) != len(truth) {
		t.Fatalf("%d regions, want %d", len(c.Regions), len(truth))
	}
	for _, r := range c.Regions {
		want := truth[r.Name]
		if !bytes.Equal(r.Mem[:r.Size], want) {
			t.Fatalf("region %s is not what the process had", r.Name)
		}
		if slices.ContainsFunc(r.Mem[r.Size:], func(b byte) bool { return b != 0 }) {
			t.Fatalf("region %s has a tail that is not zero", r.Name)
		}
		for at := int64(0); at < r.Size; at += zones.PageSize {
			end := min(at+zones.PageSize, r.Size)
			for number, past := range s.past {
				if !c.Clean(number, r.Name, at, zones.PageSize) {
					continue
				}
				s.clean++
				if was := past[r.Name]; int64(len(was)) != r.Size || !bytes.Equal(was[at:end], want[at:end]) {
					t.Fatalf("page %d of region %s is called clean since %d", at/zones.PageSize, r.Name, number)
				}
			}
		}
	}
}
