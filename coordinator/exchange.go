package coordinator

import (
	"encoding/binary"
	"slices"

	"ckpt/coordinator/protocol"
)

// exchange collects what the ranks that write a checkpoint together tell each
// other, round after round. It belongs to the driver's loop.
type exchange struct {
	number, round int
	ranks         []int
	told          [][]byte
	left          int
}

func newExchange(number int, ranks []int) *exchange {
	return &exchange{number: number, ranks: ranks, told: make([][]byte, len(ranks)), left: len(ranks)}
}

// add takes what a rank tells and, when it was the last of its round, returns what
// all have told.
func (x *exchange) add(rank int, m protocol.Share) (all []byte, complete bool) {
	if x == nil || m.Number != x.number || m.Round != x.round {
		return nil, false // of a checkpoint that was aborted
	}
	i, ok := slices.BinarySearch(x.ranks, rank)
	if !ok || x.told[i] != nil {
		return nil, false
	}
	x.told[i] = append([]byte{}, m.Body...)
	if x.left--; x.left > 0 {
		return nil, false
	}
	for _, b := range x.told {
		all = binary.AppendUvarint(all, uint64(len(b)))
		all = append(all, b...)
	}
	clear(x.told)
	x.left = len(x.told)
	x.round++
	return all, true
}
