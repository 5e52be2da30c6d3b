package rank

import (
	"context"
	"encoding/binary"
	"fmt"

	"ckpt/coordinator/job"
	"ckpt/coordinator/peer"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image/container"
	"ckpt/image/exec"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// follow has the next checkpoint be written in a way; nil is that of the description. The
// encoder keeps its experience, if the codec stays.
func (s *state) follow(way *job.Way) error {
	w := s.spec.Way()
	if way != nil {
		w = *way
	}
	if w == s.way {
		return nil
	}
	joint, err := s.spec.Joint(s.spec.GroupOf[s.rank], w)
	if err != nil {
		return err
	}
	if w.Codec != s.way.Codec {
		setting, err := w.CodecOf()
		if err != nil {
			return err
		}
		s.codec = container.NewCodec(setting, 0)
	}
	s.way, s.joint = w, joint
	return nil
}

// split takes apart what all ranks have told.
func split(b []byte, ranks int) ([][]byte, error) {
	all := make([][]byte, 0, ranks)
	for range ranks {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, fmt.Errorf("what %d ranks tell each other ends with rank %d", ranks, len(all))
		}
		all = append(all, b[k:k+int(n)])
		b = b[k+int(n):]
	}
	return all, nil
}

// layoutNetwork connects this rank with the others that write a checkpoint: through
// the coordinator for what all have to know, directly for the bytes.
type layoutNetwork struct {
	*gatherer
	ctx    context.Context // of the writing
	link   *wire.Link
	number int
	ranks  int
	round  int
	told   <-chan protocol.Shares
}

// openLayoutNetwork prepares to write checkpoint number with the others. They tell each
// other where to pull; an earlier checkpoint may have ended before all knew.
func (r *process) openLayoutNetwork(ctx context.Context, number int) (*layoutNetwork, error) {
	if r.gatherer == nil {
		var err error
		if r.gatherer, err = newGatherer(peer.Self{Rank: r.id, Token: r.token, Network: r.network}); err != nil {
			return nil, err
		}
	}
	n := &layoutNetwork{gatherer: r.gatherer, ctx: ctx, link: r.link, number: number, ranks: len(r.state.joint.Ranks), told: r.told}
	all, err := n.Exchange(ctx, []byte(r.gatherer.address()))
	if err != nil {
		return nil, err
	}
	peers := make([]string, r.spec.NP)
	for i, b := range all {
		peers[r.state.joint.Ranks[i].Rank] = string(b)
	}
	r.gatherer.setPeers(peers)
	return n, nil
}

func (n *layoutNetwork) Serve(piece func(context.Context, int) ([]byte, error)) {
	n.serveFrom(n.ctx, piece)
}

func (n *layoutNetwork) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	n.link.Send(protocol.Share{Number: n.number, Round: n.round, Body: mine})
	for {
		select {
		case m := <-n.told:
			if m.Number != n.number || m.Round != n.round {
				continue // of a checkpoint that was aborted
			}
			n.round++
			return split(m.Body, n.ranks)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// writeJoint writes the regions of this rank together with the other ranks.
func (s *state) writeJoint(ctx context.Context, fsys vfs.FS, number int, order wire.WriteOrder, net *layoutNetwork, regions []zones.Region, opt container.WriteOptions, report *wire.WriteReport) error {
	// Nobody pulls out of memory that may change again.
	defer net.serveFrom(context.Background(), nil)
	g := container.Joint{Settings: s.joint.Settings, Ranks: s.joint.Ranks, Rank: s.rank, Paths: order.Group, Network: net, Buffers: &s.buffers}
	h := container.Header{Job: s.cfg.Job, Number: number, Rank: -1, Node: -1, Kind: s.joint.Kind()}
	info, err := container.WriteJoint(ctx, fsys, g, h, regions, opt)
	if err != nil {
		return err
	}
	report.File = info.File
	for _, f := range info.Closed {
		report.Files = append(report.Files, wire.WrittenFile{Kind: s.joint.Kind(), Path: f.Path, Bytes: f.Bytes, Holes: f.Holes, Index: f.IndexBlake3})
	}
	report.Management += info.ManagementTime
	report.Storage += info.StorageTime
	return nil
}

var _ exec.BatchPuller = (*layoutNetwork)(nil)
