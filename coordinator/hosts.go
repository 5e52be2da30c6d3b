package coordinator

import (
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/internal/wording"
)

// overNetwork reports whether ranks may run on other hosts.
func (s *setting) overNetwork() bool { return s.listen != "" }

// remote reports whether a rank runs on another host, where it cannot be signalled.
func (d *driver) remote(m *member) bool { return d.overNetwork() && m.host != "" && m.host != d.here }

// terminate kills a rank. On another host, the end of its connection has it exit.
func (d *driver) terminate(m *member) {
	m.proc.Kill()
	if m.link != nil && d.remote(m) {
		m.link.HangUp()
	}
}

// outlive ends the connections of ranks on hosts that cannot be reached any more, when
// these ranks have ended by themselves: before the silence is over that counts as death
// (see rank).
func (g *group) outlive() {
	for _, rank := range g.ranks {
		if m := g.d.members[rank]; m != nil && m.link != nil && g.d.remote(m) {
			heard := time.Duration(m.signs.heard.Load())
			time.AfterFunc(max(0, heard+g.limits.Silence-g.d.now()), m.link.Close)
		}
	}
}

// killTime is how long killed ranks may take to be gone.
func (s *setting) killTime() time.Duration {
	switch {
	case s.overNetwork():
		return killGrace + s.limits.Silence
	case s.spec.Lone():
		return endTime
	}
	return killGrace
}

// checkHosts refuses ranks of one node on several hosts: they could not share memory.
func (g *group) checkHosts() error {
	for _, rank := range g.ranks {
		first := g.first(rank)
		a, b := g.d.members[first], g.d.members[rank]
		if a.host == b.host || g.perNode()[g.spec.Nodes[rank]] == 1 {
			continue
		}
		return &job.UsageError{
			Text: fmt.Sprintf("ranks %d and %d are of node %d and share memory, but %s runs them on hosts %s and %s",
				first, rank, g.spec.Nodes[rank], g.spec.Launcher, a.hostName, b.hostName),
			Fix: wording.Sprintf("{map} gives the ranks of each node, in the order in which the launcher places them; or have the launcher place them in blocks"),
		}
	}
	return nil
}

// placed notes where the first rank of a node has made its shared memory, and lets the
// others of the node in.
func (g *group) placed(rank int, m protocol.Placed) {
	if !g.leads(rank) || g.segments == nil {
		return
	}
	node := g.spec.Nodes[rank]
	g.segments[node] = m.Path
	for _, other := range g.ranks {
		if g.spec.Nodes[other] == node && other != rank {
			g.welcomeRank(other)
		}
	}
}
