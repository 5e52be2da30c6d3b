// Package bench measures what keeping checkpoints on nodes costs: how fast they are saved
// under each scheme of protection, how many bytes that takes, how fast they are read, and
// how fast the part of a lost node is back; beside them a plain store.
//
// Ranks are goroutines, and the directories of all nodes are reached from here. All ways
// take turns in each round, another one first each time, so that whatever else the machine does meanwhile meets all of
// them alike. Run removes all that it wrote.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// Options say what Run measures.
type Options struct {
	FS      vfs.FS // of the directories
	Ranks   int
	Nodes   int
	Bytes   int64  // of each rank
	Local   string // directory of each node, with {node} for its number
	Store   string // directory on the storage of the store
	Schemes []nodes.Scheme
	Rounds  int
	// Progress, unless nil, gets the bytes of checkpoints saved and read.
	Progress func(int64)
	// Now is the time, in seconds since some moment.
	Now func() float64
}

// The ways that are measured beside the schemes.
const (
	WayLocal = "local"       // on the rank's own node only
	WayTwice = "local twice" // the same, and once again: what a copy costs at least on one disk
	WayHalf  = "local half"  // with half the bytes
	WayStore = "store"
)

// ways returns those of a run, in the order of the table.
func (o *Options) ways() []*way {
	list := []*way{{name: WayLocal, bytes: o.Bytes}}
	for _, s := range o.Schemes {
		if s.Kind() != nodes.None {
			list = append(list, &way{name: s.String(), scheme: s, bytes: o.Bytes})
		}
	}
	half := zones.PageRound(o.Bytes / 2)
	return append(list, &way{name: WayTwice, bytes: o.Bytes, twice: true}, &way{name: WayHalf, bytes: half},
		&way{name: WayStore, bytes: o.Bytes, store: true})
}

// Total returns the bytes that Progress gets in all.
func (o *Options) Total() (n int64) {
	for _, w := range o.ways() {
		n += 2 * int64(o.Ranks) * w.bytes
	}
	return n * int64(o.Rounds)
}

func (o *Options) check() error {
	switch {
	case o.Ranks < 1 || o.Nodes < 1 || o.Ranks < o.Nodes:
		return fmt.Errorf("cannot place %d ranks on %d nodes", o.Ranks, o.Nodes)
	case o.Bytes < zones.PageSize || o.Rounds < 1:
		return fmt.Errorf("cannot measure %d bytes in %d rounds", o.Bytes, o.Rounds)
	}
	for _, s := range o.Schemes {
		if err := s.Fits(o.topology()); err != nil {
			return err
		}
	}
	return nil
}

// topology places ranks on nodes in blocks, as a job does.
func (o *Options) topology() nodes.Topology {
	t := nodes.Topology{NodeOf: make([]int, o.Ranks)}
	for r := range t.NodeOf {
		t.NodeOf[r] = r * o.Nodes / o.Ranks
	}
	return t
}

// Run measures. It fails with durable.ErrStorageFull before it writes anything if there is
// not enough space.
func Run(ctx context.Context, o Options) (res *Result, err error) {
	o.Bytes = zones.PageRound(o.Bytes)
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &bench{o: &o, topology: o.topology(), job: "bench-" + image.NewID()[:8]}
	b.setting = nodes.Setting{Dir: o.Local, Drain: nodes.Drain{Mode: nodes.DrainNone}}
	defer func() { err = errors.Join(err, b.leave()) }()
	if err := b.enter(); err != nil {
		return nil, err
	}
	ways := o.ways()
	if err := b.space(ways); err != nil {
		return nil, err
	}
	b.fill()
	for round := range o.Rounds {
		for i := range ways {
			w := ways[(round+i)%len(ways)] // no way is always the first
			if err := b.round(ctx, w); err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	return b.result(ways), nil
}

// A bench is a run.
type bench struct {
	o        *Options
	topology nodes.Topology
	setting  nodes.Setting
	job      string
	made     []string // directories that were not there, the outer ones first
	mem      []byte
	number   int // of the newest version
}

// fill makes bytes that no disk can compress. Those of each rank begin at another page, so
// that no two ranks have the same.
func (b *bench) fill() {
	b.mem = vfs.Aligned(int(b.o.Bytes) + b.o.Ranks*zones.PageSize)
	seed := uint64(0x9e3779b97f4a7c15)
	for i := 0; i+8 <= len(b.mem); i += 8 {
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		for k := range 8 {
			b.mem[i+k] = byte(seed >> (8 * k))
		}
	}
}

// memory returns that of a rank.
func (b *bench) memory(rank int, bytes int64) []byte {
	return b.mem[rank*zones.PageSize:][:bytes]
}

// ranksOn lists the ranks of a node.
func (b *bench) ranksOn(node int) (list []int) {
	for r, n := range b.topology.NodeOf {
		if n == node {
			list = append(list, r)
		}
	}
	return list
}

// lost is the node that each round loses: the last, as its ranks end the sets.
func (b *bench) lost() int { return slices.Max(b.topology.NodeOf) }
