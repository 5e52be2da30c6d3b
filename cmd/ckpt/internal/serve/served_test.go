package serve

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"ckpt/internal/testkit"
)

// BenchmarkServed runs a job alone, and once more while a service watches its store of
// a thousand jobs for fifty pages, in turns. It tells how many times longer the job takes: the
// geometric mean of the pairs, and its 95 % interval. The pages run on the same processors.
func BenchmarkServed(b *testing.B) {
	library, err := filepath.Abs("../../../../testdata/stores/program")
	if err != nil {
		b.Fatal(err)
	}
	b.Setenv("CKPT_TEST_LIBRARY", library)
	s, h := newTest(b)
	dir := s.stores[0].Dir
	manyJobs(b, dir, 1000, 100)
	s.watch.look(b.Context(), true)
	web := httptest.NewServer(h)
	defer web.Close()
	number := 0
	run := func() float64 {
		number++
		launch := exec.Command(os.Args[0], "launch", "bt.S.4", "--iterations", "2000", "--every", "100", "--keep", "2", "--job", fmt.Sprintf("timed-%d", number), "--store", dir)
		began := time.Now()
		if out, err := launch.CombinedOutput(); err != nil {
			b.Fatalf("%v %s", err, out)
		}
		return time.Since(began).Seconds()
	}
	var ratios []float64 // logarithms
	for i := 0; b.Loop(); i++ {
		var spent [2]float64
		for _, watched := range [2]int{i % 2, 1 - i%2} {
			leave := func() {}
			if watched == 1 {
				leave = s.pages(b, web.URL, 50, func(string, time.Duration) {})
			}
			spent[watched] = run()
			leave()
		}
		ratios = append(ratios, math.Log(spent[1]/spent[0]))
	}
	mean, low, high := testkit.Ratio(ratios)
	b.ReportMetric(mean, "of-alone")
	b.ReportMetric(low, "low")
	b.ReportMetric(high, "high")
}

// pages has the service watch its stores, and so many pages read the events. It returns once all know
// the jobs, with a function that ends them. Heard takes each line of each page, and the time since the
// page asked.
func (s *server) pages(t testing.TB, url string, count int, heard func(line string, since time.Duration)) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all, known sync.WaitGroup
	all.Go(func() { s.watch.run(ctx) })
	for range count {
		known.Add(1)
		all.Go(func() {
			told := sync.OnceFunc(known.Done)
			defer told()
			began := time.Now()
			r, _ := http.NewRequestWithContext(ctx, "GET", url+"/api/events", nil)
			r.Header.Set("Authorization", "Bearer "+readToken)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			for lines := bufio.NewReader(resp.Body); ; {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				heard(line, time.Since(began))
				if strings.HasPrefix(line, ": all") {
					told()
				}
			}
		})
	}
	known.Wait()
	return func() {
		cancel()
		all.Wait()
	}
}

// TestFirstPaint: a browser that comes back to a service of many jobs shows them. Times are only
// logged.
func TestFirstPaint(t *testing.T) {
	jobs, checkpoints := 20, 3
	if testkit.Nightly() {
		jobs, checkpoints = 1000, 100
	}
	u := newGuest(t)
	manyJobs(t, u.s.stores[0].Dir, jobs, checkpoints)
	u.s.watch.look(t.Context(), true)
	for range 3 {
		u.do("come back", chromedp.Reload())
		u.await("the jobs", `document.querySelectorAll("#jobs tbody tr").length > 0 && document.getElementById("jobs").textContent.includes("many-")`)
		paint, err := chromedp.Run(u.ctx, chromedp.Evaluate[float64](`performance.getEntriesByName("first-contentful-paint")[0].startTime`))
		if err != nil {
			t.Fatal(err)
		}
		all, err := chromedp.Run(u.ctx, chromedp.Evaluate[float64](`performance.now()`))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d jobs of %d checkpoints: first paint after %.0f ms, all jobs in the page before %.0f ms", jobs, checkpoints, paint, all)
	}
}
