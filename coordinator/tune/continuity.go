package tune

import (
	"ckpt/image/iosched"
	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// requestBytes is about what an aggregator sends to ask for bytes of another rank.
const requestBytes = 64

// Accesses says how the bytes of the ranks lie in the files of a plan, and what moving
// them costs on a system: the pattern whose degree of continuity tells plain, sieved and
// collective accesses apart. Sources are those that the plan was made of. Blocks are the
// mean ones of all ranks; bytes of a rank that lie side by side are one block. ok is false
// for a plan without bytes.
//
// A collective access leaves out the padding between stripes.
func Accesses(sys *pfs.System, sources []plan.Source, p *plan.Plan) (pattern iosched.Pattern, ok bool) {
	b := blocksOf(sources, p)
	if b.ranks == 0 {
		return pattern, false
	}
	s, ranks := &p.Settings, int64(b.ranks)
	pattern = iosched.Pattern{
		Processes: b.ranks, Blocks: (b.blocks + ranks - 1) / ranks,
		Write: true, Buffer: s.Buffer,
		Seek:    float64(sys.Targets.Seek) + float64(sys.Targets.PerRequest) + float64(sys.Host.Latency),
		Disk:    float64(sys.Targets.Rate) * float64(min(s.StripeCount, sys.Targets.Count)),
		Copy:    float64(sys.Host.Copy),
		Network: float64(sys.Host.Network),
		Request: requestBytes,
	}
	if g := sys.Host.Gather.Parallel; g > 0 {
		pattern.Network = float64(g)
	}
	if !sys.Host.OneHost {
		pattern.Network *= float64(b.nodes) // all nodes exchange at the same time
	}
	pattern.Block = max(1, b.bytes/(pattern.Blocks*ranks))
	pattern.Answer = pattern.Block
	pattern.Domain = pattern.Blocks * pattern.Block
	pattern.Span = max(pattern.Domain, b.spans/ranks)
	return pattern, true
}

// blocks adds up the blocks of all ranks.
type blocks struct {
	ranks  int   // that have bytes
	nodes  int   // that they are on
	blocks int64 // runs of bytes of one rank
	bytes  int64
	spans  int64 // from the first byte of a rank to its last
}

// blocksOf goes through what ranks hold, whoever writes it.
func blocksOf(sources []plan.Source, p *plan.Plan) (b blocks) {
	nodes := make(map[int]bool)
	for _, s := range sources {
		_, offsets := p.Places(s.Rank)
		var first, end, runs int64
		for i, piece := range s.Pieces {
			if piece.Bytes == 0 {
				continue
			}
			if at := offsets[i]; runs == 0 {
				first, runs = at, 1
			} else if at != end {
				runs++
			}
			end = offsets[i] + piece.Bytes
			b.bytes += piece.Bytes
		}
		if runs > 0 {
			nodes[s.Node] = true
			b.ranks++
			b.blocks += runs
			b.spans += end - first
		}
	}
	b.nodes = len(nodes)
	return b
}
