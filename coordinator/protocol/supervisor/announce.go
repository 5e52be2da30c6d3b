package supervisor

import "ckpt/coordinator/protocol"

// announce tells the other groups where a new process is.
func (s *Supervisor) announce(g *group, local int) {
	for _, o := range s.groups {
		for i, ready := range o.ready {
			if o != g && ready {
				s.do(o.id, s.moved(o.ranks[i], g, local))
			}
		}
	}
}

// introduce tells a new process where the others are.
func (s *Supervisor) introduce(g *group, local int) {
	for _, o := range s.groups {
		for i, addr := range o.addr {
			if o != g && addr != "" {
				s.do(g.id, s.moved(g.ranks[local], o, i))
			}
		}
	}
	s.recollect(g, local)
}

func (s *Supervisor) moved(to int, g *group, local int) protocol.Send {
	return protocol.Send{Message: protocol.Message{Kind: protocol.Moved, Rank: to, Text: g.addr[local],
		Counts: []protocol.Count{{Peer: g.ranks[local], N: uint64(g.gen)}}}}
}
