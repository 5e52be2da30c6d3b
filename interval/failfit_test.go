package interval

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ckpt/internal/testkit"
)

// drawLog draws a log of Weibull gaps.
func drawLog(rng *rand.Rand, n int, mtbf, shape float64) *FailureLog {
	w := newWeibull(mtbf, shape, false)
	l := &FailureLog{}
	at := 0.0
	for range n {
		l.Failures = append(l.Failures, Failure{Start: at, End: math.NaN()})
		at += Together + w.draw(rng)
	}
	l.To = l.Failures[n-1].Start
	return l
}

// TestFailureIntervals draws machines, and counts how often intervals hold their MTBF and shape.
func TestFailureIntervals(t *testing.T) {
	draws := 150
	if testkit.Nightly() {
		draws = 2000
	}
	var shapes, mtbfs, trends, all int
	for _, shape := range []float64{0.5, 0.7, 1, 1.5} {
		for _, n := range []int{8, 30, 120} {
			for i := range draws {
				rng := rand.New(rand.NewPCG(uint64(n), uint64(i)))
				s, err := drawLog(rng, n, 1e6, shape).Stats(0)
				if err != nil {
					t.Fatal(err)
				}
				all++
				if s.Shape.Low <= shape && shape <= s.Shape.High {
					shapes++
				}
				if mtbf := 1e6 + Together; s.MTBF.Low <= mtbf && mtbf <= s.MTBF.High {
					mtbfs++
				}
				if s.Trend.Clear() {
					trends++
				}
			}
		}
	}
	t.Logf("of %d: shapes %.1f %%, MTBFs %.1f %%, false trends %.1f %%", all, 100*float64(shapes)/float64(all), 100*float64(mtbfs)/float64(all), 100*float64(trends)/float64(all))
	for name, got := range map[string]int{"shape": shapes, "MTBF": mtbfs} {
		if share := float64(got) / float64(all); share < 0.92 || share > 0.985 {
			t.Errorf("intervals of the %s hold it in %.1f %%", name, 100*share)
		}
	}
	if share := float64(trends) / float64(all); share > 0.075 {
		t.Errorf("a constant rate has a clear trend in %.1f %%", 100*share)
	}
}

// TestFailureTrend: a rate that doubles is seen.
func TestFailureTrend(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	l := drawLog(rng, 100, 1e5, 1)
	last := l.To
	for range 200 {
		last += Together + rng.ExpFloat64()*5e4
		l.Failures = append(l.Failures, Failure{Start: last, End: math.NaN()})
	}
	l.To = last
	s, err := l.Stats(0)
	if err != nil || !s.Trend.Clear() || s.Trend.U < 2 || s.Trend.Newer > s.Trend.Older {
		t.Errorf("%+v: %v", s.Trend, err)
	}
}

// TestFailingNodes: 20 of 400 nodes have a quarter of the failures, and are found; without them
// failures are rarer. Where all nodes are alike, none is accused.
func TestFailingNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, worse := range []bool{true, false} {
		l := drawLog(rng, 2000, 1e5, 1)
		for i := range l.Failures {
			node := rng.IntN(400)
			if worse && rng.Float64() < 0.22 {
				node %= 20
			}
			l.Failures[i].Node, l.Failures[i].End = fmt.Sprintf("n%d", node), l.Failures[i].Start+7200
		}
		s, err := l.Stats(400)
		if err != nil {
			t.Fatal(err)
		}
		n := s.Nodes
		if worse != (len(n.Offenders) > 12) || worse != (n.Worst <= 22) || n.Share < 0.25 {
			t.Errorf("worse %v: %+v", worse, n)
		}
		if worse && (n.Without == nil || *n.Without < 1.2*s.MTBF.Value) {
			t.Errorf("without the worst %v, with them %g", n.Without, s.MTBF.Value)
		}
		if s.Repair.Median.Value != 7200 || s.Repair.P95 != 7200 || s.Spares(1).Value != 1 {
			t.Errorf("repairs %+v, %+v spares", s.Repair, s.Spares(1))
		}
	}
}

// TestEvenGaps: failures at equal distances have no trend.
func TestEvenGaps(t *testing.T) {
	l := &FailureLog{To: 5000}
	for i := range 6 {
		l.Failures = append(l.Failures, Failure{Node: "n1", Start: 1000 * float64(i), End: math.NaN()})
	}
	if s, err := l.Stats(8); err != nil || s.Trend.Clear() {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestBurstOfRecords: seven records of one failure accuse no node.
func TestBurstOfRecords(t *testing.T) {
	l := &FailureLog{To: 8e4}
	for i := range 8 {
		l.Failures = append(l.Failures, Failure{Node: fmt.Sprintf("n%d", i), Start: 1e4 * float64(i), End: math.NaN()})
		for k := range 6 {
			if i == 3 {
				l.Failures = append(l.Failures, Failure{Node: "n3", Start: 1e4*float64(i) + 5*float64(k+1), End: math.NaN()})
			}
		}
	}
	s, err := l.Stats(400)
	if err != nil || s.Failures != 8 || len(s.Nodes.Offenders) > 0 || s.Nodes.Worst != 2 {
		t.Errorf("%+v: %+v, %v", s, s.Nodes, err)
	}
}

func TestReadFailures(t *testing.T) {
	for name, c := range map[string]struct {
		text, system string
		records      int
		form, node   string
		end          float64 // of the first record, after its start
		mtbf         float64
	}{
		"csv":               {"node,start,end,kind\nn1,2026-01-01 00:00,2026-01-01 02:00,disk\nn2,2026-01-03 00:00,,power\nn1,2026-01-02 00:00,2026-01-02 01:00,disk\n", "", 3, "CSV table", "n1", 7200, 86400},
		"hours":             {"# a comment\nhost;time_h\na;0\nb;24\n\na;72\n", "", 3, "CSV table", "a", math.NaN(), 36 * 3600},
		"units of columns":  {"node,start,end_h,downtime_min\na,0,1,\na,86400,,5\nb,172800,,5\n", "", 3, "CSV table", "a", 3600, 86400},
		"downtime in hours": {"node,start,downtime_h\na,0,2\na,86400,2\nb,172800,\n", "", 3, "CSV table", "a", 7200, 86400},
		"lanl": {"LA-UR-05-7318\nSystem,nodes,nodenumz,Prob Started (mm/dd/yy hh:mm),Prob Fixed (mm/dd/yy hh:mm),Down Time,Hardware,Human Error,Software\n" +
			"2,49,0,6/21/2005 10:54,6/21/2005 11:00,6,Disk,,\n2,49,7,6/23/2005 10:54,,30,,,Kernel\n2,49,7,6/25/2005 10:54,,30,,,Kernel\n20,256,7,6/25/05 10:54,,30,,,Kernel\n", "2", 3, "failure data of LANL", "0", 360, 2 * 86400},
		"scr": {"2021-11-05T16:00:00: host=a, jobid=1, event=START, procs=8, nodes=4\n2021-11-05T17:00:00: host=a, jobid=1, event=NODE_FAIL, note=\"n3: no answer\"\n" +
			"2021-11-05T18:00:00: host=a, jobid=1, event=NODE FAIL, note=\"n1: memory\"\n2021-11-05T18:10:00: host=a, jobid=1, xfer=CHECKPOINT, secs=1.0\n" +
			"2021-11-05T20:00:00: host=a, jobid=1, event=NODE_FAIL, note=\"n3: memory\"\n2021-11-06T16:00:00: host=a, jobid=1, event=HALT\n", "", 3, "log of SCR", "n3", math.NaN(), 5400},
		"times": {"2026-01-01T00:00:00Z\n2026-01-02T00:00:00Z\n2026-01-04T00:00:00Z\n", "", 3, "list of times", "", math.NaN(), 36 * 3600},
	} {
		l, err := ReadFailures(name, c.system, strings.NewReader(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s, err := l.Stats(0)
		first := l.Failures[0]
		if end := first.End - first.Start; err != nil || s.Records != c.records || l.Form != c.form || first.Node != c.node || s.MTBF.Value != c.mtbf ||
			end != c.end && !math.IsNaN(c.end) {
			t.Errorf("%s: %+v, %+v: %v", name, l, s, err)
		}
	}
}

func TestBadLogs(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "log: the file is empty",
		"hello\n":                         `log:1: "hello" is no time`,
		"1\n2\n":                          "log: 2 failures tell no rate",
		"start\n1\nsoon\n900\n":           `log:3: "soon" is no time`,
		"start,end\n100,50\n200,\n300,\n": "log:2: the failure ends 50 s before it starts",
		"system,start\na,0\nb,100\nb,200\nb,300\n": "log: the log has failures of 2 systems: a, b",
		"start\n31/12/2026 10:00\n":                `log:2: "31/12/2026 10:00" is no time`,
	} {
		_, err := ReadFailures("log", "", strings.NewReader(text))
		if e := new(LogError); !errors.As(err, &e) || e.Error() != want || e.Hint() == "" {
			t.Errorf("%q: %v", text, err)
		}
	}
	l, err := ReadFailures("log", "", strings.NewReader("0\n10\n20\n30\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Stats(0); err == nil {
		t.Error("one failure has an MTBF")
	}
}

// TestRepairIntervals draws log-normal times of repair, and counts how often the intervals hold
// their mean and 95th percentile.
func TestRepairIntervals(t *testing.T) {
	const sd, median = 1.2, 7200.0
	means, p95s, all := 0, 0, 0
	for _, n := range []int{5, 20, 100} {
		for i := range 400 {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(i)))
			l := &FailureLog{}
			for range n {
				l.Failures = append(l.Failures, Failure{End: median * math.Exp(sd*rng.NormFloat64())})
			}
			r := l.repairs()
			all++
			if mean := median * math.Exp(sd*sd/2); r.MeanLow <= mean && mean <= r.MeanHigh {
				means++
			}
			if p95 := median * math.Exp(1.645*sd); r.P95Low <= p95 && p95 <= r.P95High {
				p95s++
			}
		}
	}
	t.Logf("of %d: means %.1f %%, 95th percentiles %.1f %%", all, 100*float64(means)/float64(all), 100*float64(p95s)/float64(all))
	for name, got := range map[string]int{"mean": means, "95th percentile": p95s} {
		if share := float64(got) / float64(all); share < 0.92 {
			t.Errorf("intervals of the %s hold it in %.1f %%", name, 100*share)
		}
	}
}

// TestEqualGaps: the shape of gaps that are equal is bounded from below only.
func TestEqualGaps(t *testing.T) {
	l := &FailureLog{}
	for i := range 12 {
		l.Failures = append(l.Failures, Failure{Start: float64(i) * 86400, End: math.NaN()})
	}
	l.To = 11 * 86400
	s, err := l.Stats(0)
	if err != nil || s.Shape.High < 0.99*MostShape || s.Shape.Low < 10 {
		t.Errorf("%+v: %v", s, err)
	}
}

// TestSpares: the doubt about the mean repair widens the interval.
func TestSpares(t *testing.T) {
	s := &FailureStats{Records: 10, Failures: 10, MTBF: Estimated{100, 99, 101}, Repair: &RepairTimes{Mean: 500, MeanLow: 250, MeanHigh: 1000}}
	if got := s.Spares(1); got.Value != 9 || got.Low > 5 || got.High < 15 {
		t.Errorf("%+v", got)
	}
}
