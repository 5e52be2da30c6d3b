package mpi

import (
	"fmt"

	"ckpt/zones"
)

// An Implementation is the MPI library whose shared-memory footprint a segment
// has.
type Implementation uint8

// The implementations. The values are part of the segment header.
const (
	MPICH Implementation = iota + 1
	OpenMPI
)

func (f Implementation) String() string {
	switch f {
	case MPICH:
		return "mpich"
	case OpenMPI:
		return "openmpi"
	}
	return fmt.Sprintf("implementation(%d)", uint8(f))
}

// ParseImplementation reads "mpich" or "openmpi".
func ParseImplementation(s string) (Implementation, error) {
	for _, f := range []Implementation{MPICH, OpenMPI} {
		if f.String() == s {
			return f, nil
		}
	}
	return 0, fmt.Errorf("MPI implementation %q is unknown (want mpich or openmpi)", s)
}

const (
	kib = 1 << 10
	mib = 1 << 20

	// HeaderBytes is all that a checkpoint stores of a segment.
	HeaderBytes = zones.PageSize
	ctlBytes    = 256 // of a rank's control block: its two bells, a cache line pair each
	stateBytes  = 4   // of a cell's state word
	ringHead    = 128 // of a ring: head and tail, a cache line each
	recordAlign = 32  // of records in a ring, which is also the size of their header

	// maxNodeRanks bounds the ranks of one node. 4096 ranks of MPICH would
	// take a terabyte of rings; beyond it sizes could overflow.
	maxNodeRanks = 4096
)

// A geometry says where in a segment everything lies. Both implementations are cut
// from the same parts; they differ in how many and how large those are.
type geometry struct {
	implementation Implementation
	ranks          int
	ringBytes      int64 // per ordered pair, its header included
	cells          int   // per rank
	cellBytes      int64
	ctlOff         int64 // control blocks, by rank
	stateOff       int64 // state words of cells, by rank
	ringOff        int64 // rings, by sender and then receiver
	cellOff        int64 // cells, by owner
	total          int64
}

// mpichConstant is the part of MPICH's segment that does not grow with the
// ranks: the constant of Eq. 3.11 (León 2022), 25.47 MiB. Header, control
// blocks and state words lie in it; the rest is idle, as it is in MPICH once
// the job has started.
const mpichConstant = 2547 * mib / 100

// Open MPI's segment is flat: 90.10 MiB is the least and most frequent value of
// León, Table 5.1, for 4 to 49 ranks; with 64 ranks it shows 97.30, 98.27 and
// 99.32 MiB. The floors below which rings and pools are not cut reproduce that
// step: 2 MiB + 64 × 512 KiB + 64² × 16 KiB = 98 MiB. From 61 ranks upwards the
// segment therefore grows.
const (
	openMPIFlat     = 9010 * mib / 100
	openMPIConstant = 2 * mib
	openMPICell     = 32 * kib
	openMPIMinRing  = 16 * kib
	openMPIMinPool  = 512 * kib
	maxRing         = 64 * kib
	maxPool         = 4 * mib
)

// newGeometry lays out a segment. The caller has checked f and ranks.
func newGeometry(f Implementation, ranks int) geometry {
	g := geometry{implementation: f, ranks: ranks}
	n := int64(ranks)
	var constant, total int64
	switch f {
	case MPICH:
		constant = zones.PageRound(mpichConstant)
		g.ringBytes = maxRing
		g.cellBytes = 64 * kib
		g.cells = maxPool / (64 * kib)
	default:
		constant = openMPIConstant
		total = max(openMPIFlat, constant+n*openMPIMinPool+n*n*openMPIMinRing)
		room := total - constant
		// Rings get half of the room, in whole pages; pools what is left.
		g.ringBytes = min(max(room/2/(n*n)&^(zones.PageSize-1), openMPIMinRing), maxRing)
		g.cellBytes = openMPICell
		g.cells = int(min((room-n*n*g.ringBytes)/n, maxPool) / openMPICell)
	}
	g.ctlOff = HeaderBytes
	g.stateOff = g.ctlOff + n*ctlBytes
	g.ringOff = constant
	g.cellOff = g.ringOff + n*n*g.ringBytes
	g.total = zones.PageRound(max(total, g.cellOff+n*int64(g.cells)*g.cellBytes))
	return g
}

func (g *geometry) ctl(rank int) int64 { return g.ctlOff + int64(rank)*ctlBytes }

func (g *geometry) state(owner, cell int) int64 {
	return g.stateOff + (int64(owner)*int64(g.cells)+int64(cell))*stateBytes
}

func (g *geometry) ring(src, dst int) int64 {
	return g.ringOff + (int64(src)*int64(g.ranks)+int64(dst))*g.ringBytes
}

func (g *geometry) cell(owner, cell int) int64 {
	return g.cellOff + (int64(owner)*int64(g.cells)+int64(cell))*g.cellBytes
}

// SegmentBytes returns the size of the segment of a node with that many ranks,
// in bytes and whole pages; 0 if f is unknown or ranks is not in 1…4096. MPICH
// comes to 25.47 + 4·ranks + ranks²/16 MiB, Open MPI to 90.1 MiB up to 60 ranks
// and 2 + ranks/2 + ranks²/64 MiB beyond (León 2022, Eq. 3.11 and Table 5.1).
func SegmentBytes(f Implementation, ranks int) int64 {
	if checkShape(f, ranks) != nil {
		return 0
	}
	return newGeometry(f, ranks).total
}

func checkShape(f Implementation, ranks int) error {
	if f != MPICH && f != OpenMPI {
		return fmt.Errorf("MPI %v is unknown", f)
	}
	if ranks < 1 || ranks > maxNodeRanks {
		return fmt.Errorf("a node has 1 to %d ranks, not %d", maxNodeRanks, ranks)
	}
	return nil
}
