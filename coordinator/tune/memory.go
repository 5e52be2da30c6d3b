package tune

import (
	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/dataset"
	"ckpt/image/plan"
	"ckpt/internal/wording"
	"ckpt/zones"
	"fmt"
	"slices"
)

// PlannedMemory is what the ranks of a job hand over for a full checkpoint: the regions that
// app.New allocates, and with the first rank of a node the header of its segment. The library
// zone is stored beside.
type PlannedMemory struct {
	Sources []plan.Source
	Regions []string // names, by the keys of the pieces
	Zones   zones.Sizes
}

// PlanMemory evaluates a workload without allocating. Implementation is the layout of the shared
// segment, mpich or openmpi.
func PlanMemory(inst *dataset.Instance, mapping job.Mapping, implementation string) (*PlannedMemory, error) {
	layout, err := mpi.ParseImplementation(implementation)
	if err != nil {
		return nil, &job.UsageError{Text: fmt.Sprintf("mpi %q is unknown", implementation), Fix: wording.Sprintf("{mpi} takes mpich or openmpi")}
	}
	const most = 1 << 60
	if inst.DataBytes() > most/int64(inst.NP) {
		return nil, &job.UsageError{Text: fmt.Sprintf("%v holds more than %d EiB, which no plan can count", inst, most>>60), Fix: "choose a smaller class"}
	}
	m := &PlannedMemory{Zones: zones.Sizes{Data: inst.TotalBytes()}}
	last := len(inst.Arrays)
	for _, a := range inst.Arrays {
		m.Regions = append(m.Regions, a.Name)
	}
	m.Regions = append(m.Regions, "runtime", "segment")
	program := inst.Workload.IsProgram() // which has a segment of its library, not of ckpt
	first := dataPieces(inst, 0)
	for node, ranks := range mapping {
		segment := mpi.SegmentBytes(layout, ranks)
		if segment == 0 {
			return nil, &job.UsageError{Text: fmt.Sprintf("node %d has %d ranks: too many for a shared segment", node, ranks),
				Fix: wording.Sprintf("spread them over more nodes with {nodes} or {map}")}
		}
		if !program {
			m.Zones.Shared += segment
		}
		for i := range ranks {
			s := plan.Source{Rank: len(m.Sources), Node: node, Pieces: first}
			if inst.Uneven() {
				s.Pieces = dataPieces(inst, s.Rank)
			}
			if i == 0 && !program {
				// It is drained: all but its header is zero, see mpi.Segment.Drained.
				s.Pieces = append(slices.Clip(s.Pieces), pieceOf(last+1, mpi.HeaderBytes))
			}
			m.Sources = append(m.Sources, s)
		}
	}
	return m, nil
}

// save leaves only the arrays that have to be saved.
func (m *PlannedMemory) save(arrays []dataset.Array) {
	for i := range m.Sources {
		s := &m.Sources[i]
		s.Pieces = slices.DeleteFunc(slices.Clone(s.Pieces), func(p plan.Piece) bool {
			return p.Key >= len(arrays) || !arrays[p.Key].Save || arrays[p.Key].Replicated && s.Rank > 0
		})
	}
}

func pieceOf(key int, bytes int64) plan.Piece {
	return plan.Piece{Key: key, Bytes: zones.PageRound(bytes), Align: true}
}

// dataPieces returns the pieces of the data zone of a rank.
func dataPieces(inst *dataset.Instance, rank int) []plan.Piece {
	var data []plan.Piece
	for i, a := range inst.Arrays {
		if a = a.Of(rank); a.Count > 0 {
			data = append(data, pieceOf(i, a.Bytes()))
		}
	}
	if inst.Runtime == 0 {
		return slices.Clip(data)
	}
	return slices.Clip(append(data, pieceOf(len(inst.Arrays), inst.Runtime)))
}
