package nodes

import (
	"fmt"
	"sync"

	"github.com/klauspost/reedsolomon"
)

// A code makes the parity of k data shards, each by itself. With one parity it is the
// exclusive or.
type code struct {
	k, m  int
	whole reedsolomon.Encoder
	each  []reedsolomon.Encoder // parity j alone
}

// codes has the codes that have been made: their matrices take time.
var codes sync.Map

func codeOf(k, m int) (*code, error) {
	key := [2]int{k, m}
	if c, ok := codes.Load(key); ok {
		return c.(*code), nil
	}
	c, err := newCode(k, m)
	if err != nil {
		return nil, fmt.Errorf("code of %d+%d: %w", k, m, err)
	}
	codes.Store(key, c)
	return c, nil
}

func newCode(k, m int) (c *code, err error) {
	c = &code{k: k, m: m, each: make([]reedsolomon.Encoder, m)}
	// The callers share out the work themselves.
	options := []reedsolomon.Option{reedsolomon.WithMaxGoroutines(1), reedsolomon.WithFastOneParityMatrix()}
	if c.whole, err = reedsolomon.New(k, m, options...); err != nil {
		return nil, err
	}
	rows, err := c.matrix()
	for j := 0; j < m && err == nil; j++ {
		c.each[j], err = reedsolomon.New(k, 1, append(options, reedsolomon.WithCustomMatrix(rows[j:j+1]))...)
	}
	return c, err
}

// matrix returns the coefficients of the parities: a parity of a single 1 shows each.
func (c *code) matrix() ([][]byte, error) {
	rows := make([][]byte, c.m)
	for j := range rows {
		rows[j] = make([]byte, c.k)
	}
	for d := range c.k {
		parity := make([][]byte, c.m)
		for j := range parity {
			parity[j] = make([]byte, 1)
		}
		if err := c.whole.EncodeIdx([]byte{1}, d, parity); err != nil {
			return nil, err
		}
		for j := range parity {
			rows[j][d] = parity[j][0]
		}
	}
	return rows, nil
}

// add adds the part of data shard d to parity j, which begins as zeros. Both are of one
// length.
func (c *code) add(j, d int, data, parity []byte) error {
	return c.each[j].EncodeIdx(data, d, [][]byte{parity})
}

// restore fills in one of the shards, of which k are not nil: the data, and then the
// parities.
func (c *code) restore(shards [][]byte, missing int, into []byte) error {
	required := make([]bool, c.k+c.m)
	required[missing] = true
	shards[missing] = into[:0]
	if err := c.whole.ReconstructSome(shards, required); err != nil {
		return err
	}
	if len(shards[missing]) != len(into) || &shards[missing][0] != &into[0] {
		copy(into, shards[missing])
	}
	return nil
}
