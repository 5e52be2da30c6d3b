package job

import (
	"fmt"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/dataset"
	"ckpt/image/plan"
	"ckpt/zones"
)

// PlannedMemory is what the ranks of a job hold, and hand over for a full
// checkpoint: the regions that app.New allocates, and with the first rank of a
// node the header of its segment. The library zone is not in it: it is stored beside.
type PlannedMemory struct {
	Sources []plan.Source
	Regions []string // names, by the keys of the pieces
	Zones   zones.Sizes
}

// PlanMemory evaluates a workload; nothing is allocated. Implementation is the layout of
// the shared segment, mpich or openmpi.
func PlanMemory(inst *dataset.Instance, mapping Mapping, implementation string) (*PlannedMemory, error) {
	layout, err := mpi.ParseImplementation(implementation)
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("mpi %q is unknown", implementation), "{mpi} takes mpich or openmpi"}
	}
	const most = 1 << 60
	if inst.DataBytes() > most/int64(inst.NP) {
		return nil, &UsageError{fmt.Sprintf("%v holds more than %d EiB, which no plan can count", inst, most>>60), "choose a smaller class"}
	}
	m := &PlannedMemory{Zones: zones.Sizes{Data: inst.DataBytes() * int64(inst.NP)}}
	piece := func(key int, bytes int64) plan.Piece {
		return plan.Piece{Key: key, Bytes: zones.PageRound(bytes), Align: true}
	}
	var data []plan.Piece // the same for every rank
	for i, a := range inst.Arrays {
		m.Regions = append(m.Regions, a.Name)
		if a.Count > 0 {
			data = append(data, piece(i, a.Bytes()))
		}
	}
	last := len(m.Regions)
	m.Regions = append(m.Regions, "runtime", "segment")
	data = slices.Clip(append(data, piece(last, inst.Runtime)))
	for node, ranks := range mapping {
		segment := mpi.SegmentBytes(layout, ranks)
		if segment == 0 {
			return nil, &UsageError{fmt.Sprintf("node %d has %d ranks: too many for a shared segment", node, ranks),
				"spread them over more nodes with {nodes} or {map}"}
		}
		m.Zones.Shared += segment
		for i := range ranks {
			s := plan.Source{Rank: len(m.Sources), Node: node, Pieces: data}
			if i == 0 {
				// It is drained: all but its header is zero, see mpi.Segment.Drained.
				s.Pieces = append(data, piece(last+1, mpi.HeaderBytes))
			}
			m.Sources = append(m.Sources, s)
		}
	}
	return m, nil
}
