package predict

import (
	"ckpt/dataset"
	"ckpt/predict/fit"
	"fmt"
	"slices"
)

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
