package predict

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// Nodes that write to one file system do not scale: of the times of Table 5.14 with 1,
// 2 and 4 nodes, the second is about half, and the last two are about the same.
func TestNodesShareServer(t *testing.T) {
	m := model(t)
	var seconds []float64
	for _, mapping := range [][]int{{16}, {8, 8}, {4, 4, 4, 4}} {
		tm, err := m.Time(Request{App: app(t, m, "bt.B.16"), Mapping: mapping, IO: FullIO, BufferMiB: 32}, "none", nil)
		if err != nil {
			t.Fatal(err)
		}
		seconds = append(seconds, tm.Latency.Total)
	}
	times, err := dataset.CollectiveTimes()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range seconds {
		j := slices.IndexFunc(times, func(c dataset.CollectiveTime) bool {
			return c.System == "AFS-1" && c.BufferMiB == 32 && len(c.Mapping) == 1<<i
		})
		t.Logf("%d nodes: %.1f s, measured %.1f", 1<<i, s, times[j].Seconds)
		if math.Abs(s/times[j].Seconds-1) > 0.1 {
			t.Errorf("%d nodes: %.1f s, measured %.1f", 1<<i, s, times[j].Seconds)
		}
	}
	// A measured rate is that of all nodes together.
	p := &fit.Probe{BytesPerS: 100 << 20, Writers: 4, Dir: "/scratch"}
	tm, err := m.Time(Request{App: app(t, m, "bt.B.16"), Mapping: []int{4, 4, 4, 4}, IO: FullIO}, "none", p)
	if err != nil {
		t.Fatal(err)
	}
	if want := float64(tm.StoredMiB) / 100; math.Abs(tm.Latency.Storage-want) > 1e-9 {
		t.Errorf("storage %.3f s, want %.3f", tm.Latency.Storage, want)
	}
}

// A fit to one system alone predicts the other within its interval, and says that the
// rate of a server that nobody measured is uncertain.
func TestUnknownServer(t *testing.T) {
	m := model(t)
	w, err := m.collective(dataset.CollectiveTime{App: "bt", Class: "B", NP: 16, MPI: "mpich", Mapping: []int{4, 4, 4, 4}, Aggregators: 4})
	if err != nil {
		t.Fatal(err)
	}
	_, unknown, _ := m.Latency.Predict(w)
	w.System = "AFS-1"
	_, known, _ := m.Latency.Predict(w)
	if unknown.High/unknown.Low <= 2*known.High/known.Low {
		t.Errorf("interval of an unknown server %.1f to %.1f s, of a known one %.1f to %.1f", unknown.Low, unknown.High, known.Low, known.High)
	}
}

// A model that an older ckpt wrote, without server and with other ratios of gzip, gets
// the times of today: they were never the user's.
func TestReadOldModel(t *testing.T) {
	m := *model(t)
	latency := *m.Latency
	latency.Server, latency.Gzip = nil, fit.Linear{Coef: []float64{0.9}, Gram: []float64{0}, N: 2, K: 1}
	m.Latency = &latency
	text, err := json.Marshal(&m)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadModel(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if read.Latency.Server == nil || len(read.Latency.Gzip.Coef) != 2 {
		t.Errorf("times are still old: %+v", read.Latency)
	}
}
