package objectfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	mathrand "math/rand/v2"
	"time"

	"ckpt/internal/durable"
)

// Retries of a request: pauses double from firstPause to longestPause, each drawn between
// nothing and itself, so that processes that failed together do not come back together.
const (
	attempts     = 9
	firstPause   = 50 * time.Millisecond
	longestPause = 10 * time.Second
	patience     = 2 * time.Minute // for all attempts of a request together
)

// slowest is the least speed that a request may have, beside patienceOnce.
const (
	slowest      = 1 << 20 // bytes a second
	patienceOnce = 20 * time.Second
)

// client repeats requests, and finds out what became of those without an answer.
type client struct {
	b     Bucket
	sleep func(context.Context, time.Duration) error
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// do carries a request out, which moves some bytes, again while it fails for a time.
func (c *client) do(ctx context.Context, bytes int64, request func(context.Context) error) error {
	begin := time.Now()
	for i, pause := 1, firstPause; ; i, pause = i+1, min(2*pause, longestPause) {
		once, cancel := context.WithTimeout(ctx, patienceOnce+time.Duration(bytes/slowest)*time.Second)
		err := request(once)
		cancel()
		if !errors.Is(err, ErrTransient) || ctx.Err() != nil {
			return err
		}
		if i == attempts || time.Since(begin) > patience {
			return fmt.Errorf("%w (after %d attempts)", err, i)
		}
		if serr := c.sleep(ctx, mathrand.N(pause)+1); serr != nil {
			return errors.Join(err, serr)
		}
	}
}

// newMark returns what tells a writing from all others.
func newMark() string { return rand.Text() }

func (c *client) head(ctx context.Context, key string) (o Object, err error) {
	err = c.do(ctx, 0, func(ctx context.Context) error {
		o, err = c.b.Head(ctx, key)
		return err
	})
	return o, err
}

// get reads len(b) bytes of a version, or up to the end of the object.
func (c *client) get(ctx context.Context, key string, b []byte, off int64, tag string) (o Object, n int, err error) {
	err = c.do(ctx, int64(len(b)), func(ctx context.Context) error {
		body, now, err := c.b.Get(ctx, key, off+int64(n), int64(len(b)-n), tag)
		if err != nil {
			return err
		}
		if o, tag = now, now.Tag; off >= o.Size {
			return body.Close()
		}
		want := int(min(int64(len(b)), o.Size-off))
		k, err := io.ReadFull(body, b[n:want])
		n += k
		if cerr := body.Close(); err == nil && n == want {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("%w: %d of %d bytes of %s came: %w", ErrTransient, n, want, key, err)
		}
		return nil
	})
	return o, n, err
}

// put writes an object. ErrPrecondition means that somebody else has written it.
func (c *client) put(ctx context.Context, key string, b []byte, when Condition) (o Object, err error) {
	mark := newMark()
	err = c.do(ctx, int64(len(b)), func(ctx context.Context) error {
		o, err = c.b.Put(ctx, key, b, mark, when)
		if err == nil || when == (Condition{}) {
			return err
		}
		o, err = c.settle(ctx, key, mark, when, err)
		return err
	})
	return o, err
}

// settle finds out what became of a conditional writing that failed: it was carried out if the
// object has its mark. An object as it was before, or none, does not explain the refusal.
func (c *client) settle(ctx context.Context, key, mark string, when Condition, failed error) (Object, error) {
	if !errors.Is(failed, ErrPrecondition) {
		return Object{}, failed // an attempt that was carried out meets itself
	}
	o, err := c.b.Head(ctx, key)
	switch {
	case err == nil && o.Mark == mark:
		return o, nil
	case err == nil && when.Tag != "" && o.Tag == when.Tag, when.New && errors.Is(err, fs.ErrNotExist):
		return Object{}, fmt.Errorf("%w: it refuses to write %s, where nothing has changed", ErrTransient, key)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return Object{}, failed
	}
	return Object{}, err
}

// delete removes an object. It is doubted if an attempt had no answer, and may be carried out later.
func (c *client) delete(ctx context.Context, key string) (doubted bool, err error) {
	err = c.do(ctx, 0, func(ctx context.Context) error {
		err := c.b.Delete(ctx, key)
		doubted = doubted || errors.Is(err, ErrTransient)
		return err
	})
	return doubted, err
}

// list lists all objects of a prefix, up to most.
func (c *client) list(ctx context.Context, prefix string, deep bool, most int) (all Page, err error) {
	for {
		var page Page
		err := c.do(ctx, 0, func(ctx context.Context) error {
			page, err = c.b.List(ctx, prefix, all.Next, deep, most)
			return err
		})
		if err != nil {
			return Page{}, err
		}
		all.Objects = append(all.Objects, page.Objects...)
		all.Prefixes = append(all.Prefixes, page.Prefixes...)
		if all.Next = page.Next; all.Next == "" || len(all.Objects)+len(all.Prefixes) >= most {
			return all, nil
		}
	}
}

func (c *client) begin(ctx context.Context, key, mark string) (id string, err error) {
	err = c.do(ctx, 0, func(ctx context.Context) error {
		id, err = c.b.Begin(ctx, key, mark)
		return err
	})
	return id, err
}

// part uploads a part, and checks that what arrived is what was sent.
func (c *client) part(ctx context.Context, key, id string, number int, b []byte) (p Part, err error) {
	sum := durable.Sum(b)
	err = c.do(ctx, int64(len(b)), func(ctx context.Context) error {
		p, err = c.b.Part(ctx, key, id, number, b, sum)
		if err == nil && p.Sum != sum {
			err = fmt.Errorf("%w: part %d of %s has CRC-32C %08x there, %08x here", ErrTransient, number, key, p.Sum, sum)
		}
		return err
	})
	return p, err
}

// complete makes an object of the parts. An attempt without an answer may have been carried
// out: the upload has gone then.
func (c *client) complete(ctx context.Context, key, id, mark string, parts []Part, when Condition) (o Object, err error) {
	err = c.do(ctx, int64(bits.Len(uint(len(parts))))<<20, func(ctx context.Context) error {
		o, err = c.b.Complete(ctx, key, id, parts, when)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			there, herr := c.b.Head(ctx, key)
			if herr == nil && there.Mark == mark {
				o, err = there, nil
			} else if herr != nil && !errors.Is(herr, fs.ErrNotExist) {
				err = herr
			}
		case err != nil:
			o, err = c.settle(ctx, key, mark, when, err)
		}
		return err
	})
	return o, err
}

func (c *client) abort(ctx context.Context, key, id string) error {
	err := c.do(ctx, 0, func(ctx context.Context) error { return c.b.Abort(ctx, key, id) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (c *client) uploads(ctx context.Context, prefix string) (all []Upload, err error) {
	err = c.do(ctx, 0, func(ctx context.Context) error {
		all, err = c.b.Uploads(ctx, prefix)
		return err
	})
	return all, err
}
