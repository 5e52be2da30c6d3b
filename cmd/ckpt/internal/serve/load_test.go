package serve

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/export"
	"ckpt/iotrace/iotracetest"
	"ckpt/iotrace/read"
	"ckpt/iotrace/tiles"
)

// manyJobs fills a store with copies of the golden job under other names, of so many checkpoints
// each. Manifests are written anew, since they name their job; images are links.
func manyJobs(t testing.TB, dir string, jobs, checkpoints int) {
	t.Helper()
	golden := dir + "/jobs/job"
	old := golden + "/0003/manifest"
	text, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	m, err := image.DecodeManifest(old, text)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range jobs {
		job := fmt.Sprintf("%s/jobs/many-%05d", dir, i)
		must(os.Mkdir(job, 0o700))
		for _, name := range []string{"job", "history.jsonl"} {
			must(os.Link(golden+"/"+name, job+"/"+name))
		}
		m.Job = filepath.Base(job)
		for n := 1; n <= checkpoints; n++ {
			m.Number = n
			body, err := m.Encode()
			must(err)
			must(os.Mkdir(fmt.Sprintf("%s/%04d", job, n), 0o700))
			must(os.WriteFile(fmt.Sprintf("%s/%04d/manifest", job, n), body, 0o600))
		}
	}
}

// TestManyJobs: with many jobs the index is made in 2 s, fifty pages hear of an event soon, and a
// service at rest needs little memory and processor time. Times are only logged.
func TestManyJobs(t *testing.T) {
	jobs, checkpoints, pages := 20, 3, 5
	if testkit.Nightly() {
		jobs, checkpoints, pages = 1000, 100, 50
	}
	s, h := newTest(t)
	manyJobs(t, s.stores[0].Dir, jobs, checkpoints)
	began := time.Now()
	s.watch.look(t.Context(), true)
	index := time.Since(began)
	known := s.watch.known("golden")
	if len(known) != jobs+1 {
		t.Fatalf("%d jobs are known, want %d", len(known), jobs+1)
	}
	for _, k := range known {
		if k.status.Checkpoints != checkpoints && k.name != "job" || k.status.LatestCreated.IsZero() {
			t.Fatalf("%s: %+v", k.name, k.status)
		}
	}
	began = time.Now()
	s.watch.look(t.Context(), true)
	again := time.Since(began)
	web := httptest.NewServer(h)
	defer web.Close()
	first := &slowest{}
	news := make(chan time.Duration, pages)
	var born atomic.Int64
	defer s.pages(t, web.URL, pages, func(line string, since time.Duration) {
		switch {
		case strings.HasPrefix(line, ": all"):
			first.add(since)
		case strings.Contains(line, `"job":"many-born"`):
			news <- time.Since(time.Unix(0, born.Load()))
		}
	})()
	runtime.GC()
	var before, after syscall.Rusage
	if testkit.Nightly() { // a service at rest
		syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		time.Sleep(10 * time.Second)
		syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	}
	born.Store(time.Now().UnixNano())
	if out, err := exec.Command("cp", "-a", s.stores[0].Dir+"/jobs/many-00000", s.stores[0].Dir+"/jobs/many-born").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	late := &slowest{}
	for range pages {
		late.add(<-news)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	busy := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	t.Logf("%d jobs, %d checkpoints, %d pages: index %v, a second look %v, all jobs on a page after %v, an event after %v, %d MiB, %.2f %% of a processor at rest",
		jobs, jobs*checkpoints, pages, index, again, first.most, late.most, memory.Sys>>20, 100*busy.Seconds()/10)
}

// TestIndex: the index of many jobs is made with a few reads for each. Nightly these are 10,000 jobs
// of 10 checkpoints, without catalogs, so that each manifest is looked for.
func TestIndex(t *testing.T) {
	jobs, checkpoints := 30, 3
	if testkit.Nightly() {
		jobs, checkpoints = 10_000, 10
	}
	s, _ := newTest(t)
	manyJobs(t, s.stores[0].Dir, jobs, checkpoints)
	used := measure(t)
	s.watch.look(t.Context(), true)
	made := used()
	if n := len(s.watch.known("golden")); n != jobs+1 {
		t.Fatalf("%d jobs are known, want %d", n, jobs+1)
	}
	t.Logf("index of %d jobs: %v for each", jobs, made.each(jobs))
	// Its description and the manifest of its newest checkpoint: whatever else a job has is not read.
	if most := int64(4); made.reads > most*int64(jobs+1) {
		t.Errorf("%d reads for %d jobs, want at most %d each", made.reads, jobs+1, most)
	}
	used = measure(t)
	s.watch.look(t.Context(), true)
	again := used()
	t.Logf("a second look: %v for each", again.each(jobs))
	if again.reads > int64(jobs) {
		t.Errorf("a second look at %d jobs read %d times", jobs, again.reads)
	}
}

// work is what this process has done.
type work struct {
	elapsed, cpu time.Duration
	reads, bytes int64
}

func (w work) each(n int) string {
	return fmt.Sprintf("%v, %v of a processor, %.1f reads, %.1f KiB", w.elapsed/time.Duration(n), w.cpu/time.Duration(n), float64(w.reads)/float64(n), float64(w.bytes)/float64(n)/1024)
}

// measure begins to count.
func measure(t *testing.T) func() work {
	t.Helper()
	now := func() (w work) {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("/proc/self/io")
		if err != nil {
			t.Skip("this kernel does not count reads")
		}
		if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d", &w.bytes, new(int64), &w.reads); err != nil {
			t.Fatal(err)
		}
		w.cpu = time.Duration(used.Utime.Nano() + used.Stime.Nano())
		return w
	}
	before, began := now(), time.Now()
	return func() work {
		elapsed, after := time.Since(began), now()
		return work{elapsed, after.cpu - before.cpu, after.reads - before.reads, after.bytes - before.bytes}
	}
}

// TestManyEvents: the tiles of a trace take as much memory for ten million events as for few.
func TestManyEvents(t *testing.T) {
	events := 300_000
	if testkit.Nightly() {
		events = 10_000_000
	}
	trace := iotracetest.Dense(events)
	moved := int64(0)
	for i := range trace.Events {
		moved += trace.Events[i].Bytes
	}
	path := t.TempDir() + "/trace"
	writeTo(t, path, iotrace.WriteTrace, trace)
	trace = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used := measure(t)
	g, err := new(grids).of(path)
	made := used()
	runtime.ReadMemStats(&after)
	if err != nil || g.Events != events {
		t.Fatalf("%+v: %v", g, err)
	}
	_, _, rows := g.Cut(tiles.Ranks, g.Start, g.End, 1)
	sum := int64(0)
	for _, r := range rows {
		sum += r.Written[0]
	}
	if math.Abs(float64(sum-moved)) > 1e-6*float64(moved) {
		t.Errorf("the tiles have %d bytes, want %d", sum, moved)
	}
	// All that was ever taken, also what was given back: rows of 16 ranks and files, and buffers.
	taken := int64(after.TotalAlloc - before.TotalAlloc)
	t.Logf("%d events: %v of a processor, %d KiB", events, made.cpu, taken>>10)
	if taken > 12<<20 {
		t.Errorf("%d MiB for the tiles of %d events, want at most 12", taken>>20, events)
	}
}

// TestRowsOfEvents: a CSV is added up a few events at a time, too.
func TestRowsOfEvents(t *testing.T) {
	path := t.TempDir() + "/trace.csv"
	trace := iotracetest.Dense(3*iotrace.Batch + 1)
	writeTo(t, path, export.WriteCSV, trace)
	events, most := 0, 0
	rest, err := read.Each(path, func(list []iotrace.Event) { events, most = events+len(list), max(most, len(list)) })
	if err != nil || events != len(trace.Events) || most > iotrace.Batch || len(rest.Events) > 0 {
		t.Errorf("%d events, at most %d at a time, then %d: %v", events, most, len(rest.Events), err)
	}
	g, err := new(grids).of(path)
	if want := tiles.New(trace); err != nil || !reflect.DeepEqual(g, want) {
		t.Errorf("other tiles than of the whole trace: %v", err)
	}
}

func writeTo(t *testing.T, path string, write func(io.Writer, *iotrace.Trace) error, trace *iotrace.Trace) {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(write(f, trace), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// slowest keeps the longest of durations.
type slowest struct {
	mu   sync.Mutex
	most time.Duration
}

func (s *slowest) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, d)
}
