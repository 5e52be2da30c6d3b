package mpi

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"

	"ckpt/coordinator/protocol/channel"
)

// A memLog is a log on a disk that forgets what was not synced when its process
// dies, and that is full now and then.
type memLog struct {
	mu      sync.Mutex
	rng     *rand.Rand
	first   uint64 // number of frames[0]
	frames  []channel.Frame
	durable int // frames that are
	broken  bool
	faulty  bool // it fails now and then
	fails   int
}

var errDiskFull = errors.New("the disk is full")

func (l *memLog) Append(f channel.Frame) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return 0, errDiskFull
	}
	f.Message.Data = slices.Clone(f.Message.Data)
	l.frames = append(l.frames, f)
	return l.first + uint64(len(l.frames)) - 1, nil
}

func (l *memLog) Next() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first + uint64(len(l.frames))
}

func (l *memLog) Wait(ctx context.Context, lsn uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.broken:
		return errDiskFull
	case l.faulty && l.rng.IntN(20) == 0:
		l.broken = true
		l.fails++
		l.frames = l.frames[:l.durable]
		return errDiskFull
	}
	l.durable = len(l.frames)
	return nil
}

func (l *memLog) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = l.rng.IntN(3) == 0
	if l.broken {
		return errDiskFull
	}
	return nil
}

// crash is the death of the process that had the log.
func (l *memLog) crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durable += l.rng.IntN(len(l.frames) - l.durable + 1)
	l.frames, l.broken = l.frames[:l.durable], false
}

func (l *memLog) truncate(before uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := int(before - l.first); n > 0 {
		l.frames, l.first, l.durable = slices.Clone(l.frames[n:]), before, l.durable-n
	}
}

func (l *memLog) read() func() (channel.Frame, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	frames := slices.Clone(l.frames[:l.durable])
	return func() (channel.Frame, error) {
		if len(frames) == 0 {
			return channel.Frame{}, io.EOF
		}
		f := frames[0]
		frames = frames[1:]
		return f, nil
	}
}
