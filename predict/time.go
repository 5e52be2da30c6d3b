package predict

import (
	"fmt"
	"math"
)

// A Time is the predicted latency of one checkpoint.
type Time struct {
	Size
	Codec string
	// StoredMiB is the size written by all nodes, after compression.
	StoredMiB float64
	// Latency has the terms in seconds, LowS and HighS the interval of the total.
	Latency parts
	LowS    float64
	HighS   float64
	// TimeModel names the method, and Valid where it holds.
	TimeModel string
	Valid     string
	Probe     *Probe
	// Assumed tells that the thesis did not measure the codec.
	Assumed bool

	// of is the size before the time added its own doubts.
	of *Size
}

// Time predicts the latency of a checkpoint of a job. With the law of the thesis it
// uses the thesis's method: a line per zone, all processes side by side. A probe
// replaces the rate of the thesis's disk by that of the user's.
func (m *Model) Time(r Request, codec string, probe *Probe) (*Time, error) {
	size, err := m.Size(r)
	if err != nil {
		return nil, err
	}
	return m.timeOf(size, r, codec, probe)
}

func (m *Model) timeOf(size *Size, r Request, codec string, probe *Probe) (*Time, error) {
	t := &Time{Size: *size, Codec: codec, Probe: probe, of: size}
	if codec == "" {
		t.Codec = "none"
	}
	if r.Law == Thesis {
		return t, t.thesis()
	}
	if size.ZonesUnknown && t.Codec != "none" {
		return nil, refuseFor(LeaveCodec, "%s: zones are unknown, and the ratio of %s depends on them", size.App, codec)
	}
	if m.Latency == nil {
		return nil, refuse("use the built-in model", "the model has no times")
	}
	c, err := m.Latency.codec(codec)
	if err != nil {
		return nil, err
	}
	w := writing{np: size.NP, nodes: loads(size), codec: c, name: t.Codec, probe: probe, doubt: size.doubtOf(probe), shared: r.IO != NoIO && r.IO != ""}
	latency, total, stored := m.Latency.predict(w)
	t.Latency, t.LowS, t.HighS, t.StoredMiB = latency, total.Low, total.High, stored
	m.Latency.describe(t, w)
	if t.Assumed = c.assumed; c.assumed {
		t.Note = join(t.Note, "the thesis has no times of "+t.Codec+"; its rate and ratio are assumed from live solvers")
	}
	if total.Extrapolation > 1.0001 {
		t.Extrapolation = max(t.Extrapolation, total.Extrapolation)
		t.Note = join(t.Note, fmt.Sprintf("time extrapolated by a factor of %.2g", total.Extrapolation))
	}
	return t, nil
}

// describe names the method and where it holds.
func (f *latencyFit) describe(t *Time, w writing) {
	t.TimeModel = fmt.Sprintf("coordination(np) + management(stored) + stored / (rate · ppn^%.2f)", f.Gamma)
	t.Valid = fmt.Sprintf("%g to %g processes per node and %.1f to %.1f GiB per node, on local disks like that of AFS-1 (Tables 5.3-5.6)",
		f.Low, f.High, f.LowMiB/1024, f.HighMiB/1024)
	if w.shared {
		t.TimeModel = "coordination(np) + management(stored) + the longer of stored / server and stored of a node / link"
		if f.Server != nil {
			r, _ := f.Server.rate("")
			t.Valid = fmt.Sprintf("a file system that all nodes share, of %.0f MiB/s, and %.0f MiB/s for one node, like that of AFS-1 (Table 5.14)", r.Server, r.Link)
		}
	}
	if w.probe != nil {
		t.Valid = fmt.Sprintf("the file system of %s: %.0f MiB/s with %d writers, measured now", w.probe.Dir, w.probe.MiBPerS, w.probe.Writers)
		if w.shared {
			t.Valid += "; all nodes share it"
		}
	}
}

// doubt is the relative standard deviation of the size of a checkpoint.
func (s *Size) doubt() float64 { return (s.HighMiB - s.LowMiB) / 4 / s.TotalMiB }

// doubtOf is the doubt of a time. Times without a probe are those of the measured
// machines, and so are the sizes behind them.
func (s *Size) doubtOf(probe *Probe) float64 {
	if probe == nil {
		return s.here
	}
	return s.doubt()
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// loads sums the files of a job by node. The data zone compresses like data,
// the rest like shared memory.
func loads(s *Size) []nodeLoad {
	// Files of equal nodes are counted together: each node of a kind gets its share of
	// the files of that kind.
	nodes := map[int]int{}
	var order []int
	for _, n := range s.Mapping {
		if nodes[n] == 0 {
			order = append(order, n)
		}
		nodes[n]++
	}
	var out []nodeLoad
	for _, ppn := range order {
		l := nodeLoad{ppn: ppn}
		for _, f := range s.Files {
			if f.PPN == ppn {
				share := float64(f.Count) / float64(nodes[ppn])
				l.data += share * f.Zones.Data
				l.total += share * f.MiB
			}
		}
		l.rest = max(0, l.total-l.data)
		for range nodes[ppn] {
			out = append(out, l)
		}
	}
	return out
}

// thesis fills in Eq 5.1-5.3. Every process writes at the same rate for any number of
// processes, so the time is that of the largest file.
func (t *Time) thesis() error {
	if t.Codec != "none" {
		return refuseFor(LeaveCodec, "the thesis has no equation for the time of %s", t.Codec)
	}
	for _, f := range t.Files {
		data, library, shared := thesisSeconds(f.Zones.Data, f.Zones.Library, f.Zones.Shared+f.Zones.IOBuffer)
		t.Latency.Storage = max(t.Latency.Storage, data+library+shared)
	}
	t.Latency.Total, t.StoredMiB = t.Latency.Storage, t.TotalMiB
	// Against Tables 5.3-5.6 the equations err by -61 to +73 %.
	half := 0.6 * t.Latency.Total
	t.LowS, t.HighS = math.Max(0, t.Latency.Total-half), t.Latency.Total+half
	t.TimeModel = "thesis: Eq 5.1 + 5.2 + 5.3"
	t.Valid = "no congestion of the node"
	return nil
}
