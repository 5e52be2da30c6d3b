package report

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

// ranked is a trace of n ranks that each write 1000 bytes from 0 to 1 s.
func ranked(n int) *iotrace.Trace {
	tr := &iotrace.Trace{Files: []string{"f"}}
	for r := range n {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: n - 1 - r})
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: int32(r), Bytes: 1000, Peer: iotrace.None, End: 1e9})
	}
	return tr
}

func surveyOf(t *testing.T, tr *iotrace.Trace, r *analyze.Report, file string, rank int, onPage bool, kinds ...Plot) *survey {
	t.Helper()
	s, err := newSurvey(tr, r, file, rank, onPage, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHeat: all bytes are in the cells of their rank and time, whatever ranks share a
// row.
func TestHeat(t *testing.T) {
	for _, n := range []int{1, 2, 128, 129, 4096} {
		tr := ranked(n)
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Read, Rank: 0, Bytes: 500, Peer: iotrace.None, Start: 1e9, End: 1e9})
		s := surveyOf(t, tr, analyze.Analyze(tr, analyze.Options{}), "", iotrace.None, false, Heatmap)
		h := s.heat
		if c := h.rows.count(); c > heatRows || n <= heatRows && c != n {
			t.Errorf("%d ranks in %d rows", n, c)
		}
		var sum float64
		for row := range h.rows.count() + 1 {
			for _, x := range h.cells[row*h.columns : (row+1)*h.columns] {
				sum += x * float64(h.rows.size(row))
			}
		}
		if want := 1000*float64(n) + 500; math.Abs(sum-want) > 1e-6*want {
			t.Errorf("%d ranks: %v bytes in the cells, want %v", n, sum, want)
		}
		// Rank n-1 is the first of the trace and in the last row.
		last := h.cells[(h.rows.count()-1)*h.columns:]
		if x, want := last[h.columns/2], 1000/float64(h.columns); math.Abs(x-want) > 1e-6 {
			t.Errorf("%d ranks: %v bytes in a cell, want %v", n, x, want)
		}
		if x := last[h.columns-1]; x <= 1000/float64(h.columns) {
			t.Errorf("%d ranks: the read is not in the last cell: %v", n, x)
		}
	}
}

// TestHeatLayers: bytes that both layers have are in the picture once, and those of
// MPI-IO alone are there as well.
func TestHeatLayers(t *testing.T) {
	tr := ranked(2)
	tr.Files = append(tr.Files, "g")
	for _, e := range tr.Events[:2] {
		e.Module = iotrace.MPIIO
		tr.Events = append(tr.Events, e)
		e.File = 1
		tr.Events = append(tr.Events, e)
	}
	r := analyze.Analyze(tr, analyze.Options{})
	for file, want := range map[string]float64{"": 4000, "f": 2000, "g": 2000} {
		var sum float64
		for _, x := range surveyOf(t, tr, r, file, iotrace.None, true, Heatmap).heat.cells {
			sum += x
		}
		if math.Abs(sum-want) > 1e-6 {
			t.Errorf("file %q: %v bytes, want %v", file, sum, want)
		}
	}
}

// TestRowTicks: labels are few, and have the numbers of the ranks.
func TestRowTicks(t *testing.T) {
	for n, want := range map[int]string{1: "0", 3: "2", 64: "56", 4096: "3584"} {
		ticks := newRows(ranked(n), 128).ticks(10, false)
		if last := ticks[len(ticks)-1]; len(ticks) > 10 || last.Label != want {
			t.Errorf("%d ranks: %d labels, the last is %q", n, len(ticks), last.Label)
		}
	}
}

// TestTimeline: a rank has its own operations only; files beyond the rows share one,
// and each kind of operation has its lane.
func TestTimeline(t *testing.T) {
	tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: iotrace.None, Node: "mpiexec"}, {Rank: 4}, {Rank: 2}}}
	for i := range 30 {
		tr.Files = append(tr.Files, string(rune('A'+i)))
		at := int64(i) * 1e9
		for rank, op := range []iotrace.Op{iotrace.Open, iotrace.Write, iotrace.Read} {
			tr.Events = append(tr.Events, iotrace.Event{Op: op, Rank: int32(rank), File: int32(i), Bytes: 10, Peer: iotrace.None, Start: at, End: at + int64(i+1)*1e7})
		}
	}
	r := analyze.Analyze(tr, analyze.Options{})
	for rank, want := range map[int]int{iotrace.None: 4, 2: 2, 4: 4} {
		l := surveyOf(t, tr, r, "", rank, false, Timeline).line
		lines := l.lines()
		all, lanes := l.boxes(lines)
		wantLane := 0
		if want == 2 {
			wantLane = 1
		}
		if tr.Ranks[l.rank].Rank != want || len(lanes) != 1 || lanes[0] != wantLane {
			t.Errorf("rank %d, lanes %v; want rank %d", tr.Ranks[l.rank].Rank, lanes, want)
		}
		if len(lines) != timelineFiles || lines[timelineFiles-1].name != "19 other files" || lines[0].name != tr.Files[19] {
			t.Errorf("%d rows, the first %q, the last %q", len(lines), lines[0].name, lines[len(lines)-1].name)
		}
		if len(all) != 30 {
			t.Errorf("%d boxes of 30 operations apart", len(all))
		}
		for _, b := range all {
			if b.x0 < 0 || b.x1 > 29.3+1e-9 || b.y0 < 0 || b.y1 > float64(len(lines)) || b.x1 <= b.x0 || b.y1 <= b.y0 {
				t.Errorf("box %+v", b)
			}
		}
	}
	if err := Draw(io.Discard, Timeline, "svg", tr, r, "", 3); err == nil {
		t.Error("rank 3 was drawn, which does not exist")
	}
}

// TestBalance: bars have the bytes and the times of their ranks over the mean, and
// operations of a rank that overlap count once.
func TestBalance(t *testing.T) {
	tr := ranked(4)                                                                                                                 // ranks 3, 2, 1, 0
	tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Rank: 0, Bytes: 4000, Peer: iotrace.None, Start: 5e8, End: 5e9}) // rank 3: 5 s in all
	all, sum := surveyOf(t, tr, analyze.Analyze(tr, analyze.Options{}), "", iotrace.None, false, Balance).load.boxes()
	if sum[0] != (spread{1000, 2000, 5000}) || sum[1] != (spread{1, 2, 5}) || len(all) != 8 {
		t.Fatalf("%v, %d bars", sum, len(all))
	}
	for _, b := range all {
		want := 0.5
		if b.x0 > 3 {
			want = 2.5
		}
		if b.y0 != 0 || b.y1 != want {
			t.Errorf("bar %+v, want it %v high", b, want)
		}
	}
	many, _ := surveyOf(t, ranked(4096), &analyze.Report{}, "", iotrace.None, false, Balance).load.boxes()
	if len(many) != 2*4096/32 || many[0].y0 != 1 || many[0].y1 != 1 {
		t.Errorf("%d bars, the first %+v", len(many), many[0])
	}
}

// TestBalanceCounters: counters of a rank count; those of all ranks have no bar.
func TestBalanceCounters(t *testing.T) {
	tr := ranked(2)
	tr.Events = nil
	tr.Counters = []iotrace.Counters{{Rank: 1, BytesWritten: 30, BytesRead: iotrace.None, WriteTime: time.Second}, {Rank: iotrace.None, BytesWritten: 500}}
	_, sum := surveyOf(t, tr, &analyze.Report{}, "", iotrace.None, false, Balance).load.boxes()
	if sum[0] != (spread{0, 15, 30}) || sum[1] != (spread{0, 0.5, 1}) {
		t.Errorf("%v", sum)
	}
}

// TestCountedPage: a page about counters has no empty plots, and says how to get them.
func TestCountedPage(t *testing.T) {
	tr := ranked(2)
	tr.Events = nil
	tr.Counters = []iotrace.Counters{{Rank: 1, Writes: 3, BytesWritten: 30, WriteTime: time.Second}}
	var page bytes.Buffer
	if err := HTML(&page, tr, analyze.Analyze(tr, analyze.Options{}), nil, nil); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, "<figure "); n != 3 || !strings.Contains(text, "DXT_ENABLE_IO_TRACE=1") || !strings.Contains(text, "Bars of bytes and time of I/O for 2 ranks") {
		t.Errorf("%d plots", n)
	}
	// Most logs have sums over all ranks only.
	tr.Counters[0].Rank = iotrace.None
	r := analyze.Analyze(tr, analyze.Options{})
	page.Reset()
	if err := HTML(&page, tr, r, nil, nil); err != nil {
		t.Fatal(err)
	}
	text = page.String()
	if n := strings.Count(text, "<figure "); n != 2 || !strings.Contains(text, noBalance) || strings.Contains(text, "bursts</dt>") || strings.Contains(text, "<pre></pre>") {
		t.Errorf("%d plots without ranks", n)
	}
	if err := Draw(io.Discard, Balance, "svg", tr, r, "", iotrace.None); err == nil {
		t.Error("a picture of nothing was drawn")
	}
}
