package predict

import (
	"ckpt/dataset"
	"fmt"
	"slices"
)

// heldOutFiles has the files of the tables, each with its prediction from the jobs other
// than its own.
func heldOutFiles() ([]dataset.ImageFile, []estimated, error) {
	files, err := dataset.ImageFiles()
	if err != nil {
		return nil, nil, err
	}
	predicted, err := filesWithout(files)
	return files, predicted, err
}

// filesWithout predicts every file from the jobs other than its own.
func filesWithout(files []dataset.ImageFile) ([]estimated, error) {
	base, err := builtIn()
	if err != nil {
		return nil, err
	}
	out := make([]estimated, 0, len(files))
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
func (m *Model) fileOf(f dataset.ImageFile) (estimated, error) {
	c, inst, err := caseOf(f)
	if err != nil {
		return estimated{}, err
	}
	r, err := Request{App: appOf(inst), Mapping: f.Mapping, MPI: f.MPI, IO: FullIO, Aggregators: c.aggregators}.normal()
	if err != nil {
		return estimated{}, err
	}
	data, err := m.data(r.App, r.MPI, Auto, len(r.Mapping))
	if err != nil {
		return estimated{}, err
	}
	k := File{PPN: ppnOf(f), Count: 1, Aggregator: f.Aggregator, first: f.Aggregator && f.Rank == 0 && f.MPI == "openmpi"}
	k, err = m.file(r, k, data.estimated)
	return k.estimate, err
}

// latencyWithout predicts row i from all others.
func latencyWithout(rows []dataset.Latency, i int) (estimated, error) {
	l := rows[i]
	rest := slices.Delete(slices.Clone(rows), i, i+1)
	f, err := fitLatency(rest)
	if err != nil {
		return estimated{}, err
	}
	c, err := f.codec(l.Codec)
	if err != nil {
		return estimated{}, err
	}
	_, e, _ := f.predict(writing{np: l.NP, nodes: []nodeLoad{loadOf(l)}, codec: c, name: l.Codec})
	return e, nil
}

func loadOf(l dataset.Latency) nodeLoad {
	return nodeLoad{ppn: l.NP, data: l.DataMiB, rest: l.RawMiB - l.DataMiB, total: l.RawMiB}
}

// volumeWithout predicts what row i stores under gzip from all others, in MiB.
func volumeWithout(rows []dataset.Latency, i int) (estimated, error) {
	g, err := fitGzip(slices.Delete(slices.Clone(rows), i, i+1))
	if err != nil {
		return estimated{}, err
	}
	c, err := (&latencyFit{Gzip: g}).codec("gzip")
	if err != nil {
		return estimated{}, err
	}
	v := c.stored(loadOf(rows[i]))
	dof := float64(latencyPriorPoints + max(0, g.N-g.K))
	return estimate(v, student(dof)*c.doubt*v, 1), nil
}

// collectiveWithout predicts the time of row i from all others: of its system, or
// without it (stranger) from other systems alone.
func collectiveWithout(base *Model, rows []dataset.CollectiveTime, i int, stranger bool) (estimated, error) {
	rest := slices.Delete(slices.Clone(rows), i, i+1)
	if stranger {
		rest = slices.DeleteFunc(rest, func(c dataset.CollectiveTime) bool { return c.System == rows[i].System })
	}
	f, err := base.fitServer(rest)
	if err != nil {
		return estimated{}, err
	}
	w, err := base.collective(rows[i])
	if err != nil {
		return estimated{}, err
	}
	latency := *base.Latency
	latency.Server = f
	_, e, _ := latency.predict(w)
	return e, nil
}

// requestFor is the job of a row.
func (m *Model) requestFor(c dataset.CollectiveTime) (Request, error) {
	a, err := m.Application(fmt.Sprintf("%s.%s.%d", c.App, c.Class, c.NP), 0)
	return Request{App: a, Mapping: c.Mapping, MPI: c.MPI, IO: FullIO, Aggregators: c.Aggregators, BufferMiB: c.BufferMiB}, err
}

// collective is the checkpoint of a row, with predicted sizes.
func (m *Model) collective(c dataset.CollectiveTime) (writing, error) {
	r, err := m.requestFor(c)
	if err != nil {
		return writing{}, err
	}
	s, err := m.Size(r)
	if err != nil {
		return writing{}, err
	}
	codec, err := m.Latency.codec("none")
	return writing{np: c.NP, nodes: loads(s), codec: codec, name: "none", doubt: s.doubt(), shared: true, system: c.System}, err
}

// fitServer fits the shared file systems to rows, whose sizes the model predicts.
func (m *Model) fitServer(rows []dataset.CollectiveTime) (*serverFit, error) {
	var list []serverTime
	for _, c := range rows {
		w, err := m.collective(c)
		if err != nil {
			return nil, err
		}
		list = append(list, m.Latency.serverTime(w, c.Seconds))
	}
	return fitServer(list)
}
