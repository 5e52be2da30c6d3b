package process

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ckpt/internal/testkit"
)

// startPython starts testdata/program.py, which does what testdata/program.c does.
func startPython(t *testing.T) *program {
	t.Helper()
	const python = "/usr/bin/python3"
	testkit.All(t, "numpy")
	return startProgram(t, python, "-B", "testdata/program.py")
}

func TestPythonBoundary(t *testing.T) {
	t.Parallel()
	pr := startPython(t)
	p := pr.connect()
	if h := p.Hello(); h.Rank != 0 || h.Size != 1 || h.PID != pr.cmd.Process.Pid || h.Version >= forkVersion || h.Language != "python" {
		t.Errorf("hello is %+v", h)
	}
	pr.do("children")
	p.SetPassed(100)
	p.SetLimit(104)
	pr.tell("boundaries x 10")
	if c := pr.call(p, Boundary); c.Count != 104 || c.Step != 3 || c.Save {
		t.Errorf("call is %+v", c)
	}
	p.SetLimit(200)
	pr.must(p.Answer(Answer{}))
	pr.expect("10")
	if count, step := p.Passed(); count != 110 || step != 9 {
		t.Errorf("passed %d, step %d", count, step)
	}
	p.SetPending(true)
	pr.tell("boundary x 11")
	pr.call(p, Boundary)
	p.SetPending(false)
	pr.must(p.Answer(Answer{Status: Full, Text: "checkpoint 3: the disk is full"}))
	pr.expect("-5 checkpoint 3: the disk is full")
	pr.tell("save x 12")
	if c := pr.call(p, Boundary); c.Count != 112 || c.Step != 12 || !c.Save {
		t.Errorf("call is %+v", c)
	}
	if count, step := p.Passed(); count != 111 || step != 11 {
		t.Errorf("passed %d, step %d while a save waits", count, step)
	}
	pr.must(p.Answer(Answer{Status: Stop}))
	pr.expect("1")
	if count, step := p.Passed(); count != 112 || step != 12 {
		t.Errorf("passed %d, step %d after a save", count, step)
	}
	p.SetLimit(0)
	pr.tell("fork") // a child of the program is no rank
	pr.expect("42")
}

func TestPythonCalls(t *testing.T) {
	t.Parallel()
	pr := startPython(t)
	p := pr.connect()
	pr.do("progress")
	pr.tell("restore")
	pr.call(p, Restore)
	pr.must(p.Answer(Answer{Value: 17}))
	pr.expect("17")
	pr.tell("restore")
	pr.call(p, Restore)
	pr.must(p.Answer(Answer{Status: None}))
	pr.expect("0")
	pr.tell("restore")
	pr.call(p, Restore)
	pr.must(p.Answer(Answer{Status: Mismatch, Text: "region u has 8 bytes"}))
	pr.expect("-6 region u has 8 bytes")
	pr.tell("query u")
	if c := pr.call(p, Query); c.Name != "u" {
		t.Errorf("call is %+v", c)
	}
	pr.must(p.Answer(Answer{Value: 1 << 40}))
	pr.expect("1099511627776")
	pr.tell("query") // the step
	if c := pr.call(p, Query); c.Name != "" {
		t.Errorf("call is %+v", c)
	}
	pr.must(p.Answer(Answer{Value: 18}))
	pr.expect("18")
	pr.tell("wait")
	pr.call(p, Wait)
	pr.must(p.Answer(Answer{Status: IO, Text: "disk"}))
	pr.expect("-7 disk")
	pr.tell("finalize")
	pr.call(p, Finalize)
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
	if _, ok := <-p.Calls(); ok {
		t.Error("a call came after finalize")
	}
	pr.tell("boundary x 1")
	pr.expect("-2 ckpt.boundary: called after ckpt.finalize")
}

func TestPythonRegions(t *testing.T) {
	t.Parallel()
	pr := startPython(t)
	pr.tell("boundary x 1")
	pr.expect("-2 ckpt.boundary: call ckpt.init first")
	p := pr.connect()
	pr.do("protect u 80000 1")
	pr.do("protect empty 0 3")
	pr.do("alloc v 5")
	pr.do("again u 8000 2")
	pr.do("alloc v 500000")
	pr.do("protect w 8 4")
	pr.do("forget w")
	pr.tell("forget w")
	pr.expect("-2 ckpt.forget w: no region has this name")
	pr.tell("protect \xc3\xa4 8 0")
	pr.expect("-2 ckpt.protect: name 'ä' is not printable ASCII")
	pr.tell("boundary x 1")
	pr.call(p, Boundary)
	regions, err := p.Regions()
	pr.must(err)
	var got []string
	for _, r := range regions {
		got = append(got, fmt.Sprint(r.Name, " ", r.Elem, " ", r.Size))
	}
	if want := []string{"u float32 8000", "empty int32 0", "v bytes 500000"}; !slices.Equal(got, want) {
		t.Errorf("regions are %q, want %q", got, want)
	}
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
}

// TestPythonFetchPut moves memory both ways.
func TestPythonFetchPut(t *testing.T) {
	t.Parallel()
	pr := startPython(t)
	p := pr.connect()
	const size = 1<<20 + 24
	pr.do("protect u %d 1", size)
	pr.do("fill u 1")
	pr.tell("boundary x 1")
	pr.call(p, Boundary)
	regions, err := p.Regions()
	pr.must(err)
	u := regions[0].Mem
	pr.must(p.Fetch(u))
	kept := bytes.Clone(u[:size])
	if !bytes.Equal(kept, pr.truth(p, "u")) {
		t.Error("the region is not what the process has")
	}
	slices.Reverse(kept)
	copy(u, kept)
	pr.must(p.Put(u[:5<<17]))
	pr.must(p.Put(u[5<<17:]))
	if !bytes.Equal(pr.truth(p, "u"), kept) {
		t.Error("the process does not have what was put")
	}
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
}

// TestPythonCapture takes memory behind the program's back, again and again: pages that
// changed are found, and later writes do not reach the capture.
func TestPythonCapture(t *testing.T) {
	t.Parallel()
	pr := startPython(t)
	s := &subject{program: pr, p: pr.connect(), rng: rand.New(rand.NewPCG(7, 16))}
	const size = 1 << 20
	pr.do("alloc u %d", size)
	pr.do("protect v 30000 1")
	s.regions = []subjectRegion{{name: "u", size: size}, {name: "v", size: 30000}}
	pr.do("fill u 5")
	for i := range 20 {
		pr.do("write u %d 5000 %d", s.rng.IntN(size-5000), i)
		pr.do("write v %d 10 %d", s.rng.IntN(30000-10), i)
		s.checkpoint(t)
	}
	if tracks := s.p.memory.tracks; !tracks.refused && s.clean == 0 {
		t.Error("no page was ever clean")
	}
}

func TestPythonUnmapped(t *testing.T) {
	t.Parallel()
	pr := startPython(t)
	p := pr.connect()
	pr.do("gone u 2093056 0") // a hole in which no window of the client fits
	pr.tell("boundary x 1")
	pr.call(p, Boundary)
	regions, err := p.Regions()
	pr.must(err)
	if err := p.Fetch(regions[0].Mem); !errors.Is(err, unix.EFAULT) {
		t.Errorf("fetch: %v", err)
	}
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
}

func TestPythonAgentDies(t *testing.T) {
	t.Parallel()
	pr := startPython(t)
	p := pr.connect()
	pr.tell("boundary x 1")
	pr.call(p, Boundary)
	p.Close()
	pr.expect("-3 the agent (ckpt rank) is gone")
	pr.tell("save x 2")
	pr.expect("-3 the agent (ckpt rank) is gone")
	pr.do("restore")
	pr.tell("finalize")
	pr.expect("-3 the agent (ckpt rank) is gone")
	pr.in.Close()
	pr.must(pr.cmd.Wait())
	if strings.Count(pr.stderr.String(), "\n") != 1 {
		t.Errorf("stderr is %q", pr.stderr.String())
	}
}
