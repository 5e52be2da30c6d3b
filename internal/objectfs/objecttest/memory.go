// Package objecttest has a bucket in memory, for tests of what stands on one.
package objecttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/objectfs"
)

// Memory is a bucket in memory with the consistency of S3: each request takes effect at one
// moment between its beginning and its answer. Times are told in whole seconds.
type Memory struct {
	clock   func() time.Time
	mu      sync.Mutex
	objects map[string]stored
	uploads map[string]*begun
	count   int
}

type stored struct {
	b    []byte
	tag  string
	mark string
	at   time.Time
}

type begun struct {
	key, mark string
	at        time.Time
	parts     map[int][]byte
}

var _ objectfs.Bucket = (*Memory)(nil)

// NewMemory returns an empty bucket.
func NewMemory(clock func() time.Time) *Memory {
	return &Memory{clock: clock, objects: map[string]stored{}, uploads: map[string]*begun{}}
}

// Clone returns a bucket with the same objects and uploads.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{clock: m.clock, objects: maps.Clone(m.objects), uploads: map[string]*begun{}, count: m.count}
	for id, u := range m.uploads {
		c.uploads[id] = &begun{u.key, u.mark, u.at, maps.Clone(u.parts)}
	}
	return c
}

func (m *Memory) now() time.Time { return m.clock().Truncate(time.Second) }

func (m *Memory) next() string {
	m.count++
	return fmt.Sprintf("%08d", m.count)
}

// request carries a request out at one moment.
func (m *Memory) request(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return do()
}

func (m *Memory) object(key string) objectfs.Object {
	s := m.objects[key]
	return objectfs.Object{Key: key, Size: int64(len(s.b)), Tag: s.tag, Mark: s.mark, Modified: s.at, Now: m.now()}
}

func missing(key string) error { return fmt.Errorf("%s: %w", key, fs.ErrNotExist) }

// Head implements Bucket.
func (m *Memory) Head(ctx context.Context, key string) (o objectfs.Object, err error) {
	err = m.request(ctx, func() error {
		if _, ok := m.objects[key]; !ok {
			return missing(key)
		}
		o = m.object(key)
		return nil
	})
	return o, err
}

// Get implements Bucket.
func (m *Memory) Get(ctx context.Context, key string, off, n int64, tag string) (body io.ReadCloser, o objectfs.Object, err error) {
	var b []byte
	err = m.request(ctx, func() error {
		s, ok := m.objects[key]
		if !ok {
			return missing(key)
		}
		if tag != "" && s.tag != tag {
			return objectfs.ErrPrecondition
		}
		o = m.object(key)
		size := int64(len(s.b))
		b = s.b[min(off, size):min(off+n, size)]
		return nil
	})
	if err != nil {
		return nil, objectfs.Object{}, err
	}
	return io.NopCloser(bytes.NewReader(b)), o, nil
}

// Put implements Bucket.
func (m *Memory) Put(ctx context.Context, key string, b []byte, mark string, c objectfs.Condition) (o objectfs.Object, err error) {
	err = m.request(ctx, func() error {
		o, err = m.put(key, bytes.Clone(b), mark, c)
		return err
	})
	return o, err
}

func (m *Memory) put(key string, b []byte, mark string, c objectfs.Condition) (objectfs.Object, error) {
	was, is := m.objects[key]
	if c.New && is || c.Tag != "" && is && was.tag != c.Tag {
		return objectfs.Object{}, objectfs.ErrPrecondition
	}
	if c.Tag != "" && !is {
		return objectfs.Object{}, missing(key)
	}
	m.objects[key] = stored{b, m.next(), mark, m.now()}
	return m.object(key), nil
}

// Delete implements Bucket.
func (m *Memory) Delete(ctx context.Context, key string) error {
	return m.request(ctx, func() error {
		delete(m.objects, key)
		return nil
	})
}

// List implements Bucket.
func (m *Memory) List(ctx context.Context, prefix, from string, deep bool, most int) (page objectfs.Page, err error) {
	err = m.request(ctx, func() error {
		var keys []string
		for key := range m.objects {
			if strings.HasPrefix(key, prefix) && key > from {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			rest := key[len(prefix):]
			i := strings.IndexByte(rest, '/')
			if deep || i < 0 {
				page.Objects = append(page.Objects, m.object(key))
			} else if dir := prefix + rest[:i+1]; !slices.Contains(page.Prefixes, dir) {
				page.Prefixes = append(page.Prefixes, dir)
			}
			if len(page.Objects)+len(page.Prefixes) >= min(most, 1000) {
				page.Next = key
				if n := len(page.Prefixes); n > 0 && strings.HasPrefix(key, page.Prefixes[n-1]) {
					page.Next = page.Prefixes[n-1] + "\xff"
				}
				break
			}
		}
		return nil
	})
	return page, err
}

// Begin implements Bucket.
func (m *Memory) Begin(ctx context.Context, key, mark string) (id string, err error) {
	err = m.request(ctx, func() error {
		id = m.next()
		m.uploads[id] = &begun{key, mark, m.now(), map[int][]byte{}}
		return nil
	})
	return id, err
}

// Part implements Bucket.
func (m *Memory) Part(ctx context.Context, key, id string, number int, b []byte, _ uint32) (p objectfs.Part, err error) {
	err = m.request(ctx, func() error {
		u := m.uploads[id]
		if u == nil {
			return missing(id)
		}
		u.parts[number] = bytes.Clone(b)
		p = objectfs.Part{Number: number, Tag: m.next(), Sum: durable.Sum(b)}
		return nil
	})
	return p, err
}

// Complete implements Bucket.
func (m *Memory) Complete(ctx context.Context, key, id string, parts []objectfs.Part, c objectfs.Condition) (o objectfs.Object, err error) {
	err = m.request(ctx, func() error {
		u := m.uploads[id]
		if u == nil {
			return missing(id)
		}
		var all []byte
		for _, p := range parts {
			all = append(all, u.parts[p.Number]...)
		}
		if o, err = m.put(key, all, u.mark, c); err == nil {
			delete(m.uploads, id)
		}
		return err
	})
	return o, err
}

// Abort implements Bucket.
func (m *Memory) Abort(ctx context.Context, key, id string) error {
	err := m.request(ctx, func() error {
		if m.uploads[id] == nil {
			return missing(id)
		}
		delete(m.uploads, id)
		return nil
	})
	return err
}

// Uploads implements Bucket.
func (m *Memory) Uploads(ctx context.Context, prefix string) (all []objectfs.Upload, err error) {
	err = m.request(ctx, func() error {
		for id, u := range m.uploads {
			if strings.HasPrefix(u.key, prefix) {
				all = append(all, objectfs.Upload{Key: u.key, ID: id, Begun: u.at})
			}
		}
		return nil
	})
	return all, err
}
