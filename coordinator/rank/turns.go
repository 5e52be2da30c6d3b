package rank

import (
	"context"
	"sync"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// newTurns returns the client with which a rank takes turns on the storage of the store. All
// ranks of a job count as one application.
func newTurns(fsys vfs.FS, cfg *wire.Welcome, rank int) *turns.Client {
	return turns.NewClient(cfg.StoreDir, turns.Who{App: job.TurnsName(cfg.StoreDir, cfg.Job), Rank: rank}, turns.ClientOptions{FS: fsys})
}

// A turn is the right of one burst to the storage, with the time that it was waited for.
type turn struct {
	*turns.Turn
	release func() bool
	trace   *container.Tracing // records the waits; may be nil
	file    string

	mu   sync.Mutex
	held time.Duration
	last time.Time // end of the newest wait
}

// begin asks for a turn without waiting: the operations on its file system wait, until ctx is
// done. Without a client all bytes pass.
func begin(ctx context.Context, c *turns.Client, trace *container.Tracing, b turns.Burst) *turn {
	t := &turn{trace: trace, file: b.File}
	b.Waited = t.waited
	t.Turn = c.Begin(b)
	t.release = context.AfterFunc(ctx, func() { t.Turn.End() })
	return t
}

func (t *turn) waited(from, to time.Time) {
	t.trace.Waited(t.file, from, to)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held += to.Sub(from)
	t.last = to
}

func (t *turn) total() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}

// began is when an operation began that was asked for at start and has ended: after the newest
// wait, if it waited.
func (t *turn) began(start time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.After(start) && t.last.Before(time.Now()) {
		return t.last
	}
	return start
}

func (t *turn) end() turns.Report {
	t.release()
	return t.End()
}

// writing asks for a turn to write regions for a checkpoint, and sets the options that depend on
// it. It is expected to write as much as the last of its kind, since zeros and unchanged pages
// are not written, and codecs pack.
func (s *state) writing(ctx context.Context, order wire.WriteOrder, regions []zones.Region, opt *container.WriteOptions) *turn {
	bytes, known := s.wrote[opt.Base == 0]
	if !known {
		for _, r := range regions {
			bytes += int64(len(r.Mem))
		}
	}
	path := order.Rank
	if len(order.Group) > 0 {
		path = order.Group[0]
	}
	t := begin(ctx, s.turns, opt.Trace, turns.Burst{Kind: turns.Checkpoint, File: container.JobPath(path), Bytes: bytes})
	if s.turns == nil {
		return t
	}
	opt.Held = t.total
	if opt.Trace != nil {
		traced := *opt.Trace
		traced.Held = t.began
		opt.Trace = &traced
	}
	return t
}

// wroteIn ends the turn of a checkpoint. The bytes of an aborted one say nothing of the next.
func (s *state) wroteIn(t *turn, complete bool, report *wire.WriteReport, err error) {
	told := t.end()
	if err == nil {
		s.wrote[complete] = told.Bytes
	}
	report.TurnWait, report.TurnPassed = t.total(), told.Passed
}

// reading asks for a turn to read a checkpoint out of the store, until done is called. The
// directory of a node belongs to another storage.
func (s *state) reading(ctx context.Context, m *image.Manifest) (done func()) {
	if s.turns == nil || s.images != s.job {
		return func() {}
	}
	t := begin(ctx, s.turns, nil, turns.Burst{Kind: turns.Restart, File: container.JobPath(job.ManifestPath(s.job, m.Number)),
		Bytes: m.StoredBytes / int64(s.spec.NP)})
	stored := s.job
	s.images = stored.Through(t.FS(s.fs))
	s.job = s.images
	return func() {
		told := t.end()
		s.images, s.job = stored, stored
		s.restored.TurnWait, s.restored.TurnPassed = t.total(), told.Passed
	}
}
