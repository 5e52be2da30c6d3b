package objecttest

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"ckpt/internal/objectfs"
)

// A World is a bucket whose clock a test moves, and the requests that have not arrived there yet.
type World struct {
	bucket objectfs.Bucket

	mu      sync.Mutex
	ahead   time.Duration            // of the clock
	written map[string]time.Duration // how far it was ahead when an object was written
	late    []func() error
}

// NewWorld returns the world of a bucket.
func NewWorld(b objectfs.Bucket) *World {
	return &World{bucket: b, written: map[string]time.Duration{}}
}

// Forward moves the clock.
func (w *World) Forward(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
}

// Arrive has the requests that are late take effect. Nobody hears of their answers.
func (w *World) Arrive() {
	w.mu.Lock()
	all := w.late
	w.late = nil
	w.mu.Unlock()
	for _, do := range all {
		_ = do()
	}
}

// told returns what is said of an object.
func (w *World) told(o objectfs.Object, err error) (objectfs.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.Now = o.Now.Add(w.ahead); !o.Modified.IsZero() {
		o.Modified = o.Modified.Add(w.written[o.Key])
	}
	return o, err
}

// wrote is told for an object that was written.
func (w *World) wrote(o objectfs.Object, err error) (objectfs.Object, error) {
	if err == nil {
		w.mu.Lock()
		w.written[o.Key] = w.ahead
		w.mu.Unlock()
	}
	return w.told(o, err)
}

// A Fate is what becomes of a request.
type Fate struct {
	Err  error // the answer in place of its own
	Done bool  // it is carried out all the same
	Late bool  // it is carried out when the world calls Arrive
	Cut  bool  // the body of its answer ends early
}

// client is a bucket as one process uses it.
type client struct {
	objectfs.Bucket
	world  *World
	meddle func(op, key string) Fate
}

// As returns the bucket for a process. Meddle, if not nil, hears of each request before it is
// carried out, and says what becomes of it.
func (w *World) As(meddle func(op, key string) Fate) objectfs.Bucket {
	return &client{w.bucket, w, meddle}
}

// ask carries a request out, unless meddle says otherwise.
func (c *client) ask(op, key string, do func() error) (cut bool, err error) {
	var f Fate
	if c.meddle != nil {
		f = c.meddle(op, key)
	}
	if f.Late {
		c.world.mu.Lock()
		defer c.world.mu.Unlock()
		c.world.late = append(c.world.late, do)
		return false, f.Err
	}
	if f.Err == nil || f.Done {
		err = do()
	}
	if f.Err != nil {
		err = f.Err
	}
	return f.Cut, err
}

func (c *client) Head(ctx context.Context, key string) (o objectfs.Object, err error) {
	_, err = c.ask("head", key, func() (err error) {
		o, err = c.world.told(c.Bucket.Head(ctx, key))
		return err
	})
	return o, err
}

func (c *client) Get(ctx context.Context, key string, off, n int64, tag string) (body io.ReadCloser, o objectfs.Object, err error) {
	cut, err := c.ask("get", key, func() (err error) {
		body, o, err = c.Bucket.Get(ctx, key, off, n, tag)
		o, err = c.world.told(o, err)
		return err
	})
	if err != nil {
		if body != nil {
			body.Close()
		}
		return nil, objectfs.Object{}, err
	}
	if cut {
		body = short{io.LimitReader(body, n/3), body}
	}
	return body, o, nil
}

// short is a body that ends early.
type short struct {
	io.Reader
	io.Closer
}

func (c *client) Put(ctx context.Context, key string, b []byte, mark string, when objectfs.Condition) (o objectfs.Object, err error) {
	ctx, b = context.WithoutCancel(ctx), bytes.Clone(b)
	_, err = c.ask("put", key, func() (err error) {
		o, err = c.world.wrote(c.Bucket.Put(ctx, key, b, mark, when))
		return err
	})
	return o, err
}

func (c *client) Delete(ctx context.Context, key string) error {
	ctx = context.WithoutCancel(ctx)
	_, err := c.ask("delete", key, func() error { return c.Bucket.Delete(ctx, key) })
	return err
}

func (c *client) List(ctx context.Context, prefix, from string, deep bool, most int) (page objectfs.Page, err error) {
	_, err = c.ask("list", prefix, func() (err error) {
		page, err = c.Bucket.List(ctx, prefix, from, deep, most)
		return err
	})
	return page, err
}

func (c *client) Begin(ctx context.Context, key, mark string) (id string, err error) {
	ctx = context.WithoutCancel(ctx)
	_, err = c.ask("begin", key, func() (err error) {
		id, err = c.Bucket.Begin(ctx, key, mark)
		return err
	})
	return id, err
}

func (c *client) Part(ctx context.Context, key, id string, number int, b []byte, sum uint32) (p objectfs.Part, err error) {
	ctx, b = context.WithoutCancel(ctx), bytes.Clone(b)
	_, err = c.ask("part", key, func() (err error) {
		p, err = c.Bucket.Part(ctx, key, id, number, b, sum)
		return err
	})
	return p, err
}

func (c *client) Complete(ctx context.Context, key, id string, parts []objectfs.Part, when objectfs.Condition) (o objectfs.Object, err error) {
	ctx = context.WithoutCancel(ctx)
	_, err = c.ask("complete", key, func() (err error) {
		o, err = c.world.wrote(c.Bucket.Complete(ctx, key, id, parts, when))
		return err
	})
	return o, err
}

func (c *client) Abort(ctx context.Context, key, id string) error {
	ctx = context.WithoutCancel(ctx)
	_, err := c.ask("abort", key, func() error { return c.Bucket.Abort(ctx, key, id) })
	return err
}

func (c *client) Uploads(ctx context.Context, prefix string) (all []objectfs.Upload, err error) {
	_, err = c.ask("uploads", prefix, func() (err error) {
		all, err = c.Bucket.Uploads(ctx, prefix)
		return err
	})
	return all, err
}
