package rank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
)

// openChannels returns the state that the channels of this rank resume from, and opens its log.
func (s *state) openChannels(pending []byte) (*mpi.Channels, error) {
	set := s.cfg.Channels
	c := &mpi.Channels{LogFailed: s.logFailed, Kind: s.spec.Log, Group: s.spec.Groups[s.spec.GroupOf[s.rank]], Incarnation: set.Incarnation, Incarnations: set.Incarnations}
	if s.spec.Log.Logs() {
		log, err := job.OpenLog(s.job, s.rank)
		if err != nil {
			return nil, err
		}
		s.log = log
		c.Log = log
	}
	if s.cfg.From == 0 && s.log == nil && s.spec.Recut == nil {
		return c, nil
	}
	saved := s.channels
	if s.cfg.From == 0 {
		var err error
		if saved, err = s.spec.InitialChannels(s.rank); err != nil {
			return nil, err
		}
	}
	from := &mpi.Restored{Line: set.Line, Pending: pending, State: saved.Encode()}
	first := saved.LogFrom
	if s.log != nil {
		r, err := s.log.NewReader(first)
		if err != nil {
			return nil, err
		}
		if s.log.Next() < first {
			return nil, &durable.DamageError{File: job.LogDir(s.job, s.rank),
				Reason: fmt.Sprintf("it ends before frame %d, at which checkpoint %d was taken", s.log.Next(), s.cfg.From)}
		}
		s.replay = r
		from.Frames = s.measureFrames(r.Next)
	}
	c.Restore = from
	return c, nil
}

func (s *state) measureFrames(next func() (channel.Frame, error)) func() (channel.Frame, error) {
	return func() (channel.Frame, error) {
		began := time.Now()
		f, err := next()
		s.restored.Log += time.Since(began)
		if err == nil {
			s.restored.LogBytes += int64(len(f.Message.Data))
		}
		return f, err
	}
}

func (r *process) snapshot(ctx context.Context) (*mpi.Snapshot, error) {
	if r.cfg.Channels == nil {
		return &mpi.Snapshot{Pending: r.comm.Pending()}, nil
	}
	return r.comm.Snapshot(ctx)
}

// channelNews carries out what the coordinator says of the channels, and keeps it until there is
// a communicator.
func (r *process) channelNews(ctx context.Context, m protocol.Message) error {
	comm := r.channelComm
	if comm == nil {
		r.news = append(r.news, m)
		return nil
	}
	switch m := m.(type) {
	case protocol.Fence:
		v, err := comm.Fence(ctx)
		if err != nil {
			return err
		}
		r.link.Send(protocol.Fenced{Round: m.Round, Vector: v})
	case protocol.Unfence:
		for _, l := range m.Moved {
			if err := comm.PeerMoved(l.Rank, "", l.Incarnation); err != nil {
				return err
			}
		}
		return comm.Unfence()
	case protocol.Moved:
		return comm.PeerMoved(m.Rank, m.Address, m.Incarnation)
	case protocol.Collected:
		for _, c := range m.Received {
			if err := comm.Collected(c.Peer, c.N); err != nil {
				return err
			}
		}
	case protocol.Truncate:
		if r.state.log != nil {
			// A segment that cannot be removed now will be later.
			_, _, _ = r.state.log.Truncate(m.First)
		}
	}
	return nil
}

func (r *process) serveNews(ctx context.Context) {
	for {
		var err error
		select {
		case m := <-r.channelMail:
			err = r.channelNews(ctx, m)
		case r.channelComm = <-r.joined:
			news := r.news
			r.news = nil
			for _, m := range news {
				err = errors.Join(err, r.channelNews(ctx, m))
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
