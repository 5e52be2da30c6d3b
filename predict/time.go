package predict

import (
	"cmp"
	"fmt"
	"slices"

	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

// A Time is the predicted latency of one checkpoint.
type Time struct {
	Size
	Codec string `json:"codec"`
	// StoredMiB is the size written by all nodes, after compression.
	StoredMiB MiB `json:"stored_bytes"`
	// Latency has the terms in seconds, LowS and HighS the interval of the total.
	Latency fit.Parts `json:"latency_s"`
	LowS    float64   `json:"low_s"`
	HighS   float64   `json:"high_s"`
	// PauseS is how long the application stands still, where that is shorter; else nil. Pause
	// is the same with its interval.
	PauseS *float64   `json:"pause_s,omitempty"`
	Pause  *fit.Range `json:"-"`
	// TimeModel names the method, and Valid where it holds.
	TimeModel string     `json:"time_model"`
	Valid     string     `json:"valid"`
	Probe     *fit.Probe `json:"probe,omitempty"`
	// Assumed tells that the thesis did not measure the codec.
	Assumed bool `json:"assumed"`
	Objects      // on a described storage of objects

	// of is the size before the time added its own doubts, far why the time is not to be used.
	of  *Size
	far error
}

// Time predicts the latency of a checkpoint of a job. With the law of the thesis it
// uses the thesis's method: a line per zone, all processes side by side. A probe
// replaces the rate of the thesis's disk by the user's.
func (m *Model) Time(r Request, codec string, probe *fit.Probe) (*Time, error) {
	size, err := m.Size(r)
	if err != nil {
		return nil, err
	}
	return m.TimeOf(size, r, codec, probe)
}

func (m *Model) TimeOf(size *Size, r Request, codec string, probe *fit.Probe) (*Time, error) {
	t := &Time{Size: *size, Codec: codec, Probe: probe, of: size}
	if codec == "" {
		t.Codec = "none"
	}
	if r.Law == fit.Thesis {
		return t, t.thesis()
	}
	if size.ZonesUnknown && t.Codec != "none" {
		return nil, fit.RefuseFor(fit.LeaveCodec, "%s: zones are unknown, and the ratio of %s depends on them", size.App, codec)
	}
	if m.Latency == nil {
		return nil, fit.Refuse("use the built-in model", "the model has no times")
	}
	c, err := m.Latency.Codec(codec)
	if err != nil {
		return nil, err
	}
	w := fit.Writing{NP: size.NP, Nodes: Loads(size), Codec: c, Name: t.Codec, Probe: probe, Doubt: size.doubtOf(probe), Shared: r.IO != NoIO && r.IO != ""}
	latency, total, stored := m.Latency.Predict(w)
	t.far = m.Latency.TooFar(w)
	t.Latency, t.LowS, t.HighS, t.StoredMiB = latency, total.Low, total.High, MiB(stored)
	t.TimeModel, t.Valid = m.Latency.Describe(w)
	if timer := m.timer(t.Codec); timer != nil {
		t.measured(timer.of(&w, stored, latency.Management, false), timer)
		total.Extrapolation = 1
	}
	if t.Assumed = c.Assumed; c.Assumed {
		t.Note = fit.Join(t.Note, "the thesis has no times of "+t.Codec+"; its rate and ratio are assumed from live solvers")
	}
	if fit.Far(total.Extrapolation) {
		t.Extrapolation = max(t.Extrapolation, total.Extrapolation)
		t.Note = fit.Join(t.Note, "time extrapolated by a factor of "+fit.Factor(total.Extrapolation))
	}
	return t, nil
}

// TooFar is an error if the time lies too far beyond what was measured to be used. Every command
// that uses it refuses it then, through this function or that of [Stored].
func (t *Time) TooFar() error { return t.far }

// NodeImages returns the sizes in MiB of the images of a node with so many ranks; the images of aggregators
// come first. The node is the i-th, from 0, of all that have as many ranks; of is the number of these.
func (t *Time) NodeImages(ranks, i, of int) (mib []float64) {
	for _, aggregators := range []bool{true, false} {
		for _, f := range t.Files {
			if f.PPN != ranks || f.Aggregator != aggregators {
				continue
			}
			for range f.Count*(i+1)/of - f.Count*i/of {
				mib = append(mib, float64(f.MiB))
			}
		}
	}
	return mib
}

// doubt is the relative standard deviation of the size of a checkpoint.
func (s *Size) doubt() float64 { return float64((s.HighMiB - s.LowMiB) / 4 / s.TotalMiB) }

// doubtOf is the doubt of a time. Times without a probe come from the measured
// machines, and so are the sizes behind them.
func (s *Size) doubtOf(probe *fit.Probe) float64 {
	if probe == nil {
		return s.here
	}
	return s.doubt()
}

// Loads sums the files of a job by node. The data zone compresses like data,
// the rest like shared memory.
func Loads(s *Size) []fit.Load {
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
	var out []fit.Load
	for _, ppn := range order {
		l := fit.Load{PPN: ppn}
		for _, f := range s.Files {
			if f.PPN == ppn {
				share := float64(f.Count) / float64(nodes[ppn])
				l.Data += share * float64(f.Zones.Data)
				l.Total += share * float64(f.MiB)
			}
		}
		l.Rest = max(0, l.Total-l.Data)
		for range nodes[ppn] {
			out = append(out, l)
		}
	}
	return out
}

// thesis fills in Eq 5.1-5.3. Every process writes at the same rate for any number of
// processes, so the largest file sets the time.
func (t *Time) thesis() error {
	if t.Codec != "none" {
		return fit.RefuseFor(fit.LeaveCodec, "the thesis has no equation for the time of %s", t.Codec)
	}
	for _, f := range t.Files {
		data, library, shared := fit.ThesisSeconds(float64(f.Zones.Data), float64(f.Zones.Library), float64(f.Zones.Shared+f.Zones.IOBuffer))
		t.Latency.Storage = max(t.Latency.Storage, data+library+shared)
	}
	t.Latency.Total, t.StoredMiB = t.Latency.Storage, t.TotalMiB
	// Against Tables 5.3-5.6 the equations err by -61 to +73 %.
	t.LowS, t.HighS = t.Latency.Total/1.73, t.Latency.Total/(1-0.61)
	t.TimeModel = "thesis: Eq 5.1 + 5.2 + 5.3"
	t.Valid = "no congestion of the node"
	return nil
}

// ImageParts predicts the time of storing a part of the ranks.
func (m *Model) ImageParts(size *Size, r Request, codec string, probe *fit.Probe) (service.Storing, error) {
	if m.Latency == nil {
		return nil, fit.Refuse("use the built-in model", "the model has no times")
	}
	c, err := m.Latency.Codec(codec)
	if err != nil {
		return nil, err
	}
	full := map[int]fit.Load{}
	for _, l := range Loads(size) {
		full[l.PPN] = l
	}
	return func(perNode []int, agree int, keptMiB float64) (fit.Range, float64, error) {
		w := fit.Writing{NP: agree, Codec: c, Name: cmp.Or(codec, "none"), Probe: probe, Doubt: size.doubtOf(probe), Shared: r.IO != NoIO && r.IO != ""}
		for i, n := range perNode {
			if n == 0 {
				continue
			}
			l := full[r.Mapping[i]]
			share := float64(n) / float64(l.PPN)
			kept := float64(n) * keptMiB
			w.Nodes = append(w.Nodes, fit.Load{PPN: n, Data: share*l.Data + kept, Rest: share * l.Rest, Total: share*l.Total + kept})
		}
		if len(w.Nodes) == 0 {
			return fit.Range{}, 0, nil
		}
		latency, total, stored := m.Latency.Predict(w)
		if timer := m.timer(w.Name); timer != nil {
			t := timer.of(&w, stored, latency.Management, part(perNode, r.Mapping))
			return t.Pause, stored, t.TooFar
		}
		return fit.Range{Value: total.Value, Low: total.Low, High: total.High}, stored, nil
	}, nil
}

// part reports whether some ranks of a mapping are not among those of each node.
func part(perNode, mapping []int) bool {
	for i, n := range perNode {
		if n < mapping[i] {
			return true
		}
	}
	return false
}

// HeldOutFiles has the files of the tables, each with its prediction from the jobs other
// than its own.
func HeldOutFiles() ([]dataset.ImageFile, []fit.Estimate, error) {
	files, err := dataset.ImageFiles()
	if err != nil {
		return nil, nil, err
	}
	predicted, err := FilesWithout(files)
	return files, predicted, err
}

// FilesWithout predicts every file from the jobs other than its own.
func FilesWithout(files []dataset.ImageFile) ([]fit.Estimate, error) {
	base, err := BuiltIn()
	if err != nil {
		return nil, err
	}
	out := make([]fit.Estimate, 0, len(files))
	for begin := 0; begin < len(files); {
		end := begin
		for end < len(files) && files[end].Case() == files[begin].Case() {
			end++
		}
		rest := slices.Concat(files[:begin], files[end:])
		m := *base
		fit, err := fitIO(files[begin].MPI, rest, base)
		if err != nil {
			return nil, err
		}
		m.IO = map[string]*ioFit{files[begin].MPI: fit}
		for _, f := range files[begin:end] {
			e, err := m.fileOf(f)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		begin = end
	}
	return out, nil
}

// fileOf predicts one file of a table.
func (m *Model) fileOf(f dataset.ImageFile) (fit.Estimate, error) {
	c, inst, err := CaseOf(f)
	if err != nil {
		return fit.Estimate{}, err
	}
	r, err := Request{App: AppOf(inst), Mapping: f.Mapping, MPI: f.MPI, IO: FullIO, Aggregators: c.Aggregators}.Normal()
	if err != nil {
		return fit.Estimate{}, err
	}
	data, err := m.DataZone(r.App, r.MPI, fit.Auto, len(r.Mapping))
	if err != nil {
		return fit.Estimate{}, err
	}
	k := File{PPN: PpnOf(f), Count: 1, Aggregator: f.Aggregator, First: f.Aggregator && f.Rank == 0 && f.MPI == "openmpi"}
	k, err = m.file(r, k, data.Estimate)
	return k.Estimate, err
}

// LatencyWithout predicts row i from all others.
func LatencyWithout(rows []dataset.Latency, i int) (fit.Estimate, error) {
	l := rows[i]
	rest := slices.Delete(slices.Clone(rows), i, i+1)
	f, err := fit.FitLatency(rest)
	if err != nil {
		return fit.Estimate{}, err
	}
	c, err := f.Codec(l.Codec)
	if err != nil {
		return fit.Estimate{}, err
	}
	_, e, _ := f.Predict(fit.Writing{NP: l.NP, Nodes: []fit.Load{loadOf(l)}, Codec: c, Name: l.Codec})
	return e, nil
}

func loadOf(l dataset.Latency) fit.Load {
	return fit.Load{PPN: l.NP, Data: l.DataMiB, Rest: l.RawMiB - l.DataMiB, Total: l.RawMiB}
}

// VolumeWithout predicts what row i stores under gzip from all others, in MiB.
func VolumeWithout(rows []dataset.Latency, i int) (fit.Estimate, error) {
	g, err := fit.FitGzip(slices.Delete(slices.Clone(rows), i, i+1))
	if err != nil {
		return fit.Estimate{}, err
	}
	c, err := (&fit.Latency{Gzip: g}).Codec("gzip")
	if err != nil {
		return fit.Estimate{}, err
	}
	v := c.Stored(loadOf(rows[i]))
	dof := float64(fit.LatencyPriorPoints + max(0, g.N-g.K))
	return fit.Around(v, fit.Student(dof)*c.Doubt*v, 1), nil
}

// CollectiveWithout predicts the time of row i from all others: of its system, or
// without it (stranger) from other systems alone.
func CollectiveWithout(base *Model, rows []dataset.CollectiveTime, i int, stranger bool) (fit.Estimate, error) {
	rest := slices.Delete(slices.Clone(rows), i, i+1)
	if stranger {
		rest = slices.DeleteFunc(rest, func(c dataset.CollectiveTime) bool { return c.System == rows[i].System })
	}
	f, err := base.fitServer(rest)
	if err != nil {
		return fit.Estimate{}, err
	}
	w, err := base.collective(rows[i])
	if err != nil {
		return fit.Estimate{}, err
	}
	latency := *base.Latency
	latency.Server = f
	_, e, _ := latency.Predict(w)
	return e, nil
}

// RequestFor is the job of a row.
func (m *Model) RequestFor(c dataset.CollectiveTime) (Request, error) {
	a, err := m.Application(fmt.Sprintf("%s.%s.%d", c.App, c.Class, c.NP), 0)
	return Request{App: a, Mapping: c.Mapping, MPI: c.MPI, IO: FullIO, Aggregators: c.Aggregators, BufferMiB: c.BufferMiB}, err
}

// collective is the checkpoint of a row, with predicted sizes.
func (m *Model) collective(c dataset.CollectiveTime) (fit.Writing, error) {
	r, err := m.RequestFor(c)
	if err != nil {
		return fit.Writing{}, err
	}
	s, err := m.Size(r)
	if err != nil {
		return fit.Writing{}, err
	}
	codec, err := m.Latency.Codec("none")
	return fit.Writing{NP: c.NP, Nodes: Loads(s), Codec: codec, Name: "none", Doubt: s.doubt(), Shared: true, System: c.System}, err
}

// fitServer fits the shared file systems to rows, whose sizes the model predicts.
func (m *Model) fitServer(rows []dataset.CollectiveTime) (*fit.Server, error) {
	var list []fit.ServerTime
	for _, c := range rows {
		w, err := m.collective(c)
		if err != nil {
			return nil, err
		}
		list = append(list, m.Latency.ServerTime(w, c.Seconds))
	}
	return fit.FitServer(list)
}
