package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// TestHeaderCompiles compiles the client in each language and mode that it promises; two
// files of a program share one state.
func TestHeaderCompiles(t *testing.T) {
	t.Parallel()
	files := []string{"testdata/program.c", "testdata/other.c"}
	for _, mode := range []struct{ name, compiler, std string }{
		{"c99", "cc", "-std=c99"}, {"c17", "cc", "-std=c17"}, {"gnu", "cc", "-std=gnu11"},
		{"cxx11", "g++", "-std=c++11"}, {"cxx20", "g++", "-std=c++20"},
	} {
		t.Run(mode.name, func(t *testing.T) {
			args := []string{mode.std}
			if mode.compiler == "g++" {
				args = append(args, "-x", "c++")
			}
			pr := startProgram(t, compiled(t, "program-"+mode.name, mode.compiler, append(args, files...)...))
			p := pr.connect()
			p.SetLimit(10)
			pr.do("boundary 5")
			pr.do("other")
			if count, step := p.Passed(); count != 2 || step != 7 {
				t.Errorf("passed %d, step %d: the files of the program do not share their state", count, step)
			}
		})
	}
}

// TestAlone runs a program without a coordinator.
func TestAlone(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, "env", "-u", EnvAgent, plainProgram(t))
	for _, command := range []string{"init x 0 2", "protect u 80 1", "alloc v 80 1", "restore", "boundary 1", "save 2", "wait", "forget u", "finalize"} {
		pr.do(command)
	}
	pr.tell("query u")
	pr.expect("-2 ckpt_query: called after ckpt_finalize")
	pr.in.Close()
	pr.must(pr.cmd.Wait())
	if notice := pr.stderr.String(); strings.Count(notice, "\n") != 1 || !strings.Contains(notice, "no coordinator") {
		t.Errorf("the notice is %q", notice)
	}
}

// TestAgentIsNoChild looks at the process that a client starts.
func TestAgentIsNoChild(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	pr.tell("init x 3 5")
	p := pr.link()
	if h := p.Hello(); h.Rank != 3 || h.Size != 5 || h.PID != pr.cmd.Process.Pid || h.Version != Version || h.Language != "c" {
		t.Errorf("hello is %+v", h)
	}
	var pid, parent, rank, size int
	if _, err := fmt.Sscan(pr.about, &pid, &parent, &rank, &size); err != nil {
		t.Fatal(err)
	}
	if parent == pr.cmd.Process.Pid || rank != 3 || size != 5 {
		t.Errorf("the agent says %q; the program is %d", pr.about, pr.cmd.Process.Pid)
	}
	pr.must(p.Welcome(nil))
	pr.expect("0")
	pr.do("children")
}

func TestRefusedWelcome(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	pr.tell("init x 0 1")
	p := pr.link()
	pr.must(p.Welcome(errors.New("the token is wrong")))
	pr.expect("-3 the token is wrong")
	pr.do("restore")
	pr.tell("boundary 1")
	pr.expect("-3 the token is wrong")
	if _, ok := <-p.Calls(); ok || p.Err() != nil {
		t.Errorf("a call came, or %v", p.Err())
	}
}

// TestAgentDiesAtStart: a killed agent has a successor, but not for ever. Then the process
// ends, since it cannot be protected.
func TestAgentDiesAtStart(t *testing.T) {
	for k := range 4 {
		when := []string{"early", "late"}[k%2]
		start := func() *program {
			if k < 2 {
				return startPython(t)
			}
			return startProgram(t, plainProgram(t))
		}
		dir := t.TempDir()
		t.Setenv(dyingAgents, dir)
		dying := func(n int) {
			for i := range n {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(when, "-", i)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		dying(2)
		p := start().connect()
		p.Close()
		dying(3)
		pr := start()
		pr.tell("init x 0 1")
		var exit *exec.ExitError
		if err := pr.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%v", err)
		}
		if said := pr.stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "the process ends, since it cannot be protected") {
			t.Errorf("stderr is %q", said)
		}
	}
}

// TestBoundary counts boundaries, with and without calls.
func TestBoundary(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	p.SetPassed(100)
	p.SetLimit(104)
	pr.tell("boundaries x 10") // calls 104 and every later one
	if c := pr.call(p, Boundary); c.Count != 104 || c.Step != 3 || c.Save {
		t.Errorf("call is %+v", c)
	}
	p.SetLimit(200)
	pr.must(p.Answer(Answer{Status: OK}))
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

// TestCalls takes all other calls through the link.
func TestCalls(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	pr.do("progress")
	pr.tell("restore")
	pr.call(p, Restore)
	pr.must(p.Answer(Answer{Value: 17}))
	pr.expect("17")
	pr.tell("restore")
	pr.call(p, Restore)
	pr.must(p.Answer(Answer{Status: Damage, Text: strings.Repeat("long ", 1000)}))
	if got := pr.answer(); !strings.HasPrefix(got, "-4 long long") {
		t.Errorf("the program answered %q", got)
	}
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
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
	if err := p.Answer(Answer{}); err == nil {
		t.Error("an answer without a call went out")
	}
	pr.tell("finalize")
	pr.call(p, Finalize)
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
	if _, ok := <-p.Calls(); ok {
		t.Error("a call came after finalize")
	}
	pr.tell("boundary x 1")
	pr.expect("-2 ckpt_boundary: called after ckpt_finalize")
}

func TestArguments(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	pr.tell("boundary x 1")
	pr.expect("-2 ckpt_boundary: call ckpt_init first")
	pr.tell("init x 2 2")
	pr.expect("-2 ckpt_init: rank 2 of 2 is out of range")
	p := pr.connect()
	for command, want := range map[string]string{
		"init x 0 1":           "-2 ckpt_init: called twice",
		"protect u 7 1":        "-2 ckpt_protect u: 7 bytes are no whole number of values of 8 bytes",
		"protect u 8 10":       "-2 ckpt_protect u: unknown type 10",
		"protect \xc3\xa4 8 0": "-2 ckpt_protect: character 1 of the name is not printable ASCII",
		"again never 8 0":      "-2 ckpt_protect never: null pointer",
		"forget never":         "-2 ckpt_forget never: no region has this name",
	} {
		pr.tell("%s", command)
		pr.expect(want)
	}
	if r, err := p.Regions(); err != nil || len(r) != 0 {
		t.Errorf("regions %v, %v", r, err)
	}
}

// TestRegions follows the list of regions through a program's calls.
func TestRegions(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	list := func() (out []string) {
		t.Helper()
		pr.tell("boundary x 1")
		pr.call(p, Boundary)
		regions, err := p.Regions()
		pr.must(err)
		for _, r := range regions {
			if r.Zone != zones.Data || int64(len(r.Mem)) != zones.PageRound(r.Size) {
				t.Errorf("region %s has zone %v and %d bytes of memory", r.Name, r.Zone, len(r.Mem))
			}
			out = append(out, fmt.Sprint(r.Name, " ", r.Elem, " ", r.Size))
		}
		pr.must(p.Answer(Answer{}))
		pr.expect("0")
		return out
	}
	check := func(want ...string) {
		t.Helper()
		if got := list(); !slices.Equal(got, want) {
			t.Errorf("regions are %q, want %q", got, want)
		}
	}
	check()
	pr.do("protect u 80000 1")
	pr.do("protect empty 0 3")
	pr.do("alloc v 5 0")
	check("u float64 80000", "empty int32 0", "v bytes 5")
	pr.do("again u 8000 2")
	pr.do("alloc v 500000 0")
	check("u float32 8000", "empty int32 0", "v bytes 500000")
	pr.do("forget u")
	check("empty int32 0", "v bytes 500000")
}

// TestFetchPut moves memory both ways, in pieces that end anywhere.
func TestFetchPut(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	const size = 9<<20 + 24
	pr.do("protect u %d 1", size)
	pr.do("alloc v 100 0")
	pr.do("fill u 1")
	pr.do("fill v 2")
	pr.tell("boundary x 1")
	pr.call(p, Boundary)
	regions, err := p.Regions()
	pr.must(err)
	for _, r := range regions {
		for offset := 0; offset < len(r.Mem); offset += 5 << 20 {
			pr.must(p.Fetch(r.Mem[offset:min(len(r.Mem), offset+5<<20)]))
		}
		if want := pr.truth(p, r.Name); !bytes.Equal(r.Mem[:r.Size], want) {
			t.Errorf("region %s is not what the process has", r.Name)
		}
		if slices.ContainsFunc(r.Mem[r.Size:], func(b byte) bool { return b != 0 }) {
			t.Errorf("region %s has a tail that is not zero", r.Name)
		}
	}
	u := regions[0].Mem
	kept := bytes.Clone(u[:size])
	p.Release(u)
	if slices.ContainsFunc(u, func(b byte) bool { return b != 0 }) {
		t.Error("released memory is not zero")
	}
	slices.Reverse(kept)
	copy(u, kept)
	pr.must(p.Put(u[:6<<20]))
	pr.must(p.Put(u[6<<20:]))
	if !bytes.Equal(pr.truth(p, "u"), kept) {
		t.Error("the process does not have what was put")
	}
	if err := p.Fetch(make([]byte, 10)); err == nil {
		t.Error("memory of no region was fetched")
	}
	pr.must(p.Answer(Answer{}))
	pr.expect("0")
	if err := p.Fetch(u[:100]); err == nil {
		t.Error("memory was fetched while the process ran")
	}
}

// TestUnmapped protects memory that is not there any more: the program must survive.
func TestUnmapped(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	pr.do("gone u 2093056 0") // a hole in which no window of the client fits
	pr.tell("boundary x 1")
	pr.call(p, Boundary)
	regions, err := p.Regions()
	pr.must(err)
	if err := p.Fetch(regions[0].Mem); !errors.Is(err, unix.EFAULT) {
		t.Errorf("fetch: %v", err)
	}
	if err := p.Prepare(context.Background(), 1); !errors.Is(err, unix.EFAULT) {
		t.Errorf("prepare: %v", err)
	}
	if _, err := p.Capture(context.Background(), 1, 0); !errors.Is(err, unix.EFAULT) {
		t.Errorf("capture: %v", err)
	}
	pr.must(p.Answer(Answer{Status: IO, Text: "checkpoint failed"}))
	pr.expect("-7 checkpoint failed")
}

// TestUnmappedLater takes memory away that earlier checkpoints have, and that nobody has
// written since: the next one fails, and the one after that the memory is left out.
func TestUnmappedLater(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, gone := range []string{"unmap u 40960 4096", "forbid u 40960 4096", "unmap u 0 4194304", "unmap u 4190208 4096"} {
		for name, take := range map[string]func(*Process) (Capture, error){
			"view":    func(p *Process) (Capture, error) { return p.View(ctx, 1, 0) },
			"capture": func(p *Process) (Capture, error) { return p.Capture(ctx, 1, 0) },
		} {
			pr := startProgram(t, plainProgram(t))
			p := pr.connect()
			pr.do("map u %d 0", 4<<20)
			pr.do("map v %d 0", 4<<20)
			for i := range 3 {
				pr.tell("boundary x %d", i+1)
				pr.call(p, Boundary)
				c, err := take(p)
				pr.must(err)
				c.Release()
				pr.must(p.Answer(Answer{}))
				pr.expect("0")
			}
			pr.do(gone)
			pr.tell("boundary x 4")
			pr.call(p, Boundary)
			if _, err := take(p); !errors.Is(err, unix.EFAULT) || !strings.Contains(err.Error(), `region "u"`) {
				t.Errorf("%s, %s: %v", gone, name, err)
			}
			pr.must(p.Answer(Answer{Status: IO, Text: "checkpoint failed"}))
			pr.expect("-7 checkpoint failed")
			pr.do("forget u")
			pr.tell("boundary x 5")
			pr.call(p, Boundary)
			if c, err := take(p); err != nil || len(c.Regions) != 1 {
				t.Errorf("%s, %s: %v without it", gone, name, err)
			}
			pr.must(p.Answer(Answer{}))
			pr.expect("0")
		}
	}
}

// TestAgentDies ends the link while the program waits and while it runs.
func TestAgentDies(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
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

// TestKill kills the process; its end is seen.
func TestKill(t *testing.T) {
	t.Parallel()
	pr := startProgram(t, plainProgram(t))
	p := pr.connect()
	select {
	case <-p.Done():
		t.Fatal("the process has ended already")
	default:
	}
	p.Kill()
	<-p.Done()
	if _, ok := <-p.Calls(); ok {
		t.Error("a call came")
	}
	p.Kill() // harmless
}

// truth returns the memory of a region as the kernel shows it.
func (pr *program) truth(p *Process, name string) []byte {
	pr.t.Helper()
	return pr.truths(p)[name]
}

// truths returns the memory of all regions.
func (pr *program) truths(p *Process) map[string][]byte {
	pr.t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.hello.PID))
	pr.must(err)
	defer mem.Close()
	all := map[string][]byte{}
	for _, r := range p.protected() {
		b := make([]byte, r.size)
		_, err := mem.ReadAt(b, int64(r.address))
		pr.must(err)
		all[r.name] = b
	}
	return all
}
