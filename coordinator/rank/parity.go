package rank

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"ckpt/coordinator/peer"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// A nodeTier is the directories of the nodes, as a rank uses them.
type nodeTier struct {
	*nodes.Tier
	parity *parity // nil: nothing is coded
	store  vfs.FS  // that has the job
}

// A parity is this rank's part in the coding of files: it holds parity of its own set, and
// of sets in which its node has no rank if it is the first rank there. It contributes to
// the parity that the others of its set hold.
type parity struct {
	id     int
	tier   *nodes.Tier
	sets   []nodes.Set
	client func(rank int) *peer.Client

	mu       sync.Mutex
	encoders map[parityKey]*nodes.Encoder
}

// codingGC is how much garbage a rank that codes may have, in percent of what it uses. It
// has 16 MiB of parity and the bytes that others add: with the usual 100 a rank would take
// more than 64 MiB beside its job.
const codingGC = 50

type parityKey struct{ number, set, index int }

// openParity begins to serve what the job's protection asks this rank to hold.
func (r *process) openParity(t *nodes.Tier) (*parity, error) {
	sets := t.Sets()
	if len(sets) == 0 {
		return nil, nil
	}
	if r.served == nil || len(r.cfg.Served) != r.spec.NP {
		return nil, errors.New("the ranks serve no parities")
	}
	debug.SetGCPercent(codingGC)
	p := &parity{id: r.id, tier: t, sets: sets, client: r.client, encoders: map[parityKey]*nodes.Encoder{}}
	r.served.parity.Store(p)
	return p, nil
}

// holder returns the rank whose process holds a parity of a set: the member on that node,
// or, if the node has none, its first rank.
func (p *parity) holder(set nodes.Set, index int) int {
	if rank := set.Members[index]; rank >= 0 {
		return rank
	}
	return slices.Index(p.tier.Topology().NodeOf, set.Nodes[index])
}

// serve opens the contribution of another rank to a parity that this one holds.
func (p *parity) serve(_ context.Context, name string) (nodes.Contributor, error) {
	var k parityKey
	var member int
	if n, err := fmt.Sscanf(name, "%d %d %d %d", &k.number, &k.set, &k.index, &member); n != 4 || err != nil {
		return nil, fmt.Errorf("contribution %q is unknown", name)
	}
	if k.number < 1 || k.set < 0 || k.set >= len(p.sets) {
		return nil, fmt.Errorf("contribution %q: there are %d sets", name, len(p.sets))
	}
	set := p.sets[k.set]
	if k.index < 0 || k.index >= len(set.Members) || member < 0 || member >= len(set.Members) || set.Members[member] < 0 || p.holder(set, k.index) != p.id {
		return nil, fmt.Errorf("contribution %q is not for rank %d", name, p.id)
	}
	e, err := p.encoder(k)
	if err != nil {
		return nil, err
	}
	return e.Contributor(member), nil
}

// encoder returns what makes a parity that this rank holds. Those of earlier checkpoints
// are over: an unfinished one gives its file and its memory back.
func (p *parity) encoder(k parityKey) (*nodes.Encoder, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.encoders[k]; e != nil {
		return e, nil
	}
	for old, e := range p.encoders {
		if old.number < k.number {
			e.Abort(fmt.Errorf("checkpoint %d has begun", k.number))
			delete(p.encoders, old)
		}
	}
	e, err := p.tier.Encoder(k.number, p.sets[k.set], k.index)
	if err == nil {
		p.encoders[k] = e
	}
	return e, err
}

// contribution opens the sink that gives the file of this rank to all holders of its set.
func (p *parity) contribution(ctx context.Context, number int) (*nodes.Contribution, nodes.Set, error) {
	set, member, ok := nodes.SetOf(p.sets, p.id)
	if !ok {
		return nil, set, fmt.Errorf("rank %d is in no set", p.id)
	}
	var err error
	holders := map[int]nodes.Contributor{}
	for _, index := range set.Holders() {
		if holders[index], err = p.open(ctx, parityKey{number, set.ID, index}, set, member); err != nil {
			for _, h := range holders {
				if h != nil {
					h.Abort()
				}
			}
			return nil, set, err
		}
	}
	c, err := nodes.Coded(set, member, holders)
	return c, set, err
}

// open opens the contribution to one parity.
func (p *parity) open(ctx context.Context, k parityKey, set nodes.Set, member int) (nodes.Contributor, error) {
	rank := p.holder(set, k.index)
	if rank == p.id {
		e, err := p.encoder(k)
		if err != nil {
			return nil, err
		}
		return e.Contributor(member), nil
	}
	return p.client(rank).Contribute(ctx, fmt.Sprintf("%d %d %d %d", k.number, k.set, k.index, member))
}

// parityFiles returns what the manifest says of the parities of a file.
func parityFiles(number int, set nodes.Set, c *nodes.Contribution) []image.Parity {
	var list []image.Parity
	for _, info := range c.Files() {
		list = append(list, nodes.ParityOf(number, set, info))
	}
	return list
}
