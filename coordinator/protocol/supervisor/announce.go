package supervisor

import "ckpt/coordinator/protocol"

// announce tells the other groups where a new process is.
func (s *Supervisor) announce(g *group, rank int) {
	for _, o := range s.groups {
		for _, peer := range o.ranks {
			if o != g && s.ready[peer] {
				s.do(o.id, s.moved(peer, rank))
			}
		}
	}
}

// introduce tells a new process where the others are.
func (s *Supervisor) introduce(g *group, rank int) {
	for _, o := range s.groups {
		for _, peer := range o.ranks {
			if o != g && s.addr[peer] != "" {
				s.do(g.id, s.moved(rank, peer))
			}
		}
	}
	s.recollect(g, rank)
}

// moved tells a rank where a process of another group is.
func (s *Supervisor) moved(to, rank int) protocol.Send {
	return protocol.Send{Rank: to, Message: protocol.Moved{Life: s.life(rank), Address: s.addr[rank]}}
}

// life is the present one of a rank.
func (s *Supervisor) life(rank int) protocol.Life {
	return protocol.Life{Rank: rank, Incarnation: uint64(s.of[rank].incarnation)}
}
