package job

import (
	"fmt"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/dataset"
	"ckpt/image/plan"
	"ckpt/internal/wording"
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
		return nil, &UsageError{fmt.Sprintf("mpi %q is unknown", implementation), wording.Sprintf("{mpi} takes mpich or openmpi")}
	}
	const most = 1 << 60
	if inst.DataBytes() > most/int64(inst.NP) {
		return nil, &UsageError{fmt.Sprintf("%v holds more than %d EiB, which no plan can count", inst, most>>60), "choose a smaller class"}
	}
	m := &PlannedMemory{Zones: zones.Sizes{Data: inst.TotalBytes()}}
	last := len(inst.Arrays)
	for _, a := range inst.Arrays {
		m.Regions = append(m.Regions, a.Name)
	}
	m.Regions = append(m.Regions, "runtime", "segment")
	first := dataPieces(inst, 0)
	for node, ranks := range mapping {
		segment := mpi.SegmentBytes(layout, ranks)
		if segment == 0 {
			return nil, &UsageError{fmt.Sprintf("node %d has %d ranks: too many for a shared segment", node, ranks),
				wording.Sprintf("spread them over more nodes with {nodes} or {map}")}
		}
		m.Zones.Shared += segment
		for i := range ranks {
			s := plan.Source{Rank: len(m.Sources), Node: node, Pieces: first}
			if inst.Global() {
				s.Pieces = dataPieces(inst, s.Rank)
			}
			if i == 0 {
				// It is drained: all but its header is zero, see mpi.Segment.Drained.
				s.Pieces = append(slices.Clip(s.Pieces), pieceOf(last+1, mpi.HeaderBytes))
			}
			m.Sources = append(m.Sources, s)
		}
	}
	return m, nil
}

func pieceOf(key int, bytes int64) plan.Piece {
	return plan.Piece{Key: key, Bytes: zones.PageRound(bytes), Align: true}
}

// dataPieces returns those of the data zone of a rank.
func dataPieces(inst *dataset.Instance, rank int) []plan.Piece {
	var data []plan.Piece
	for i, a := range inst.Arrays {
		if a = a.Of(rank); a.Count > 0 {
			data = append(data, pieceOf(i, a.Bytes()))
		}
	}
	return slices.Clip(append(data, pieceOf(len(inst.Arrays), inst.Runtime)))
}
