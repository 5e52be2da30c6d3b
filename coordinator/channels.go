package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/zones"
)

// channelsRegion is the name of the region with the state of the channels of a
// rank to the ranks of other groups. It is of a zone of its own, so that it can be
// read by itself.
const (
	channelsRegion = "channels"
	channelsZone   = zones.IOBuffer
)

// channelSetup tells a rank of its channels to other groups.
type channelSetup struct {
	Kind         channel.Kind `json:"kind"`
	Group        []int        `json:"group"`
	Incarnation  uint64       `json:"incarnation"`
	Incarnations []uint64     `json:"incarnations"`
	Line         []uint64     `json:"line,omitempty"`
}

// savedChannels is what of a checkpoint concerns the channels of a rank.
type savedChannels struct {
	state   []byte
	logFrom uint64
}

// readChannels reads it out of checkpoint number.
func readChannels(ctx context.Context, job *image.Job, number, rank int) (*savedChannels, error) {
	m, err := job.Manifest(number)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(m.Ranks, func(r image.Rank) bool { return r.Rank == rank })
	if i < 0 {
		return nil, fmt.Errorf("checkpoint %d has no rank %d", number, rank)
	}
	r := m.Ranks[i]
	mem := mpi.NewMemory()
	defer mem.Close()
	state, err := mem.Alloc(channelsRegion, channelsZone, zones.Bytes, r.Channels)
	if err != nil {
		return nil, err
	}
	if err := job.Load(ctx, m, r.File, rank, mem.Regions(), nil); err != nil {
		return nil, err
	}
	return &savedChannels{append([]byte(nil), state...), r.LogFrom}, nil
}

// restoredChannels is what the channels of this rank go on from, and its log.
func (s *state) openChannels(ctx context.Context, pending []byte) (*mpi.Channels, error) {
	set := s.cfg.Channels
	c := &mpi.Channels{LogFailed: s.logFailed, Kind: set.Kind, Group: set.Group, Incarnation: set.Incarnation, Incarnations: set.Incarnations}
	if set.Kind.Logs() {
		log, err := openLog(s.fs, s.job, s.rank)
		if err != nil {
			return nil, err
		}
		s.log = log
		c.Log = mpi.OnDisk(log)
	}
	if s.cfg.From == 0 && s.log == nil {
		return c, nil
	}
	np := s.cfg.Spec.NP
	from := &mpi.Restored{Line: set.Line, Pending: pending}
	first := uint64(0)
	if s.cfg.From > 0 {
		saved, err := readChannels(ctx, s.job, s.cfg.From, s.rank)
		if err != nil {
			return nil, err
		}
		from.State, first = saved.state, saved.logFrom
	} else {
		e, err := channel.New(channel.Config{Kind: set.Kind, Rank: s.rank, Size: np, Group: set.Group})
		if err != nil {
			return nil, err
		}
		from.State = e.Snapshot().Encode()
	}
	if s.log != nil {
		r, err := s.log.NewReader(msglog.LSN(first))
		if err != nil {
			return nil, err
		}
		if s.log.Next() < msglog.LSN(first) {
			return nil, &image.DamageError{File: logDir(s.job, s.rank),
				Reason: fmt.Sprintf("it ends before frame %d, at which checkpoint %d was taken", s.log.Next(), s.cfg.From)}
		}
		s.replay = r
		from.Frames = mpi.FromDisk(r.Next)
	}
	c.Restore = from
	return c, nil
}

// snapshot adds the state of the channels to what is stored.
func (r *rank) snapshot(ctx context.Context) (*mpi.Snapshot, error) {
	if r.cfg.Channels == nil {
		return &mpi.Snapshot{Pending: r.comm.Pending()}, nil
	}
	return r.comm.Snapshot(ctx)
}

// truncateLog says which frame of the message log is the first that is needed.
type truncateLog struct{ from uint64 }

// channelNews carries out what the protocol wants of the channels. Before the
// communicator is there, it is kept.
func (r *rank) channelNews(ctx context.Context, a any) error {
	comm := r.channelComm
	if comm == nil {
		r.news = append(r.news, a)
		return nil
	}
	switch a := a.(type) {
	case protocol.Freeze:
		v, err := comm.Hold(ctx)
		if err != nil {
			return err
		}
		r.post(ctx, protocol.Frozen{Round: a.Round, Vector: v})
	case protocol.Thaw:
		for _, c := range a.Peers {
			if err := comm.PeerMoved(c.Peer, "", c.N); err != nil {
				return err
			}
		}
		return comm.Release()
	case protocol.Redial:
		return comm.PeerMoved(a.Peer, a.Address, uint64(a.Incarnation))
	case protocol.Trim:
		for _, c := range a.Peers {
			if err := comm.Collected(c.Peer, c.N); err != nil {
				return err
			}
		}
	case truncateLog:
		if r.state.log != nil {
			// What cannot be removed now will be another time.
			_, _, _ = r.state.log.Truncate(msglog.LSN(a.from))
		}
	}
	return nil
}

// serveNews carries out the news of the channels, one after the other.
func (r *rank) serveNews(ctx context.Context) {
	for {
		var err error
		select {
		case a := <-r.channelMail:
			err = r.channelNews(ctx, a)
		case r.channelComm = <-r.joined:
			news := r.news
			r.news = nil
			for _, a := range news {
				err = errors.Join(err, r.channelNews(ctx, a))
			}
		case <-ctx.Done():
			return
		}
		if err != nil && ctx.Err() == nil {
			r.fail(fmt.Errorf("channels: %w", err))
			return
		}
	}
}

// vectorsOf returns the vectors of the ranks of a checkpoint.
func vectorsOf(m *image.Manifest) ([]channel.Vector, error) {
	var list []channel.Vector
	for _, r := range m.Ranks {
		var v channel.Vector
		if len(r.Vector) == 0 {
			return nil, errors.New("it has no vectors")
		}
		if err := json.Unmarshal(r.Vector, &v); err != nil {
			return nil, fmt.Errorf("vector of rank %d: %w", r.Rank, err)
		}
		list = append(list, v)
	}
	return list, nil
}
