package synth

import (
	"fmt"
	"time"

	"ckpt/iotrace"
)

const (
	ghostVars   = 5  // variables of MiniGhost: a file has 5·nx·ny·nz doubles for each rank
	ghostHeader = 64 // bytes of one piece of the header; a rank writes four
	ghostPieces = 4
)

// miniGhost is MiniGhost's own checkpoint with MPI-IO. All ranks write pieces of the
// header in turn. Then the aggregators write the variables, with one collective write
// each, in which every aggregator writes its share in requests of the size of the
// collective buffer. Then they read one variable.
//
// From the thesis: one shared file; metadata of all ranks, strided; then large
// regular writes of the aggregators only (Figures 4.8-4.10); 152.59 MiB for four
// ranks with 100³ points each (class B; A has 50³, C 200³, D 400³), a header of 3
// to 5 kB for 16 ranks; a fifth of the bytes written is read (Table 4.8). That a
// variable is one collective write, and the header four pieces of each rank,
// follows from the 1289, 1294 and 1304 writes of Table 4.8 with a buffer of 4 MiB
// and 1, 2, 4 aggregators: 5·a·⌈V/(a·4 MiB)⌉ + 4·16, V = 976.56 MiB. Filled in:
// the size of a piece, 64 bytes, and all times.
func miniGhost(p Params) *iotrace.Trace {
	s := newScript(fmt.Sprintf("minighost.%s.%d", p.Class, p.Ranks), p)
	side := map[string]int64{"A": 50, "B": 100, "C": 200, "D": 400}[p.Class]
	volume := 8 * side * side * side * int64(p.Ranks) // bytes of a variable
	header := int64(ghostHeader * ghostPieces * p.Ranks)
	file := s.file("minighost.ckpt")
	took := func(size int64) time.Duration {
		return 200*time.Microsecond + time.Duration(float64(size)/20e6*float64(time.Second))
	}
	for rank := range p.Ranks {
		s.do(rank, iotrace.Open, file, iotrace.None, 0, 300*time.Microsecond)
		for k := range ghostPieces {
			s.do(rank, iotrace.Write, file, int64((k*p.Ranks+rank)*ghostHeader), ghostHeader, took(ghostHeader))
		}
	}
	s.makes()
	s.meet(500 * time.Millisecond)
	collective := func(op iotrace.Op, variable int) {
		begin := header + int64(variable)*volume
		for a := range int64(p.Aggregators) {
			rank := int(a) * p.Ranks / p.Aggregators
			from, to := begin+a*volume/int64(p.Aggregators), begin+(a+1)*volume/int64(p.Aggregators)
			for off := from; off < to; off += p.Buffer {
				n := min(p.Buffer, to-off)
				s.do(rank, op, file, off, n, took(n))
			}
		}
		s.meet(time.Millisecond)
	}
	for v := range ghostVars {
		collective(iotrace.Write, v)
	}
	for a := range p.Aggregators {
		s.do(a*p.Ranks/p.Aggregators, iotrace.Sync, file, iotrace.None, 0, 50*time.Millisecond)
	}
	s.meet(500 * time.Millisecond)
	collective(iotrace.Read, 0)
	for rank := range p.Ranks {
		s.do(rank, iotrace.Close, file, iotrace.None, 0, 50*time.Microsecond)
	}
	return s.finish()
}
