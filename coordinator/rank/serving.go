package rank

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync/atomic"

	"ckpt/coordinator/peer"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A nodeServer serves the directory of this rank's node to the other ranks and to the
// coordinator.
type nodeServer struct {
	server *peer.Server
	parity atomic.Pointer[parity] // that this rank holds; nil: none yet
}

// contribute opens the contribution of another rank to a parity that this one holds.
func (n *nodeServer) contribute(ctx context.Context, name string) (nodes.Contributor, error) {
	p := n.parity.Load()
	if p == nil {
		return nil, errors.New("no parity is held here")
	}
	return p.serve(ctx, name)
}

// serveNode does as the coordinator asks, and tells where.
func (r *process) serveNode(m protocol.Serve) {
	var o wire.ServeOrder
	err := json.Unmarshal(m.Body, &o)
	if err == nil {
		err = r.openServer(o)
	}
	if err != nil {
		r.link.Send(protocol.Serving{Text: err.Error(), Body: wire.EncodeError(err)})
		return
	}
	r.link.Send(protocol.Serving{Address: r.served.server.Address()})
}

func (r *process) openServer(o wire.ServeOrder) error {
	if r.served != nil {
		return errors.New("the directory of the node is served already")
	}
	if o.Lose {
		if err := durable.RemoveAll(r.fs, filepath.Join(o.Dir, "jobs", o.Job)); err != nil {
			return err
		}
	}
	_ = durable.MkdirAll(r.fs, o.Dir) // what is wrong with it those are told that use it
	n, fsys := &nodeServer{}, r.fs
	if _, machine := fsys.(vfs.OS); machine {
		fsys = vfs.NewBeneath(o.Dir)
	}
	var err error
	n.server, err = peer.Serve(r.self(), peer.Served{FS: fsys, Dir: o.Dir, Job: o.Job, Contribute: n.contribute})
	if err != nil {
		return err
	}
	r.served = n
	return nil
}

func (r *process) self() peer.Self { return peer.Self{Rank: r.id, Token: r.token, Network: r.network} }

// reach returns the file system of a node: of this host, or that of the rank there which
// has the same place among those of its node as this one, so that all ranks serve.
func (r *process) reach(ctx context.Context, node int) vfs.FS {
	if len(r.cfg.Served) != r.spec.NP {
		return r.fs
	}
	of := r.spec.Mapping
	to := of.First(node) + (r.id-of.First(r.spec.Nodes[r.id]))%of[node]
	at := r.cfg.Served[to]
	if host, _ := wire.ThisHost(); at.Host == host {
		return r.fs
	}
	return r.client(to).FS(ctx)
}

// client returns what reaches another rank.
func (r *process) client(rank int) *peer.Client {
	r.peersMu.Lock()
	defer r.peersMu.Unlock()
	c := r.peers[rank]
	if c == nil {
		at := r.cfg.Served[rank]
		c = peer.NewClient(r.self(), peer.Peer{Rank: rank, Host: at.HostName, Address: at.Address,
			Dir: r.spec.Tier.NodeDir(r.spec.Nodes[rank]), Job: r.cfg.Job, Silence: r.cfg.Silence})
		r.peers[rank] = c
	}
	return c
}

// closePeers ends what this rank serves, and what it is served.
func (r *process) closePeers() {
	r.peersMu.Lock()
	defer r.peersMu.Unlock()
	for _, c := range r.peers {
		c.Close()
	}
	if r.served != nil {
		r.served.server.Close()
	}
}
