package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"

	"ckpt/coordinator/job"
	"ckpt/coordinator/peer"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// nodeWays are how this process reaches the directories of the nodes when those are on several
// hosts: through the first rank of each. No ranks, no way.
type nodeWays struct {
	to      []*peer.Way // by node
	clients []*peer.Client
	lost    map[int]bool // nodes that are to lose their directories before they are served again
}

func newNodeWays(count int) *nodeWays {
	w := &nodeWays{lost: map[int]bool{}}
	for range count {
		w.to = append(w.to, peer.NewWay(nodes.ErrUnreachable))
	}
	return w
}

// of returns the file system of a node.
func (w *nodeWays) of(node int) vfs.FS { return w.to[node] }

// serves reports whether the ranks serve each other the directories of their nodes.
func (d *driver) serves() bool {
	return d.tier != nil && (d.tier.ways != nil || d.spec.Tier.Protect.Coded())
}

// meet has a rank serve the directory of its node before anything else happens with it. It
// returns the message to go on with, nil if that is still to come.
func (g *group) meet(rank int, m *member, msg protocol.Message) protocol.Message {
	switch msg := msg.(type) {
	case protocol.Hello:
		m.first = msg
		g.askToServe(rank)
		return nil
	case protocol.Serving:
		if m.first == nil {
			return nil
		}
		if err := g.serving(rank, m, msg); err != nil {
			g.d.fail(err)
			return nil
		}
		first := m.first
		m.first = nil
		return first
	}
	return msg
}

// askToServe asks a rank that has come to serve the directory of its node.
func (g *group) askToServe(rank int) {
	node := g.spec.Nodes[rank]
	o := wire.ServeOrder{Dir: g.spec.Tier.NodeDir(node), Job: g.job.Name()}
	if w := g.d.tier.ways; w != nil && g.leads(rank) && w.lost[node] {
		o.Lose = true
		delete(w.lost, node)
	}
	g.d.send(rank, protocol.Serve{Body: job.Encode(o)})
}

// serving takes note of a rank that serves. Once all do, the checkpoint to restore is looked
// for.
func (g *group) serving(rank int, m *member, msg protocol.Serving) error {
	node := g.spec.Nodes[rank]
	if msg.Text != "" {
		return fmt.Errorf("node %d on host %s: %w", node, m.hostName, wire.DecodeError(msg.Body, msg.Text))
	}
	m.served = &wire.Served{Address: msg.Address, Host: m.host, HostName: m.hostName}
	w := g.d.tier.ways
	if w == nil {
		return nil
	}
	if g.leads(rank) {
		if err := g.reach(w, node, rank, m); err != nil {
			return err
		}
	}
	for _, other := range g.ranks {
		if m := g.d.members[other]; m == nil || m.served == nil {
			return nil
		}
	}
	if g.spawned.From > 0 {
		g.beginWith(g.spawned.From)
	} else {
		g.takeNodes()
	}
	return nil
}

// takeNodes makes the directories of the nodes, which may be those of another job.
func (g *group) takeNodes() {
	incarnation, nodes, computed := g.incarnation, g.d.tier.nodes, g.computed
	g.d.helpers.Go(func() {
		err := takeDirectories(nodes, g.job.Name(), func(err error) error {
			if computed {
				return nil // the node was lost in this run
			}
			return err
		})
		g.d.post(func() {
			switch {
			case incarnation != g.incarnation || g.d.over():
			case err != nil && !unreachable(err): // else a rank was lost, and they start again
				g.d.fail(err)
			default:
				g.examine(0)
				g.welcome()
			}
		})
	})
}

// reach opens the way to a node through one of its ranks.
func (g *group) reach(w *nodeWays, node, rank int, m *member) error {
	if !g.d.remote(m) {
		w.to[node].Lead(g.job.FS())
		return nil
	}
	host, _, err := net.SplitHostPort(g.d.listen)
	if err != nil {
		return err
	}
	network, err := peer.Encrypted(host, g.d.socket.token)
	if err != nil {
		return err
	}
	c := peer.NewClient(peer.Self{Rank: peer.Coordinator, Token: g.d.socket.token, Network: network},
		peer.Peer{Rank: rank, Host: m.hostName, Address: m.served.Address, Dir: g.spec.Tier.NodeDir(node), Job: g.job.Name(), Silence: g.limits.Silence})
	w.clients = append(w.clients, c)
	w.to[node].Lead(c.FS(context.Background()))
	return nil
}

// end closes the ways when the ranks have gone.
func (w *nodeWays) end() {
	for _, to := range w.to {
		to.Lead(nil)
	}
	for _, c := range w.clients {
		c.Close()
	}
	w.clients = nil
}

// servers says where the ranks serve the directories of their nodes; nil if they do not.
func (g *group) servers() []wire.Served {
	if !g.d.serves() {
		return nil
	}
	all := make([]wire.Served, len(g.d.members))
	for rank, m := range g.d.members {
		if m != nil && m.served != nil {
			all[rank] = *m.served
		}
	}
	return all
}

// unreachable reports whether an error only says that no ranks run on a node.
func unreachable(err error) bool {
	return errors.Is(err, nodes.ErrUnreachable) || errors.Is(err, peer.ErrGone)
}
