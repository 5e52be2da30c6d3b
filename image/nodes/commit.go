package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// Describe returns what the manifest of a version says of the tier. Hosts, by node, may be
// nil.
func (t *Tier) Describe(hosts []string) *image.Tier {
	return &image.Tier{Dir: t.setting.Dir, Protect: t.setting.Protect.String(), Domains: slices.Clone(t.setting.Domains), Hosts: slices.Clone(hosts)}
}

// Commit makes a version exist: it checks that each node has what it should, makes the
// names durable on all nodes, and only then writes the manifest on each of them. When it
// returns nil the version survives a loss of power of all nodes, and what its protection
// promises. When it fails the version is withdrawn as far as the nodes can be reached; its
// number must not be used again, as one that cannot be reached may have kept a manifest.
//
// It fills in m.ID and m.Tier if they are empty, and what image.Tx.Commit fills in.
func (t *Tier) Commit(ctx context.Context, m *image.Manifest) error {
	if m.ID == "" {
		m.ID = image.NewID()
	}
	if m.Tier == nil {
		m.Tier = t.Describe(nil)
	}
	err := t.commit(ctx, m)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("commit version %d: %w", m.Number, err)
	return errors.Join(append([]error{err}, t.withdraw(m.Number)...)...)
}

func (t *Tier) commit(ctx context.Context, m *image.Manifest) error {
	if m.Number < 1 {
		return errors.New("versions count from 1")
	}
	for _, n := range t.topology.NodeOf {
		if t.nodes[n].FS == nil {
			return nodeError(n, ErrUnreachable)
		}
	}
	parts := partsOf(m)
	if err := errors.Join(t.each(func(node int) error { return nodeError(node, t.complete(ctx, node, m.Number, parts)) })...); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// The commit point is the first manifest; the promise takes all of them. A manifest is
	// filled in by whoever writes it.
	filled := make([]image.Manifest, len(t.nodes))
	err := errors.Join(t.each(func(node int) error {
		j, err := t.look(node)
		if err != nil {
			return err
		}
		filled[node] = *m
		filled[node].Files = slices.Clone(m.Files)
		return nodeError(node, j.Announce(&filled[node]))
	})...)
	if err == nil {
		*m = filled[t.topology.NodeOf[0]]
	}
	return err
}

// complete checks that a node has its parts of a version, and makes the names durable.
func (t *Tier) complete(ctx context.Context, node, number int, parts []part) error {
	j, err := t.look(node)
	if err != nil && errors.Is(err, fs.ErrNotExist) && !slices.Contains(t.topology.NodeOf, node) {
		j, err = t.place(node) // a node without ranks keeps the manifest
	}
	if err != nil {
		return err
	}
	if err := makeDir(j, number); err != nil {
		return err
	}
	for _, part := range parts {
		if part.node != node {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := part.there(j); err != nil {
			return err
		}
	}
	dir := j.NumberDir(number)
	return durable.Op("sync", dir, -1, j.FS().SyncDir(dir))
}

// withdraw removes the manifests of a version from all nodes, durably.
func (t *Tier) withdraw(number int) []error {
	return t.eachJob(func(_ int, j *image.Job) error { return j.Withdraw(number) })
}

// Discard removes what the nodes have of a version that was not committed.
func (t *Tier) Discard(number int) error { return t.Reclaim(number) }

// Reclaim removes a version from all nodes that can be reached: its manifests first, on
// all of them, then the files. After an error it may be called again.
func (t *Tier) Reclaim(number int) error {
	if err := errors.Join(t.withdraw(number)...); err != nil {
		return fmt.Errorf("reclaim version %d: %w", number, err)
	}
	err := errors.Join(t.eachJob(func(_ int, j *image.Job) error { return wipe(j, number) })...)
	if err != nil {
		return fmt.Errorf("reclaim version %d: %w", number, err)
	}
	return nil
}

// DrainOptions say how the file of a rank goes into the store.
type DrainOptions struct {
	Limit *Limiter        // of what is written; may be nil
	Since *container.Base // in the store, that the copy may refer to; nil: it is complete
}

// DrainFile copies the file of a rank from its node into the store, at the path that its
// transaction gives, and checks each byte on the way. It returns the entry of the copy when
// the data is durable; the name becomes so with the commit.
//
// A drain that did not come to an end may have left the file: it is made anew.
func DrainFile(ctx context.Context, from *image.Job, f container.File, to vfs.FS, path string, how DrainOptions) (container.File, error) {
	if err := durable.Remove(to, path); err != nil {
		return f, err
	}
	return from.Place().CopySince(ctx, f, to, path, how.Since, container.CopyOptions{Pace: how.Limit.Wait})
}

// Job returns the job in the directory of a node, as DrainFile takes it. It fails with
// fs.ErrNotExist if the node does not have the job.
func (t *Tier) Job(node int) (*image.Job, error) { return t.look(node) }

// A Clock is the time, which tests replace.
type Clock struct {
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// RealClock returns the clock of the machine.
func RealClock() Clock { return Clock{Now: time.Now, Sleep: sleep} }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A Limiter keeps what several goroutines write below a rate.
type Limiter struct {
	rate  int64
	clock Clock

	mu   sync.Mutex
	free time.Time // when what has been let through is through, at the rate
}

// limitBurst is how much time may be made up for: a limiter that has been idle lets so
// much through at once.
const limitBurst = 100 * time.Millisecond

// NewLimiter returns a limiter of so many bytes per second; nil, which does not limit, if
// rate is 0.
func NewLimiter(rate int64, clock Clock) *Limiter {
	if rate <= 0 {
		return nil
	}
	return &Limiter{rate: rate, clock: clock}
}

// On returns a file system that takes bytes at the rate. Without ctx nothing is written any more.
func (l *Limiter) On(ctx context.Context, fsys vfs.FS) vfs.FS {
	if l == nil {
		return fsys
	}
	return pacedFS{vfs.Through(fsys), func(n int) error { return l.Wait(ctx, n) }}
}

type pacedFS struct {
	vfs.Buffered
	wait func(bytes int) error
}

func (f pacedFS) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return pacedFile{vfs.Only(file), f.wait}, nil
}

type pacedFile struct {
	vfs.Plain
	wait func(bytes int) error
}

func (f pacedFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.wait(len(b)); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

// Wait waits until n more bytes may be written.
func (l *Limiter) Wait(ctx context.Context, n int) error {
	if l == nil {
		return ctx.Err()
	}
	d := l.reserve(n)
	if d <= 0 {
		return ctx.Err()
	}
	return l.clock.Sleep(ctx, d)
}

// reserve returns how long to wait before n bytes are written.
func (l *Limiter) reserve(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if oldest := now.Add(-limitBurst); l.free.Before(oldest) {
		l.free = oldest
	}
	l.free = l.free.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	return l.free.Sub(now)
}
