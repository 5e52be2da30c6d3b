// Package global describes arrays that all ranks of a job hold together, and finds the
// transfers that move such an array from one number of ranks, or one distribution, to
// another.
//
//	a := &global.Array{Shape: []int64{512, 512}, Elem: 8}
//	was, err := a.On(16)
//	now, err := a.On(9)
//	for _, t := range global.Transfers(now, was, rank) {
//		t.Copy(mem, memoryOf(t.Rank))
//	}
//
// An array lies in memory with its last axis contiguous, as in C; a Fortran program
// names its axes from the last to the first. The ranks form a grid of as many axes, and
// the last axis of the grid runs fastest too, as in MPI_Cart_create. Each axis is cut by
// itself:
//
//   - block: each rank has consecutive elements. Without a length the first ranks have
//     one element more than the others, if the number of ranks does not divide the
//     axis. With a length b every rank has b, and the last what is left.
//   - cyclic: element i belongs to place i mod n of the n places along the axis.
//   - block-cyclic: blocks of the given length are dealt out in the same way.
//
// A rank keeps its elements in ascending order, without gaps. Around a block it may
// keep a halo: copies of its neighbours' elements, or, at the edge of the array, values
// of a boundary, which are part of the array in all that follows.
//
// Sections, strided parts of an array, are assigned as in Chapel, with one bulk strided
// transfer in place of a message for each element (R. Larrosa Jiménez, thesis, Univ.
// Málaga 2015, section 2.2). See [Range] for its map m, and [Transfer] for the arguments
// of a transfer.
//
// # Promises
//
//   - Every byte of the new rank that the old ranks have is in exactly one transfer.
//   - The transfers of a rank are as many as the old ranks that it shares elements
//     with, times a number that depends on grids and blocks but not on the size of the
//     array.
//
// The package has no goroutines, files or clocks, and imports nothing of this module.
package global
