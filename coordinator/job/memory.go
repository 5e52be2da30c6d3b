package job

import (
	"ckpt/coordinator/mpi"
	"ckpt/zones"
)

// StagingBytes returns the size of the staging buffer of a rank with so much data.
func (s *Resolved) StagingBytes(data int64) int64 {
	if s.Staging > 0 {
		return zones.PageRound(s.Staging)
	}
	return zones.PageRound(data) + segmentStaging
}

// segmentStaging is room for the part of its segment that the first rank of a node stores.
const segmentStaging = 16 << 20

// Memory returns the bytes of the data zones of all ranks and of the segments that the ranks of
// each group share on each node; 0 for a program, whose memory is unknown.
func (s *Resolved) Memory() (data, shared int64, err error) {
	if s.Program != nil {
		return 0, 0, nil
	}
	inst, err := s.Instance()
	if err != nil {
		return 0, 0, err
	}
	for _, ranks := range s.Groups {
		onNode := make(map[int]int)
		for _, r := range ranks {
			onNode[s.Nodes[r]]++
		}
		for _, n := range onNode {
			shared += mpi.SegmentBytes(s.Implementation, n)
		}
	}
	return inst.TotalBytes(), shared, nil
}
