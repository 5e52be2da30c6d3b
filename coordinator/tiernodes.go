package coordinator

import (
	"context"
	"encoding/json"
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
func (t *tier) serves() bool { return t.ways != nil || t.g.spec.Tier.Protect.Coded() }

// begin has the ranks begin, once the nodes can be reached.
func (t *tier) begin(from int) {
	if t.ways == nil {
		t.level.begin(from)
	}
}

// hear takes what ranks say of the directories that they serve, of the copies that they make,
// and of where they have found their parts.
func (t *tier) hear(rank int, m *member, msg protocol.Message) protocol.Message {
	switch msg := msg.(type) {
	case protocol.Stored, protocol.StoreFailed:
		t.answered(rank, msg)
	case protocol.Restored:
		var r wire.RestoreReport
		if err := json.Unmarshal(msg.Body, &r); err == nil && r.Source != "" {
			t.hasFound(rank, r.Source, r.Passed)
		}
	}
	if t.serves() {
		return t.meet(rank, m, msg)
	}
	return msg
}

// unreached removes the directories that failures were to take, now that no rank runs.
func (t *tier) unreached() {
	t.loseNodes()
	if t.ways != nil {
		t.ways.end()
	}
}

func (t *tier) open() { t.g.d.journal.Behind() }

func (t *tier) close() {
	t.record.wait()
	t.nodes.Release()
}

func (t *tier) facts() levelFacts {
	f := t.level.facts()
	f.underWay, f.busy, f.lag = t.attempt.number, f.busy || t.copying != nil, t.last
	if f.keep == 0 { // the store has what the nodes could not take, and is not to have all checkpoints
		f.keep, f.of = nodes.Slots, t.bypass.stored
	}
	f.remedy = "free space in " + t.nodes.Setting().Dir + ", which holds two checkpoints of a node's ranks and what protects those of others"
	return f
}

// meet has a rank serve the directory of its node before anything else happens with it. It
// returns the message to go on with, nil if that is still to come.
func (t *tier) meet(rank int, m *member, msg protocol.Message) protocol.Message {
	switch msg := msg.(type) {
	case protocol.Hello:
		m.first = msg
		t.askToServe(rank)
		return nil
	case protocol.Serving:
		if m.first == nil {
			return nil
		}
		if err := t.serving(rank, m, msg); err != nil {
			t.g.d.fail(err)
			return nil
		}
		first := m.first
		m.first = nil
		return first
	}
	return msg
}

// askToServe asks a rank that has come to serve the directory of its node.
func (t *tier) askToServe(rank int) {
	g := t.g
	node := g.spec.Nodes[rank]
	o := wire.ServeOrder{Dir: g.spec.Tier.NodeDir(node), Job: g.job.Name()}
	if w := t.ways; w != nil && g.leads(rank) && w.lost[node] {
		o.Lose = true
		delete(w.lost, node)
	}
	g.d.send(rank, protocol.Serve{Body: job.Encode(o)})
}

// serving takes note of a rank that serves. Once all do, the checkpoint to restore is looked
// for.
func (t *tier) serving(rank int, m *member, msg protocol.Serving) error {
	g := t.g
	node := g.spec.Nodes[rank]
	if msg.Text != "" {
		return fmt.Errorf("node %d on host %s: %w", node, m.hostName, wire.DecodeError(msg.Body, msg.Text))
	}
	m.served = &wire.Served{Address: msg.Address, Host: m.host, HostName: m.hostName}
	w := t.ways
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
		t.beginWith(g.spawned.From)
	} else {
		t.takeNodes()
	}
	return nil
}

// takeNodes makes the directories of the nodes, which another job may have.
func (t *tier) takeNodes() {
	g := t.g
	incarnation, nodes, computed := g.incarnation, t.nodes, g.computed
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

// served says where the ranks serve the directories of their nodes; nil if they do not.
func (t *tier) served() []wire.Served {
	g := t.g
	if !t.serves() {
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
