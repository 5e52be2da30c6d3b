package filecache

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync"

	"ckpt/internal/durable"
)

// A held file is one that this daemon is the home of: it opens, stores and closes it for the
// programs of all nodes.
type held struct {
	mu    sync.Mutex
	file  *File        // nil while no program uses it
	users map[int]bool // nodes whose programs use it
}

// home returns the daemon that holds a file.
func (d *Daemon) home(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % uint32(len(d.cache.Nodes)))
}

// hold returns a held file, locked.
func (d *Daemon) hold(name string) *held {
	d.mu.Lock()
	h := d.held[name]
	if h == nil {
		h = &held{users: make(map[int]bool)}
		d.held[name] = h
	}
	d.mu.Unlock()
	h.mu.Lock()
	return h
}

// enter notes that programs of a node use a file, which the first one opens.
func (d *Daemon) enter(ctx context.Context, m Message) (Answer, error) {
	h := d.hold(m.Name)
	defer h.mu.Unlock()
	if h.file == nil {
		f, err := d.open(ctx, m.Name)
		if err != nil {
			return Answer{}, err
		}
		h.file = f
	}
	h.users[m.From] = true
	return Answer{}, nil
}

// open opens a file on all nodes, and clears the remains of an opening that failed.
func (d *Daemon) open(ctx context.Context, name string) (*File, error) {
	if d.peers != nil {
		if err := d.peers.Reach(ctx); err != nil {
			return nil, err
		}
	}
	f, err := d.cache.Open(ctx, name, d.opt)
	if !errors.Is(err, ErrUnfinished) {
		return f, err
	}
	if _, _, serr := d.cache.survey(name, &Recovery{}); !errors.Is(serr, ErrNothing) {
		return nil, err
	}
	return d.cache.Open(ctx, name, d.opt)
}

// leave notes that no program of a node uses a file any more, and closes it after the last one.
func (d *Daemon) leave(ctx context.Context, m Message) (Answer, error) {
	h := d.hold(m.Name)
	defer h.mu.Unlock()
	delete(h.users, m.From)
	if len(h.users) > 0 || h.file == nil {
		return Answer{}, nil
	}
	return Answer{}, d.paused(ctx, h.file, func(dirty bool) (int64, error) {
		h.file.dirty.Store(dirty)
		err := h.file.Close(ctx)
		if h.file.closed {
			h.file = nil
		}
		return -1, err
	})
}

// settle stores a file, if programs have written to it since the store had it.
func (d *Daemon) settle(ctx context.Context, m Message) (Answer, error) {
	h := d.hold(m.Name)
	defer h.mu.Unlock()
	if h.file == nil {
		return Answer{}, ErrAbandoned
	}
	return Answer{}, d.paused(ctx, h.file, func(dirty bool) (int64, error) {
		if !dirty {
			return -1, nil
		}
		if err := h.file.Sync(ctx); err != nil {
			return -1, err
		}
		return h.file.end.Load(), nil
	})
}

// resize cuts a file. Without versions the store is cut first, while the journals are empty, so
// that they never repeat what was written before into a shorter file.
func (d *Daemon) resize(ctx context.Context, m Message) (Answer, error) {
	h := d.hold(m.Name)
	defer h.mu.Unlock()
	f := h.file
	if f == nil {
		return Answer{}, ErrAbandoned
	}
	return Answer{}, d.paused(ctx, f, func(dirty bool) (int64, error) {
		if m.Length >= f.end.Load() {
			return -1, nil
		}
		versions := f.opt.Levels.Versions
		if dirty && !versions {
			if err := f.Sync(ctx); err != nil {
				return -1, err
			}
		}
		if !versions {
			if err := f.cutStored(m.Length); err != nil {
				return -1, err
			}
		}
		if err := f.cut(ctx, m.Length); err != nil {
			return -1, err
		}
		if versions {
			if err := f.Sync(ctx); err != nil {
				return -1, err
			}
		}
		return m.Length, nil
	})
}

// cutStored makes the file in the store shorter.
func (f *File) cutStored(length int64) error {
	path := f.cache.Store.path(f.name)
	s, err := f.cache.Store.FS.OpenWrite(path)
	if missing(err) {
		return nil
	}
	if err != nil {
		return durable.Op("open", path, -1, err)
	}
	n, err := s.Size()
	if err == nil && n > length {
		err = s.Truncate(length)
	}
	if err == nil {
		err = s.Sync()
	}
	return errors.Join(durable.Op("truncate", path, length, err), s.Close())
}

// cut has all managers drop what is behind the end.
func (f *File) cut(ctx context.Context, length int64) error {
	err := f.cache.each(func(i int) error {
		_, err := f.call(ctx, i, Request{Kind: Cut, Process: -1, Source: -1, Length: length})
		return err
	})
	if err == nil {
		f.end.Store(length)
	}
	return err
}

// paused does something while no request of any node is under way. It returns the length that
// all nodes go on with if the store has all bytes, or -1.
func (d *Daemon) paused(ctx context.Context, f *File, do func(dirty bool) (int64, error)) (err error) {
	n := len(d.cache.Nodes)
	dirty := make([]bool, n)
	length := int64(-1)
	defer func() {
		rerr := d.cache.each(func(i int) error {
			_, err := d.ask(ctx, i, Message{Verb: Resume, Name: f.name, Length: length})
			return err
		})
		err = errors.Join(err, rerr)
	}()
	err = d.cache.each(func(i int) error {
		a, err := d.ask(ctx, i, Message{Verb: Pause, Name: f.name})
		dirty[i] = a.Dirty
		return err
	})
	if err == nil {
		f.end.Store(0) // managers know
		_, err = f.size(ctx)
	}
	if err != nil {
		return err
	}
	length, err = do(f.dirty.Load() || slices.Contains(dirty, true))
	return err
}

// abandon ends a file, as home and as member.
func (d *Daemon) abandon(name string) error {
	var err error
	if d.home(name) == d.node {
		h := d.hold(name)
		if h.file != nil {
			h.file.gate.Lock()
			h.file.closed = true
			h.file.gate.Unlock()
		}
		h.file, h.users = nil, make(map[int]bool)
		h.mu.Unlock()
	}
	if m := d.takeMember(name); m != nil {
		err = m.end(ErrAbandoned)
	}
	return err
}
