package job

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/coordinator/mpi"
	"ckpt/dataset"
	"ckpt/image/nodes"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
	"ckpt/zones"
)

// A MemoryError says that a job does not fit this machine.
type MemoryError struct {
	Need, Have int64
	InFlight   int // copies of the memory among it
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the job needs %.1f GiB of memory, this machine has %.1f GiB free",
		float64(e.Need)/(1<<30), float64(e.Have)/(1<<30))
}

func (e *MemoryError) Hint() string {
	if e.InFlight > 1 {
		return wording.Sprintf("{async}=%d keeps %d copies of the memory: give it a smaller number; or choose a smaller class, or fewer ranks per node", e.InFlight, e.InFlight)
	}
	return "choose a smaller class, or fewer ranks per node"
}

// A RoomError says that the checkpoints which a job may have at a time surely fit the storage only
// if they pack well.
type RoomError struct {
	Dir        string
	Versions   int
	Need, Have int64
}

func (e *RoomError) Error() string {
	const gib = 1 << 30
	return fmt.Sprintf("%d checkpoints, unpacked, need %.2f GiB in %s, where %.2f GiB are free", e.Versions, float64(e.Need)/gib, e.Dir, float64(e.Have)/gib)
}

func (e *RoomError) Hint() string {
	return wording.Sprintf("give {async} a number below %d, or none; or free some space", e.Versions-1)
}

func (e *RoomError) Is(target error) bool { return target == durable.ErrStorageFull }

// CheckRoom refuses a job with several checkpoints in flight whose storage is too small for them and
// for the one that they follow, or on the nodes for as many as these keep.
func CheckRoom(spec *Resolved, fsys vfs.FS, store string) error {
	if spec.Flights() < 2 || spec.Program != nil {
		return nil
	}
	data, _, err := spec.Memory()
	if err != nil {
		return err
	}
	if err := checkFree(fsys, store, data, spec.Flights()+1); err != nil || spec.Tier == nil {
		return err
	}
	for node, ranks := range spec.Mapping {
		if err := checkFree(fsys, spec.Tier.NodeDir(node), data/int64(spec.NP)*int64(ranks), nodes.Slots); err != nil {
			return err
		}
	}
	return nil
}

// checkFree refuses a directory, which may have to be made, with too little space for versions of
// so many bytes each.
func checkFree(fsys vfs.FS, dir string, bytes int64, versions int) error {
	have, err := fsys.Free(dir)
	for at := dir; err != nil && filepath.Dir(at) != at; {
		at = filepath.Dir(at)
		have, err = fsys.Free(at)
	}
	if need := bytes * int64(versions); err == nil && need > have {
		return &RoomError{dir, versions, need, have}
	}
	return nil
}

// CheckMemory refuses a job for which the machine would have to kill processes.
func CheckMemory(spec *Resolved) error {
	if spec.Program != nil {
		return nil // it has its memory, here or on other hosts
	}
	const perRank = 24 << 20 // the Go runtime of a rank and its buffers
	data, shared, err := spec.Memory()
	if err != nil {
		return err
	}
	need := data + shared + perRank*int64(spec.NP)
	if spec.Async {
		need += spec.StagingBytes(data/int64(spec.NP)) * int64(spec.NP) * int64(spec.Flights())
	}
	if have, ok := AvailableMemory(); ok && need > have {
		return &MemoryError{Need: need, Have: have, InFlight: spec.Flights()}
	}
	return nil
}

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

// AvailableMemory reads MemAvailable, what can be had without swapping.
func AvailableMemory() (int64, bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

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
	program := inst.Workload.IsProgram() // which has a segment of its library, not of ckpt
	first := dataPieces(inst, 0)
	for node, ranks := range mapping {
		segment := mpi.SegmentBytes(layout, ranks)
		if segment == 0 {
			return nil, &UsageError{fmt.Sprintf("node %d has %d ranks: too many for a shared segment", node, ranks),
				wording.Sprintf("spread them over more nodes with {nodes} or {map}")}
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
