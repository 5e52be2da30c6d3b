package objectfs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"ckpt/internal/durable"
)

// Memory is a bucket in memory with the consistency of S3: each request takes effect at one
// moment between its beginning and its answer. Times are told in whole seconds.
type Memory struct {
	*contents
	// meddle, if not nil, hears of each request before it is carried out, and says what becomes
	// of it.
	meddle func(op, key string) Fate
}

type contents struct {
	clock   func() time.Time
	mu      sync.Mutex
	objects map[string]stored
	uploads map[string]*begun
	count   int
}

// A Fate is what becomes of a request.
type Fate struct {
	Err  error // the answer in place of its own
	Done bool  // it is carried out all the same
	Cut  bool  // the body of its answer ends early
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

var _ Bucket = (*Memory)(nil)

// NewMemory returns an empty bucket.
func NewMemory(clock func() time.Time) *Memory {
	return &Memory{contents: &contents{clock: clock, objects: map[string]stored{}, uploads: map[string]*begun{}}}
}

// As returns the same bucket for a client that something happens to.
func (m *Memory) As(meddle func(op, key string) Fate) *Memory { return &Memory{m.contents, meddle} }

func (m *Memory) now() time.Time { return m.clock().Truncate(time.Second) }

func (m *Memory) next() string {
	m.count++
	return fmt.Sprintf("%08d", m.count)
}

// request carries a request out, unless Meddle says otherwise.
func (m *Memory) request(ctx context.Context, op, key string, do func() error) (cut bool, err error) {
	var fate Fate
	if m.meddle != nil {
		fate = m.meddle(op, key)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if fate.Err != nil && !fate.Done {
		return false, fate.Err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err = do()
	if fate.Err != nil {
		err = fate.Err
	}
	return fate.Cut, err
}

func (m *Memory) object(key string) Object {
	s := m.objects[key]
	return Object{Key: key, Size: int64(len(s.b)), Tag: s.tag, Mark: s.mark, Modified: s.at, Now: m.now()}
}

func missing(key string) error { return fmt.Errorf("%s: %w", key, fs.ErrNotExist) }

// Head implements Bucket.
func (m *Memory) Head(ctx context.Context, key string) (o Object, err error) {
	_, err = m.request(ctx, "head", key, func() error {
		if _, ok := m.objects[key]; !ok {
			return missing(key)
		}
		o = m.object(key)
		return nil
	})
	return o, err
}

// Get implements Bucket.
func (m *Memory) Get(ctx context.Context, key string, off, n int64, tag string) (body io.ReadCloser, o Object, err error) {
	var b []byte
	cut, err := m.request(ctx, "get", key, func() error {
		s, ok := m.objects[key]
		if !ok {
			return missing(key)
		}
		if tag != "" && s.tag != tag {
			return ErrPrecondition
		}
		o = m.object(key)
		size := int64(len(s.b))
		b = s.b[min(off, size):min(off+n, size)]
		return nil
	})
	if err != nil {
		return nil, Object{}, err
	}
	if cut {
		b = b[:len(b)/2]
	}
	return io.NopCloser(bytes.NewReader(b)), o, nil
}

// Put implements Bucket.
func (m *Memory) Put(ctx context.Context, key string, b []byte, mark string, c Condition) (o Object, err error) {
	_, err = m.request(ctx, "put", key, func() error {
		o, err = m.put(key, bytes.Clone(b), mark, c)
		return err
	})
	return o, err
}

func (m *Memory) put(key string, b []byte, mark string, c Condition) (Object, error) {
	was, is := m.objects[key]
	if c.New && is || c.Tag != "" && is && was.tag != c.Tag {
		return Object{}, ErrPrecondition
	}
	if c.Tag != "" && !is {
		return Object{}, missing(key)
	}
	m.objects[key] = stored{b, m.next(), mark, m.now()}
	return m.object(key), nil
}

// Delete implements Bucket.
func (m *Memory) Delete(ctx context.Context, key string) error {
	_, err := m.request(ctx, "delete", key, func() error {
		delete(m.objects, key)
		return nil
	})
	return err
}

// List implements Bucket.
func (m *Memory) List(ctx context.Context, prefix, from string, deep bool, most int) (page Page, err error) {
	_, err = m.request(ctx, "list", prefix, func() error {
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
	_, err = m.request(ctx, "begin", key, func() error {
		id = m.next()
		m.uploads[id] = &begun{key, mark, m.now(), map[int][]byte{}}
		return nil
	})
	return id, err
}

// Part implements Bucket.
func (m *Memory) Part(ctx context.Context, key, id string, number int, b []byte, _ uint32) (p Part, err error) {
	_, err = m.request(ctx, "part", key, func() error {
		u := m.uploads[id]
		if u == nil {
			return missing(id)
		}
		u.parts[number] = bytes.Clone(b)
		p = Part{number, m.next(), durable.Sum(b)}
		return nil
	})
	return p, err
}

// Complete implements Bucket.
func (m *Memory) Complete(ctx context.Context, key, id string, parts []Part, c Condition) (o Object, err error) {
	_, err = m.request(ctx, "complete", key, func() error {
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
	_, err := m.request(ctx, "abort", key, func() error {
		if m.uploads[id] == nil {
			return missing(id)
		}
		delete(m.uploads, id)
		return nil
	})
	return err
}

// Uploads implements Bucket.
func (m *Memory) Uploads(ctx context.Context, prefix string) (all []Upload, err error) {
	_, err = m.request(ctx, "uploads", prefix, func() error {
		for id, u := range m.uploads {
			if strings.HasPrefix(u.key, prefix) {
				all = append(all, Upload{u.key, id, u.at})
			}
		}
		return nil
	})
	return all, err
}
