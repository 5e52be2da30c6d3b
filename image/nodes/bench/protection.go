package bench

import (
	"errors"

	"ckpt/image"
	"ckpt/image/nodes"
)

// A protection is what keeps the redundancy of one version.
type protection struct {
	sinks    [][]nodes.Sink // of each rank
	sets     []nodes.Set
	coded    []*nodes.Contribution
	encoders []*nodes.Encoder
	number   int
}

// protection makes the sinks of all ranks.
func (b *bench) protection(tier *nodes.Tier, w *way) (*protection, error) {
	p := &protection{sinks: make([][]nodes.Sink, b.o.Ranks), number: b.number}
	if w.scheme.Coded() {
		return p, p.code(b, tier, w.scheme)
	}
	for rank := range p.sinks {
		for _, n := range w.scheme.Partners(b.topology, rank) {
			j, err := tier.Job(n)
			if err != nil {
				return p, err
			}
			p.sinks[rank] = append(p.sinks[rank], nodes.Copy(j.FS(), j.FilePath(nodes.RankFile(b.number, rank))))
		}
	}
	return p, nil
}

// code makes an encoder on each node of each set, and has each rank contribute to those of
// its set.
func (p *protection) code(b *bench, tier *nodes.Tier, scheme nodes.Scheme) error {
	p.sets = scheme.Sets(b.topology)
	for _, set := range p.sets {
		encoders := make([]*nodes.Encoder, len(set.Nodes))
		for i, node := range set.Nodes {
			j, err := tier.Job(node)
			if err != nil {
				return err
			}
			id := nodes.ParityID{Job: b.job, Checkpoint: b.number, Set: set, Index: i}
			if encoders[i], err = nodes.NewEncoder(j.FS(), j.FilePath(nodes.ParityFile(b.number, set.ID, i)), id); err != nil {
				return err
			}
			p.encoders = append(p.encoders, encoders[i])
		}
		for member, rank := range set.Members {
			if rank < 0 {
				continue
			}
			holders := make(map[int]nodes.Contributor)
			for _, h := range set.Holders() {
				holders[h] = encoders[h].Contributor(member)
			}
			c, err := nodes.Coded(set, member, holders)
			if err != nil {
				return err
			}
			p.coded = append(p.coded, c)
			p.sinks[rank] = []nodes.Sink{c}
		}
	}
	return nil
}

// abort ends what has not ended: after an error, or a failed rank.
func (p *protection) abort() {
	for _, e := range p.encoders {
		e.Abort(errors.New("the run ended"))
	}
}

// parities lists the parity files for the manifest.
func (p *protection) parities() (list []image.Parity) {
	seen := make(map[string]bool)
	for _, c := range p.coded {
		for _, f := range c.Files() {
			path := nodes.ParityFile(p.number, f.Set, f.Index)
			if seen[path] {
				continue
			}
			seen[path] = true
			list = append(list, image.Parity{Path: path, Set: f.Set, Index: f.Index, Node: p.sets[f.Set].Nodes[f.Index], Bytes: f.Bytes, Blake3: f.Digest})
		}
	}
	return list
}
