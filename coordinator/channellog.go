package coordinator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
	"ckpt/image"
	"ckpt/image/vfs"
)

// channelLog keeps the frames of a rank's channels in its message log.
type channelLog struct{ log *msglog.Log }

// logsDir is the directory of the message logs of a job, logDir that of a rank.
func logsDir(job *image.Job) string { return filepath.Join(job.Dir(), "logs") }

func logDir(job *image.Job, rank int) string {
	return filepath.Join(logsDir(job), fmt.Sprintf("rank-%d", rank))
}

func openLog(fsys vfs.FS, job *image.Job, rank int) (*msglog.Log, error) {
	log, _, err := msglog.Open(fsys, logDir(job, rank), msglog.ID{Job: job.Name(), Rank: rank}, msglog.Options{})
	return log, err
}

func (l channelLog) Append(f channel.Frame) (uint64, error) {
	lsn, err := l.log.Append(frameOf(f))
	return uint64(lsn), err
}

func (l channelLog) Wait(ctx context.Context, lsn uint64) error {
	return l.log.Wait(ctx, msglog.LSN(lsn))
}

func (l channelLog) Next() uint64  { return uint64(l.log.Next()) }
func (l channelLog) Reopen() error { return l.log.Reopen() }

// frameOf is a frame of a channel as the log keeps it.
func frameOf(f channel.Frame) msglog.Frame {
	m := f.Message
	out := msglog.Frame{Kind: msglog.Message, Peer: int32(f.Peer), Tag: m.Tag, Context: m.Context, Seq: m.Seq, Payload: withDepends(m)}
	switch f.Kind {
	case channel.Match:
		out = msglog.Frame{Kind: msglog.Order, Peer: int32(f.Peer), Seq: m.Seq, Order: f.Number, AnySource: true}
	case channel.Cut:
		out = msglog.Frame{Kind: msglog.Cut, Peer: -1, Payload: m.Data}
	}
	return out
}

// withDepends puts what a message depends on in front of its data: how many
// numbers, then the numbers.
func withDepends(m channel.Message) []byte {
	b := make([]byte, 0, len(m.Data)+1+len(m.Depends)*2)
	b = binary.AppendUvarint(b, uint64(len(m.Depends)))
	for _, n := range m.Depends {
		b = binary.AppendUvarint(b, n)
	}
	return append(b, m.Data...)
}

// splitDepends is the inverse; the results are copies.
func splitDepends(b []byte) (depends []uint64, data []byte, err error) {
	next := func() (v uint64) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err = errors.New("ends early")
			return 0
		}
		b = b[n:]
		return v
	}
	count := next()
	if count > uint64(len(b)) {
		return nil, nil, errors.New("ends early")
	}
	for range count {
		depends = append(depends, next())
	}
	return depends, bytes.Clone(b), err
}

// channelFrames returns the frames in a log from one on, as channel.Restore takes
// them. The reader uses the memory of a frame again.
func channelFrames(r *msglog.Reader) func() (channel.Frame, error) {
	return func() (channel.Frame, error) {
		for {
			_, f, err := r.Next()
			if err != nil {
				return channel.Frame{}, err
			}
			switch f.Kind {
			case msglog.Message:
				m := channel.Message{Context: f.Context, Tag: f.Tag, Seq: f.Seq}
				if m.Depends, m.Data, err = splitDepends(f.Payload); err != nil {
					return channel.Frame{}, fmt.Errorf("message %d of rank %d: %w", f.Seq, f.Peer, err)
				}
				return channel.Frame{Kind: channel.Received, Peer: int(f.Peer), Message: m}, nil
			case msglog.Order:
				return channel.Frame{Kind: channel.Match, Peer: int(f.Peer), Number: f.Order, Message: channel.Message{Seq: f.Seq}}, nil
			case msglog.Cut:
				return channel.Frame{Kind: channel.Cut, Peer: int(f.Peer), Message: channel.Message{Data: bytes.Clone(f.Payload)}}, nil
			}
		}
	}
}

// emptyLogs removes what an earlier history has left in the message logs of ranks.
func emptyLogs(fsys vfs.FS, job *image.Job, ranks []int) error {
	for _, rank := range ranks {
		dir := logDir(job, rank)
		files, err := fsys.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := fsys.Remove(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// loggedStates returns the states that a rank can be put into by replaying its log
// from checkpoint number, 0 the beginning.
func loggedStates(ctx context.Context, fsys vfs.FS, job *image.Job, rank, np, number int, kind channel.Kind) ([]channel.Vector, error) {
	st := &channel.State{Kind: kind, Rank: rank, Size: np, Kept: make([][]channel.Message, np),
		Vector: channel.Vector{Sent: make([]uint64, np), Received: make([]uint64, np), Depends: make([]uint64, np)}}
	from := msglog.LSN(0)
	if number > 0 {
		saved, err := readChannels(ctx, job, number, rank)
		if err != nil {
			return nil, err
		}
		if st, err = channel.Decode(saved.state); err != nil {
			return nil, err
		}
		from = msglog.LSN(saved.logFrom)
	}
	r, _, err := msglog.OpenReader(fsys, logDir(job, rank), msglog.ID{Job: job.Name(), Rank: rank}, from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it never logged anything
	}
	if err != nil {
		return nil, err
	}
	states, err := st.Logged(channelFrames(r))
	return states, errors.Join(err, r.Close())
}
