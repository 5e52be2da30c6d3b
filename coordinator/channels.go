package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/internal/durable"
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
	*channel.State
	logFrom uint64
}

// initialChannels is that at the beginning.
func (s *Spec) initialChannels(rank int) (*savedChannels, error) {
	kind, err := s.log()
	if err != nil {
		return nil, err
	}
	e, err := channel.New(channel.Config{Kind: kind, Rank: rank, Size: s.NP})
	if err != nil {
		return nil, err
	}
	return &savedChannels{e.Snapshot(), 0}, nil
}

// readChannels reads it out of a checkpoint, and checks that the job and the manifest
// say the same.
func readChannels(ctx context.Context, job *image.Job, spec *Spec, m *image.Manifest, rank int) (*savedChannels, error) {
	r, err := rankOfManifest(job, m, rank)
	if err != nil {
		return nil, err
	}
	if err := checkRegion(job, m, r, channelsRegion, r.Channels); err != nil {
		return nil, err
	}
	mem := mpi.NewMemory()
	defer mem.Close()
	b, err := mem.Alloc(channelsRegion, channelsZone, zones.Bytes, r.Channels)
	if err != nil {
		return nil, err
	}
	if err := job.Load(ctx, m, r.File, rank, mem.Regions(), nil); err != nil {
		return nil, err
	}
	st, err := channel.Decode(b)
	if err != nil {
		return nil, &durable.DamageError{File: filepath.Join(job.Dir(), r.File), Reason: fmt.Sprintf("rank %d: %v", rank, err)}
	}
	return &savedChannels{st, r.LogFrom}, spec.checkState(job, m, r, st)
}

// checkState checks the state of the channels of a rank in a checkpoint.
func (s *Spec) checkState(job *image.Job, m *image.Manifest, r *image.Rank, st *channel.State) error {
	kind, err := s.log()
	if err != nil {
		return err
	}
	if st.Kind != kind {
		return &durable.DamageError{File: job.SpecPath(),
			Reason: fmt.Sprintf("it says that messages are logged %v, and checkpoint %d was taken with %v", kind, m.Number, st.Kind)}
	}
	v, err := vectorOf(r)
	if err != nil || st.Rank != r.Rank || st.Size != s.NP || !v.Equal(&st.Vector) {
		return &durable.DamageError{File: manifestPath(job, m.Number), Reason: fmt.Sprintf("the vector of rank %d is not that in %s", r.Rank, r.File)}
	}
	return nil
}

// rankOfManifest finds a rank in a checkpoint.
func rankOfManifest(job *image.Job, m *image.Manifest, rank int) (*image.Rank, error) {
	i := slices.IndexFunc(m.Ranks, func(r image.Rank) bool { return r.Rank == rank })
	if i < 0 {
		return nil, &durable.DamageError{File: manifestPath(job, m.Number), Reason: fmt.Sprintf("it has no rank %d", rank)}
	}
	return &m.Ranks[i], nil
}

// checkRegion checks that a rank has stored a region of the size that the manifest
// says, which nobody should allocate before.
func checkRegion(job *image.Job, m *image.Manifest, r *image.Rank, name string, bytes int64) error {
	have, err := job.RegionBytes(m, r.File, r.Rank, name)
	if err == nil && have != bytes {
		err = &durable.DamageError{File: manifestPath(job, m.Number),
			Reason: fmt.Sprintf("rank %d has %d bytes of region %q in it, and %d in %s", r.Rank, bytes, name, have, r.File)}
	}
	return err
}

// openChannels is what the channels of this rank go on from, and its log.
func (s *state) openChannels(pending []byte) (*mpi.Channels, error) {
	set := s.cfg.Channels
	c := &mpi.Channels{LogFailed: s.logFailed, Kind: set.Kind, Group: set.Group, Incarnation: set.Incarnation, Incarnations: set.Incarnations}
	if set.Kind.Logs() {
		log, err := openLog(s.fs, s.job, s.rank)
		if err != nil {
			return nil, err
		}
		s.log = log
		c.Log = log
	}
	if s.cfg.From == 0 && s.log == nil {
		return c, nil
	}
	saved := s.channels
	if s.cfg.From == 0 {
		var err error
		if saved, err = s.cfg.Spec.initialChannels(s.rank); err != nil {
			return nil, err
		}
	}
	from := &mpi.Restored{Line: set.Line, Pending: pending, State: saved.Encode()}
	first := saved.logFrom
	if s.log != nil {
		r, err := s.log.NewReader(msglog.LSN(first))
		if err != nil {
			return nil, err
		}
		if s.log.Next() < msglog.LSN(first) {
			return nil, &durable.DamageError{File: logDir(s.job, s.rank),
				Reason: fmt.Sprintf("it ends before frame %d, at which checkpoint %d was taken", s.log.Next(), s.cfg.From)}
		}
		s.replay = r
		from.Frames = r.Next
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
	case protocol.FenceOff:
		v, err := comm.Hold(ctx)
		if err != nil {
			return err
		}
		r.post(ctx, protocol.FencedOff{Round: a.Round, Vector: v})
	case protocol.FenceOpen:
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
	for i := range m.Ranks {
		v, err := vectorOf(&m.Ranks[i])
		if err != nil {
			return nil, fmt.Errorf("checkpoint %d: %w", m.Number, err)
		}
		list = append(list, v)
	}
	return list, nil
}

func vectorOf(r *image.Rank) (v channel.Vector, err error) {
	if len(r.Vector) == 0 {
		return v, fmt.Errorf("rank %d has no vector", r.Rank)
	}
	if err := json.Unmarshal(r.Vector, &v); err != nil {
		return v, fmt.Errorf("vector of rank %d: %w", r.Rank, err)
	}
	return v, nil
}
