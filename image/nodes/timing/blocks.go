package timing

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// Place says where the blocks are that a process asks for.
type Place string

// The places.
const (
	Anywhere Place = ""      // a permutation of all blocks, dealt to the processes
	Own      Place = "local" // in the fragment of the node of the process
	Hot      Place = "hot"   // in the fragment of the first node
)

// Blocks is the benchmark ROMPIO: each request is for another block of the file, so
// that the file has as many blocks as there are requests.
type Blocks struct {
	Requests int64 // of all processes together
	Bytes    int64 // of a block
	Write    bool
	Place    Place
	Seed     uint64
}

// Run returns how long it takes.
func (b Blocks) Run(ctx context.Context, s Setup) (*Result, error) {
	c, err := s.begin()
	if err != nil {
		return nil, err
	}
	ranks := int64(s.Nodes * s.PerNode)
	if b.Bytes < 1 || b.Requests < ranks {
		return nil, fmt.Errorf("timing: %d requests of %d bytes: want one byte, and a request of each of %d ranks", b.Requests, b.Bytes, ranks)
	}
	f := s.file(c, b.Requests*b.Bytes, flags{create: b.Write, readOnly: !b.Write})
	random := rand.New(rand.NewPCG(b.Seed, 1))
	blocks := random.Perm(int(b.Requests))
	return s.watch(ctx, c, f, func(p *process, r *Result) {
		for i := int64(p.rank); i < b.Requests; i += ranks {
			offset := b.place(int64(blocks[i]), int64(s.Nodes), int64(p.node)) * b.Bytes
			if b.Write {
				r.write(p, f, offset, b.Bytes)
			} else {
				r.read(p, f, offset, b.Bytes)
			}
		}
	})
}

// place moves a block to where the process of a node wants it.
func (b *Blocks) place(block, nodes, node int64) int64 {
	each := max(1, b.Requests/nodes)
	switch b.Place {
	case Own:
		return node*each + block%each
	case Hot:
		return block % each
	}
	return block
}
