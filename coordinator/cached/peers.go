package cached

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"ckpt/coordinator/wire"
	"ckpt/image/filecache"
	"ckpt/internal/vfs"
)

// silence is how long a daemon that serves a request may say nothing before it counts as dead.
const silence = 10 * time.Second

// job is what both sides of a connection call themselves.
const job = "cache"

func pause() { time.Sleep(10 * time.Millisecond) }

// Peers reach the daemons of other nodes. Each has a lane for each kind of message, so that
// none waits for an answer that needs it, and one for files.
type peers struct {
	place   place
	setting Setting
	self    int
	token   wire.Self
	nodes   []peer
	ctx     context.Context
}

type peer struct {
	mu    sync.Mutex
	seat  seat
	lanes []*wire.PeerClient // nil: look where the daemon is
	files *wire.Way
}

// newPeers returns the ways to all nodes but one.
func newPeers(ctx context.Context, p place, s Setting, self int, token wire.Self) *peers {
	all := &peers{place: p, setting: s, self: self, token: token, nodes: make([]peer, s.Nodes), ctx: ctx}
	for i := range all.nodes {
		all.nodes[i].files = wire.NewWay(fmt.Errorf("node %d is not reached", i))
	}
	return all
}

// lane returns a way to a node, looking where its daemon is if it is not known.
func (p *peers) lane(node int, lane filecache.Lane) (*wire.PeerClient, error) {
	n := &p.nodes[node]
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lanes == nil {
		at, err := p.place.find(node)
		if err != nil {
			return nil, err
		}
		n.seat = at
		for range filecache.Lanes + 1 {
			n.lanes = append(n.lanes, wire.NewPeerClient(p.token, wire.Peer{Rank: node, Host: at.Host, Address: at.Address,
				Dir: p.setting.filesDir(node), Job: job, Silence: silence}))
		}
		n.files.Lead(n.lanes[filecache.Lanes].FS(p.ctx))
	}
	return n.lanes[lane], nil
}

// lost has the next message look for the daemon again.
func (p *peers) lost(node int) {
	n := &p.nodes[node]
	n.mu.Lock()
	lanes := n.lanes
	n.lanes = nil
	n.files.Lead(nil)
	n.mu.Unlock()
	for _, c := range lanes {
		c.Close()
	}
}

// Reach implements filecache.Peers: it looks for daemons that have begun again.
func (p *peers) Reach(ctx context.Context) error {
	for i := range p.nodes {
		if i == p.self {
			continue
		}
		if _, err := p.Ask(ctx, i, filecache.Message{Verb: filecache.Greet}); err != nil {
			return err
		}
	}
	return nil
}

// Ask implements filecache.Peers. A way that leads nowhere is looked for once more where nothing
// can have been done twice.
func (p *peers) Ask(ctx context.Context, node int, m filecache.Message) (filecache.Answer, error) {
	a, err := p.ask(ctx, node, m)
	if errors.Is(err, wire.ErrGone) {
		p.lost(node)
		if m.Verb == filecache.Greet || m.Verb == filecache.Look {
			a, err = p.ask(ctx, node, m)
		}
	}
	return a, err
}

func (p *peers) ask(ctx context.Context, node int, m filecache.Message) (a filecache.Answer, err error) {
	c, err := p.lane(node, m.Verb.Lane())
	if err != nil {
		return a, err
	}
	var data, into []byte
	if r := m.Request; r != nil && r.Kind == filecache.Read {
		into = r.Data
	} else if r != nil {
		data = r.Data
	}
	head, err := json.Marshal(m)
	if err != nil {
		return a, err
	}
	answer, err := c.Ask(ctx, head, data, into)
	if err == nil && len(answer) > 0 {
		err = json.Unmarshal(answer, &a)
	}
	return a, err
}

// answer is the other side of ask.
func answer(ctx context.Context, d *filecache.Daemon, head, data, into []byte) ([]byte, error) {
	var m filecache.Message
	if err := json.Unmarshal(head, &m); err != nil {
		return nil, fmt.Errorf("a message between caches: %w", err)
	}
	if m.Request != nil {
		m.Request.Data = data
		if m.Request.Kind == filecache.Read {
			m.Request.Data = into
		}
	}
	a, err := d.Answer(ctx, m)
	if err != nil || len(into) > 0 {
		return nil, err
	}
	return json.Marshal(a)
}

func (p *peers) close() {
	for i := range p.nodes {
		p.lost(i)
	}
}

// fs returns the files of a node's directory.
func (p *peers) fs(node int) vfs.FS { return p.nodes[node].files }
