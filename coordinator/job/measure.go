package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/zones"
)

// A ppnKey names measurements that belong together: ranks of nodes with as many ranks.
type ppnKey struct {
	np, ppn int
	mpi     string
}

// measured adds up the zones of ranks.
type measured struct {
	job  string
	app  string
	sums map[ppnKey]zones.Sizes
	n    map[ppnKey]int64 // ranks added up
}

func newMeasured(job string) *measured {
	return &measured{job: job, sums: make(map[ppnKey]zones.Sizes), n: make(map[ppnKey]int64)}
}

func (s *measured) add(m *image.Manifest) {
	s.app = m.App
	for _, r := range m.Ranks {
		if r.Node < 0 || r.Node >= len(m.Mapping) {
			continue
		}
		k := ppnKey{m.NP, m.Mapping[r.Node], m.MPI}
		s.sums[k] = s.sums[k].Plus(r.Zones)
		s.n[k]++
	}
}

// rows returns the means.
func (s *measured) rows() []dataset.Measurement {
	var rows []dataset.Measurement
	for k, sum := range s.sums {
		mean := func(bytes int64) float64 { return float64(bytes) / float64(s.n[k]) / (1 << 20) }
		row := dataset.Measurement{Table: s.job, MPI: dataset.MPIName(k.mpi), NP: k.np, PPN: k.ppn,
			Data: mean(sum.Data), Library: mean(sum.Library), Shared: mean(sum.Shared), File: mean(sum.Total())}
		row.App, row.Class = appAndClass(s.app)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b dataset.Measurement) int {
		return cmp.Or(a.NP-b.NP, a.PPN-b.PPN, strings.Compare(a.MPI, b.MPI))
	})
	return rows
}

// MeasureCheckpoint returns the zones that a rank occupied at a checkpoint, as means over
// the ranks, with a row for each number of ranks per node.
func MeasureCheckpoint(m *image.Manifest) []dataset.Measurement {
	s := newMeasured(m.Job)
	s.add(m)
	return s.rows()
}

// Measure returns the means over all checkpoints of a job. Checkpoints that cannot be
// read are left out, and are in the error.
func Measure(j *image.Job) ([]dataset.Measurement, error) {
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, err
	}
	var failed error
	s := newMeasured(j.Name())
	for _, n := range numbers {
		m, err := j.Manifest(n)
		if errors.Is(err, image.ErrCheckpointNotFound) {
			continue // pruned this moment
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s.add(m)
	}
	if len(s.sums) == 0 {
		return nil, errors.Join(failed, fmt.Errorf("job %s has no checkpoint in the store to measure: %w", j.Name(), image.ErrCheckpointNotFound))
	}
	return s.rows(), failed
}

// appAndClass splits the name of an application, as in bt.B.4. The class of one that
// has none is "-", as in tables of measurements.
func appAndClass(app string) (name, class string) {
	parts := strings.Split(app, ".")
	if len(parts) < 3 { // a program has no class either
		return strings.ToLower(parts[0]), "-"
	}
	return strings.ToLower(strings.Join(parts[:len(parts)-2], ".")), parts[len(parts)-2]
}
