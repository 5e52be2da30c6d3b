package levels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// nodeWays are how this process reaches the directories of the nodes when those are on several
// hosts: through the first rank of each. No ranks, no way.
type nodeWays struct {
	to      []*wire.Way // by node
	clients []*wire.PeerClient
	lost    map[int]bool // nodes that are to lose their directories before they are served again
}

func newNodeWays(count int) *nodeWays {
	w := &nodeWays{lost: map[int]bool{}}
	for range count {
		w.to = append(w.to, wire.NewWay(nodes.ErrUnreachable))
	}
	return w
}

// of returns the file system of a node.
func (w *nodeWays) of(node int) vfs.FS { return w.to[node] }

// serves reports whether the ranks serve each other the directories of their nodes.
func (t *Tier) serves() bool { return t.ways != nil || t.Spec.Tier.Protect.Coded() }

// Begin has the ranks begin, once the nodes can be reached.
func (t *Tier) Begin(from int) {
	t.met = make([]meeting, t.Spec.NP)
	if t.ways == nil {
		t.Level.Begin(from)
	}
}

// Hear takes what ranks say of the directories that they serve, of the copies that they make,
// and of where they have found their parts.
func (t *Tier) Hear(rank int, msg protocol.Message) protocol.Message {
	switch msg := msg.(type) {
	case protocol.Stored, protocol.StoreFailed:
		t.answered(rank, msg)
	case protocol.Share:
		if t.tells(rank, msg) {
			return nil
		}
	case protocol.Restored:
		var r wire.RestoreReport
		if err := json.Unmarshal(msg.Body, &r); err == nil && r.Source != "" {
			t.noteSource(rank, r.Source, r.Passed)
		}
	}
	if t.serves() {
		return t.meet(rank, msg)
	}
	return msg
}

// Unreached removes the directories that failures were to take, now that no rank runs.
func (t *Tier) Unreached(lose []int) {
	t.loseNodes(lose)
	if t.ways != nil {
		t.ways.end()
	}
}

// Close writes the last record, and leaves the directories to the next run.
func (t *Tier) Close() {
	t.record.wait()
	t.nodes.Release()
}

// Facts implements [Level].
func (t *Tier) Facts() Facts {
	f := t.Level.Facts()
	f.UnderWay, f.Busy, f.Lag, f.Behind = t.attempt.number, f.Busy || t.copying != nil, t.last, true
	if f.Keep == 0 { // the store has what the nodes could not take, and is not to have all checkpoints
		f.Keep, f.Of = nodes.Slots, t.refusal.stored
	}
	f.Remedy = "free space in " + t.nodes.Setting().Dir + ", which holds two checkpoints of a node's ranks and what protects those of others"
	return f
}

// A meeting is a rank that serves the directory of its node before it takes part.
type meeting struct {
	first  protocol.Message // that it said, until it serves
	served *wire.Served
}

// meet has a rank serve the directory of its node before anything else happens with it. It
// returns the message to go on with, nil if that is still to come.
func (t *Tier) meet(rank int, msg protocol.Message) protocol.Message {
	m := &t.met[rank]
	switch msg := msg.(type) {
	case protocol.Hello:
		m.first = msg
		t.askToServe(rank)
		return nil
	case protocol.Serving:
		if m.first == nil {
			return nil
		}
		if err := t.serving(rank, msg); err != nil {
			t.g.Fail(err)
			return nil
		}
		first := m.first
		m.first = nil
		return first
	}
	return msg
}

// askToServe asks a rank that has come to serve the directory of its node.
func (t *Tier) askToServe(rank int) {
	node := t.Spec.Nodes[rank]
	o := wire.ServeOrder{Dir: t.Spec.Tier.NodeDir(node), Job: t.Job.Name()}
	if w := t.ways; w != nil && t.g.Leads(rank) && w.lost[node] {
		o.Lose = true
		delete(w.lost, node)
	}
	t.g.Send(rank, protocol.Serve{Body: job.Encode(o)})
}

// serving takes note of a rank that serves. Once all do, the checkpoint to restore is looked
// for.
func (t *Tier) serving(rank int, msg protocol.Serving) error {
	node, host := t.Spec.Nodes[rank], t.g.Host(rank)
	if msg.Text != "" {
		return fmt.Errorf("node %d on host %s: %w", node, host.Name, wire.DecodeError(msg.Body, msg.Text))
	}
	t.met[rank].served = &wire.Served{Address: msg.Address, Host: host.ID, HostName: host.Name}
	if t.ways == nil {
		return nil
	}
	if t.g.Leads(rank) {
		if err := t.reach(node, rank, host, msg.Address); err != nil {
			return err
		}
	}
	for _, rank := range t.Ranks {
		if t.met[rank].served == nil {
			return nil
		}
	}
	if from := t.g.Life().From; from > 0 {
		t.beginWith(from)
	} else {
		t.takeNodes()
	}
	return nil
}

// takeNodes makes the directories of the nodes, which another job may have.
func (t *Tier) takeNodes() {
	life := t.g.Life()
	t.beside(func() error {
		return takeDirectories(t.nodes, t.Job.Name(), func(err error) error {
			if life.Computed {
				return nil // the node was lost in this run
			}
			return err
		})
	}, func(err error) {
		switch {
		case life.Incarnation != t.g.Life().Incarnation || t.g.Over():
		case err != nil && !unreachable(err): // else a rank was lost, and they start again
			t.g.Fail(err)
		default:
			t.g.Examine(0)
			t.g.Welcome()
		}
	})
}

// reach opens the way to a node through one of its ranks.
func (t *Tier) reach(node, rank int, host Host, address string) error {
	if !host.Remote {
		t.ways.to[node].Lead(t.Job.FS())
		return nil
	}
	here, _, err := net.SplitHostPort(t.Listen)
	if err != nil {
		return err
	}
	network, err := wire.EncryptedPeers(here, t.Token)
	if err != nil {
		return err
	}
	c := wire.NewPeerClient(wire.Self{Rank: wire.FromCoordinator, Token: t.Token, Network: network},
		wire.Peer{Rank: rank, Host: host.Name, Address: address, Dir: t.Spec.Tier.NodeDir(node), Job: t.Job.Name(), Silence: t.Silence})
	t.ways.clients = append(t.ways.clients, c)
	t.ways.to[node].Lead(c.FS(context.Background()))
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

// Served says where the ranks serve the directories of their nodes; nil if they do not.
func (t *Tier) Served() []wire.Served {
	if !t.serves() {
		return nil
	}
	all := make([]wire.Served, len(t.met))
	for rank, m := range t.met {
		if m.served != nil {
			all[rank] = *m.served
		}
	}
	return all
}

// unreachable reports whether an error only says that no ranks run on a node.
func unreachable(err error) bool {
	return errors.Is(err, nodes.ErrUnreachable) || errors.Is(err, wire.ErrGone)
}
