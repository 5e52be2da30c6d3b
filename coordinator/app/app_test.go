package app

import (
	"errors"
	"fmt"
	"hash/crc64"
	"math"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ckpt/dataset"
	"ckpt/internal/testkit"
	"ckpt/zones"
)

// A job is all ranks of an application in this process.
type job struct {
	t       testing.TB
	inst    *dataset.Instance
	world   *world
	apps    []*App
	regions [][]region // per rank, in order of allocation
}

type region struct {
	name string
	elem zones.Elem
	mem  []byte
}

func newJob(t testing.TB, inst *dataset.Instance) *job {
	t.Helper()
	j := &job{t: t, inst: inst, world: newWorld(inst.NP), regions: make([][]region, inst.NP)}
	for rank := range inst.NP {
		a, err := New(inst, rank, func(name string, elem zones.Elem, n int64) ([]byte, error) {
			mem := aligned(n)
			j.regions[rank] = append(j.regions[rank], region{name, elem, mem})
			return mem, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		j.apps = append(j.apps, a)
	}
	return j
}

// aligned is memory for any element type.
func aligned(n int64) []byte {
	words := make([]float64, (n+7)/8)
	return bytesOf(words)[:n]
}

func (j *job) init() *job {
	j.t.Helper()
	for _, a := range j.apps {
		if err := a.Init(); err != nil {
			j.t.Fatal(err)
		}
	}
	return j
}

// run carries out iterations up to and including last, one goroutine per rank.
func (j *job) run(last int) *job {
	j.t.Helper()
	var wg sync.WaitGroup
	for rank, a := range j.apps {
		wg.Go(func() {
			for i := a.Iteration() + 1; i <= last; i++ {
				if err := a.Step(worldRank{j.world, rank}, i); err != nil {
					j.world.fail(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if j.world.failed != nil {
		j.t.Fatal(j.world.failed)
	}
	return j
}

// restart is a new job with the memory of j and the messages in flight.
func (j *job) restart() *job {
	j.t.Helper()
	out := newJob(j.t, j.inst)
	for rank := range j.regions {
		for i, r := range j.regions[rank] {
			copy(out.regions[rank][i].mem, r.mem)
		}
	}
	out.world = j.world.clone()
	return out
}

func (j *job) digest() uint64 {
	h := crc64.New(crc64.MakeTable(crc64.ECMA))
	for _, rank := range j.regions {
		for _, r := range rank {
			h.Write(r.mem)
		}
	}
	return h.Sum64()
}

// checkFinite fails if a float64 is NaN, infinite or denormal.
func (j *job) checkFinite() {
	j.t.Helper()
	for rank, regions := range j.regions {
		for _, r := range regions {
			if r.elem != zones.Float64 {
				continue
			}
			for i, v := range float64s(r.mem) {
				if math.IsNaN(v) || math.Abs(v) > 1e6 || v != 0 && math.Abs(v) < 0x1p-1022 {
					j.t.Fatalf("%v rank %d: %s[%d] is %v", j.inst, rank, r.name, i, v)
				}
			}
		}
	}
}

func instance(t testing.TB, app string, np int) *dataset.Instance {
	t.Helper()
	inst, err := dataset.ParseApp(app, np)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// counts are the process counts that the tests run an application with: one process, and
// several that divide the grid unevenly, which at night are more.
func counts(app string) []int {
	several := []int{12, 2}
	switch app {
	case "bt", "sp":
		several = []int{9, 4, 16}
	case "cg":
		several = []int{8, 4, 16}
	case "lu":
		several = []int{6, 4, 16}
	}
	if !testkit.Nightly() {
		several = several[:1]
	}
	return append([]int{1}, several...)
}

// everyApp runs f for each built-in application and, as a user's own code, for
// a spec of the generic kernel.
func everyApp(t *testing.T, f func(t *testing.T, inst *dataset.Instance)) {
	for _, name := range dataset.Names() {
		for _, np := range counts(name) {
			t.Run(fmt.Sprintf("%s.S.%d", name, np), func(t *testing.T) {
				t.Parallel()
				f(t, instance(t, name+".S", np))
			})
		}
	}
	for _, np := range counts("generic") {
		t.Run(fmt.Sprintf("generic.S.%d", np), func(t *testing.T) {
			t.Parallel()
			f(t, genericInstance(t, np))
		})
	}
}

const genericSpec = `
name: heat
title: A user's code
kernel: generic
procs: any
classes:
  S: {iterations: 20, params: {n: 3000}}
runtime: 5000
arrays:
  - {name: temperature, elem: float64, count: 'div(n, p) + 2', rewrite: 1}
  - {name: half,        elem: float64, count: 20000,         rewrite: 0.5}
  - {name: material,    elem: float64, count: n,             rewrite: 0}
  - {name: ids,         elem: int32,   count: 4*n,           rewrite: 0.25}
  - {name: keys,        elem: int64,   count: n,             rewrite: 1}
  - {name: small,       elem: float32, count: 4*n,           rewrite: 1}
  - {name: raw,         elem: bytes,   count: 40001,         rewrite: 0.1}
  - {name: nothing,     elem: float64, count: 0,             rewrite: 1}
`

func genericInstance(t testing.TB, np int) *dataset.Instance {
	t.Helper()
	return instanceOf(t, genericSpec, np)
}

// instanceOf is class S of a specification.
func instanceOf(t testing.TB, spec string, np int) *dataset.Instance {
	t.Helper()
	w, err := dataset.ParseWorkload([]byte(spec), "spec.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := w.Instance("S", np)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func TestBitIdentical(t *testing.T) {
	everyApp(t, func(t *testing.T, inst *dataset.Instance) {
		const last = 6
		first := newJob(t, inst).init().run(last)
		if again := newJob(t, inst).init().run(last); again.digest() != first.digest() {
			t.Error("two runs differ")
		}
		if first.apps[0].Residual() <= 0 {
			t.Errorf("residual %v", first.apps[0].Residual())
		}
		for rank, a := range first.apps {
			if a.Residual() != first.apps[0].Residual() || a.Iteration() != last {
				t.Errorf("rank %d: residual %v after %d", rank, a.Residual(), a.Iteration())
			}
		}
	})
}

// sampled returns the first two of a list, and at night all.
func sampled(list ...int) []int {
	if testkit.Nightly() {
		return list
	}
	return list[:2]
}

// A restart is a copy of the regions' bytes and the messages in flight.
func TestRestart(t *testing.T) {
	everyApp(t, func(t *testing.T, inst *dataset.Instance) {
		const last = 8
		want := newJob(t, inst).init().run(last).digest()
		for _, stop := range sampled(0, 5, 1, 2) {
			j := newJob(t, inst).init().run(stop)
			j = j.restart()
			if j.apps[0].Iteration() != stop {
				t.Fatalf("restarted at iteration %d, want %d", j.apps[0].Iteration(), stop)
			}
			if got := j.run(last).digest(); got != want {
				t.Errorf("restart after iteration %d ends in other bytes", stop)
			}
		}
	})
}

// The ring has three messages in flight per rank: one to the right, two to the
// left. The other codes leave none.
func TestMessagesInFlight(t *testing.T) {
	everyApp(t, func(t *testing.T, inst *dataset.Instance) {
		j := newJob(t, inst).init().run(3)
		want := 0
		if inst.Name == "ring" && inst.NP > 1 {
			want = 3 * inst.NP
		}
		if got := j.world.inFlight(); got != want {
			t.Errorf("%d messages in flight after iteration 3, want %d", got, want)
		}
	})
}

func TestAllocation(t *testing.T) {
	everyApp(t, func(t *testing.T, inst *dataset.Instance) {
		var all int64
		for rank, regions := range newJob(t, inst).regions {
			var got, want []string
			var sum int64
			for _, r := range regions {
				got = append(got, fmt.Sprint(r.name, r.elem, len(r.mem)))
				sum += int64(len(r.mem))
			}
			for _, a := range inst.Arrays {
				if a = a.Of(rank); a.Count > 0 {
					want = append(want, fmt.Sprint(a.Name, a.Elem, a.Bytes()))
				}
			}
			want = append(want, fmt.Sprint("runtime", zones.Bytes, inst.Runtime))
			if !slices.Equal(got, want) || sum > inst.DataBytes() || rank == 0 && sum != inst.DataBytes() {
				t.Fatalf("rank %d: regions %v, want %v", rank, got, want)
			}
			all += sum
		}
		if all != inst.TotalBytes() {
			t.Errorf("%d bytes on all ranks, want %d", all, inst.TotalBytes())
		}
	})
}

// The default run of class S stays finite and the residual falls.
func TestDefaultRun(t *testing.T) {
	if testkit.Enabled {
		t.Skip("TestRestart covers the communication")
	}
	everyApp(t, func(t *testing.T, inst *dataset.Instance) {
		j := newJob(t, inst).init().run(1)
		j.checkFinite()
		first := j.apps[0].Residual()
		j.run(inst.Iterations).checkFinite()
		last := j.apps[0].Residual()
		t.Logf("%v: residual %.4g after 1, %.4g after %d iterations", inst, first, last, inst.Iterations)
		if last > first {
			t.Errorf("residual rose from %v to %v", first, last)
		}
	})
}

// An iteration changes the share of each array that the spec says. The share is
// of 8-byte words: a solver changes words, not every byte of each.
func TestRewrite(t *testing.T) {
	everyApp(t, func(t *testing.T, inst *dataset.Instance) {
		j := newJob(t, inst).init().run(4)
		before := j.restart() // a copy
		j.run(5)
		for n, a := range inst.Arrays {
			if a.Count == 0 || inst.Name == "ring" && a.Name == "votes" {
				continue
			}
			var changed, total int
			for rank := range j.regions {
				c, n := changedElements(before.regions[rank][n], j.regions[rank][n])
				changed += c
				total += n
			}
			got := float64(changed) / float64(total)
			switch {
			case a.Rewrite == 0 && changed != 0:
				t.Errorf("%s: %d elements changed; it is constant", a.Name, changed)
			// Buffers are sized for the longest face, cells for the longest
			// side: at class S, edges are a large part of every array.
			case got > a.Rewrite+0.05, a.Count > 100 && got < 0.15*a.Rewrite:
				t.Errorf("%s: %.2f changed, spec says %.2f", a.Name, got, a.Rewrite)
			}
		}
	})
}

// At a size where surfaces are small the pages that change are the share of the
// spec. Of the elements it is less: padding and the edges of cells stay.
func TestRewriteShares(t *testing.T) {
	if testkit.Enabled {
		t.Skip("classes W and A")
	}
	class := "W"
	if testkit.Nightly() {
		class = "A"
	}
	for _, c := range []struct {
		app string
		np  int
	}{{"bt.A", 4}, {"sp." + class, 4}, {"lu." + class, 4}, {"cg.W", 8}, {"minighost.W", 2}} {
		t.Run(c.app, func(t *testing.T) {
			inst := instance(t, c.app, c.np)
			j := newJob(t, inst).init().run(1)
			before := j.restart()
			j.run(2)
			for n, a := range inst.Arrays {
				changed, total := changedElements(before.regions[0][n], j.regions[0][n])
				pages := changedPages(before.regions[0][n].mem, j.regions[0][n].mem)
				t.Logf("%v %s: %.3f of the elements, %.3f of the pages changed, spec says %.2f",
					inst, a.Name, float64(changed)/float64(total), pages, a.Rewrite)
				if math.Abs(pages-a.Rewrite) > 0.12 {
					t.Errorf("%s: %.3f of the pages changed, spec says %.2f", a.Name, pages, a.Rewrite)
				}
			}
		})
	}
}

func changedElements(a, b region) (changed, total int) {
	size := a.elem.Size()
	for i := 0; i+size <= len(a.mem); i += size {
		total++
		if string(a.mem[i:i+size]) != string(b.mem[i:i+size]) {
			changed++
		}
	}
	return changed, total
}

func changedPages(a, b []byte) float64 {
	changed, total := 0, 0
	for i := 0; i < len(a); i += zones.PageSize {
		end := min(i+zones.PageSize, len(a))
		total++
		if string(a[i:end]) != string(b[i:end]) {
			changed++
		}
	}
	return float64(changed) / float64(total)
}

// The grid is the same however it is divided, so the residual of the NAS codes
// does not depend on the number of processes but for the order of sums. A face
// that is packed, sent or unpacked wrongly shows here.
func TestDecomposition(t *testing.T) {
	if testkit.Enabled {
		t.Skip("TestRestart covers the communication")
	}
	all := map[string][]int{
		"bt.S": {4, 9, 16, 25, 36}, "sp.S": {4, 9, 16, 25, 36},
		"lu.S": {2, 3, 4, 6, 9, 12, 16, 30}, "cg.S": {2, 4, 8, 16, 32},
	}
	if !testkit.Nightly() {
		all = map[string][]int{"bt.S": {4, 25}, "sp.S": {9, 16}, "lu.S": {3, 6, 16}, "cg.S": {2, 8, 16}}
	}
	for app, counts := range all {
		t.Run(app, func(t *testing.T) {
			want := newJob(t, instance(t, app, 1)).init().run(8).apps[0].Residual()
			for _, np := range counts {
				got := newJob(t, instance(t, app, np)).init().run(8).apps[0].Residual()
				if math.Abs(got-want) > 1e-9*want {
					t.Errorf("residual %v with %d processes, %v with one", got, np, want)
				}
			}
		})
	}
}

// The matrix fits its arrays at every count of processes: nz of NPB is an
// estimate, and init fails where a block exceeds it.
func TestMatrixFits(t *testing.T) {
	if testkit.Enabled {
		t.Skip("no concurrency")
	}
	classes := []string{"S", "W"}
	if !testkit.Nightly() {
		classes = classes[:1]
	}
	for _, class := range classes {
		for np := 1; np <= 64; np *= 2 {
			newJob(t, instance(t, "cg."+class, np)).init()
		}
	}
}

func TestHistoryWraps(t *testing.T) {
	inst := instance(t, "ring.S", 1)
	j := newJob(t, inst).init().run(600)
	a := j.apps[0]
	if a.Iteration() != 600 || a.runtime.history[599%maxHistory] != a.Residual() {
		t.Errorf("iteration %d, residual %v", a.Iteration(), a.Residual())
	}
}

func TestErrors(t *testing.T) {
	heap := func(_ string, _ zones.Elem, n int64) ([]byte, error) { return aligned(n), nil }
	full := errors.New("no memory")
	for _, c := range []struct {
		name  string
		inst  *dataset.Instance
		rank  int
		alloc Alloc
		want  string
	}{
		{"rank", instance(t, "ring.S", 2), 2, heap, "rank 2 is not in 0..1"},
		{"memory", instance(t, "ring.S", 2), 0, func(string, zones.Elem, int64) ([]byte, error) { return nil, full }, "array state: no memory"},
		{"short", instance(t, "ring.S", 2), 0, func(_ string, _ zones.Elem, n int64) ([]byte, error) { return aligned(n - 1), nil }, "got 4095 bytes"},
		{"thin cells", instance(t, "bt.S", 49), 0, heap, "use at most 36 processes"},
		{"thin pencils", instance(t, "lu.S", 13), 0, heap, "too small for 13 processes"},
		{"missing array", spec(t, "kernel: bt", "params: {N: 12}"), 0, heap, "needs an array forcing of float64"},
		{"missing parameter", spec(t, "kernel: minighost", "params: {nx: 3}"), 0, heap, `needs the parameter "ny"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.inst, c.rank, c.alloc)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if c.name == "memory" && !errors.Is(err, full) {
				t.Error("the cause is lost")
			}
		})
	}
	j := newJob(t, instance(t, "ring.S", 1)).init()
	if err := j.apps[0].Step(worldRank{j.world, 0}, 2); err == nil {
		t.Error("iteration 2 before 1")
	}
}

// spec is the generic spec with another kernel and parameters.
func spec(t *testing.T, kernel, params string) *dataset.Instance {
	t.Helper()
	text := strings.NewReplacer("kernel: generic", kernel, "params: {n: 3000}", params, "(n, p", "(3000, p", "*n", "*3000", "count: n", "count: 3000").Replace(genericSpec)
	w, err := dataset.ParseWorkload([]byte(text), "test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := w.Instance("S", 1)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// Bytes are the data zones of the four ranks. cpu-s/rank is what an iteration
// takes of one core, which unlike the time holds on a busy machine too.
func BenchmarkStep(b *testing.B) {
	for _, app := range []string{"bt.A", "bt.B", "sp.A", "lu.A", "cg.B", "minighost.B"} {
		b.Run(app+".4", func(b *testing.B) {
			inst := instance(b, app, 4)
			j := newJob(b, inst).init()
			b.SetBytes(4 * inst.DataBytes())
			b.ResetTimer()
			before := cpuSeconds(b)
			j.run(b.N)
			b.ReportMetric((cpuSeconds(b)-before)/float64(4*b.N), "cpu-s/rank")
		})
	}
}

func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
