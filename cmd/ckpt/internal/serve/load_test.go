package serve

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ckpt/image"
	"ckpt/internal/testkit"
)

// manyJobs fills a store with copies of the golden job under other names, of so many checkpoints
// each. Manifests are written anew, since they name their job; images are links.
func manyJobs(t *testing.T, dir string, jobs, checkpoints int) {
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
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go s.watch.run(ctx)
	var reading sync.WaitGroup
	first := &slowest{}
	news := make(chan time.Duration, pages)
	var born atomic.Int64
	ready := make(chan bool, pages)
	for range pages {
		reading.Go(func() {
			began := time.Now()
			r, _ := http.NewRequestWithContext(ctx, "GET", web.URL+"/api/events", nil)
			r.Header.Set("Authorization", "Bearer "+readToken)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			for {
				line, err := lines.ReadString('\n')
				switch {
				case err != nil:
					return
				case strings.HasPrefix(line, ": all"):
					first.add(time.Since(began))
					ready <- true
				case strings.Contains(line, `"job":"many-born"`):
					news <- time.Since(time.Unix(0, born.Load()))
				}
			}
		})
	}
	for range pages {
		<-ready
	}
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
