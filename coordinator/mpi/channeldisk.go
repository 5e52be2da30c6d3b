package mpi

import (
	"context"
	"fmt"
	"math"
	"slices"

	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol/channel"
)

// OnDisk makes a message log in files the Log of a rank. Its owner may append marks
// and outputs of its own to it; FromDisk leaves them out. The log is closed after
// the Comm.
//
// The frames are kept as follows. A message is a msglog.Message; its Order is the
// number of ranks in its Depends, 8 bytes each, which come before the message in
// the payload: 0 but with Optimistic. A match is a msglog.Order, with its number as
// Order. A cut is a msglog.Mark whose Seq is no checkpoint, 2⁶⁴−1.
func OnDisk(l *msglog.Log) Log { return diskLog{l} }

type diskLog struct{ *msglog.Log }

const cutMark = math.MaxUint64

func (l diskLog) Append(f channel.Frame) (uint64, error) {
	m := &f.Message
	out := msglog.Frame{Kind: msglog.Message, Peer: int32(f.Peer), Tag: m.Tag, Context: m.Context, Seq: m.Seq, Payload: m.Data}
	switch f.Kind {
	case channel.Received:
		if len(m.Depends) > 0 {
			out.Order = uint64(len(m.Depends))
			out.Payload = append(appendNumbers(make([]byte, 0, 8*len(m.Depends)+len(m.Data)), m.Depends), m.Data...)
		}
	case channel.Match:
		out.Kind, out.Order, out.AnySource = msglog.Order, f.Number, true
	case channel.Cut:
		out.Kind, out.Peer, out.Seq = msglog.Mark, -1, cutMark
	}
	lsn, err := l.Log.Append(out)
	return uint64(lsn), err
}

func (l diskLog) Wait(ctx context.Context, lsn uint64) error {
	return l.Log.Wait(ctx, msglog.LSN(lsn))
}

func (l diskLog) Next() uint64 { return uint64(l.Log.Next()) }

// FromDisk turns what a reader of a message log returns, its Next, into the frames
// that Restored wants. The caller closes the reader.
func FromDisk(next func() (msglog.LSN, msglog.Frame, error)) func() (channel.Frame, error) {
	return func() (channel.Frame, error) {
		for {
			lsn, in, err := next()
			if err != nil {
				return channel.Frame{}, err
			}
			f := channel.Frame{Peer: int(in.Peer), Message: channel.Message{Context: in.Context, Tag: in.Tag, Seq: in.Seq}}
			switch {
			case in.Kind == msglog.Message:
				f.Kind = channel.Received
				if !validEnvelope(f.Message) {
					return channel.Frame{}, fmt.Errorf("frame %d of the message log: %w: a message with tag %d in context %d", lsn, ErrCorrupt, in.Tag, in.Context)
				}
				head := in.Order
				if head > uint64(len(in.Payload))/8 {
					return channel.Frame{}, fmt.Errorf("frame %d of the message log: %w: a message of %d bytes that depends on %d ranks", lsn, ErrCorrupt, len(in.Payload), head)
				}
				if head > 0 {
					f.Message.Depends = decodeNumbers(in.Payload[:8*head])
				}
				f.Message.Data = slices.Clone(in.Payload[8*head:])
			case in.Kind == msglog.Order:
				f.Kind, f.Number = channel.Match, in.Order
			case in.Kind == msglog.Mark && in.Seq == cutMark:
				f.Kind, f.Message.Data = channel.Cut, slices.Clone(in.Payload)
			default:
				continue
			}
			return f, nil
		}
	}
}
