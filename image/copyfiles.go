package image

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// extra lists the checkpoints in the other store that are not among these.
func (c *JobCopy) extra(numbers []int) ([]int, error) {
	have, err := c.to.Checkpoints()
	return slices.DeleteFunc(have, func(n int) bool { return slices.Contains(numbers, n) }), err
}

// dropOthers takes back the checkpoints of an exact copy that are not among these.
func (c *JobCopy) dropOthers(numbers []int) (err error) {
	if !c.Exact {
		return nil
	}
	if c.Removed, err = c.extra(numbers); err != nil {
		return err
	}
	return c.to.Drop(c.Removed...)
}

// removeOthers removes from an exact copy what is not in a directory of the job.
func (c *JobCopy) removeOthers(dir string, there map[string]bool) error {
	if !c.Exact {
		return nil
	}
	entries, err := c.to.fs.ReadDir(filepath.Join(c.to.dir, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		remove := durable.Remove
		if e.IsDir() {
			remove = durable.RemoveAll
		}
		if err == nil && !there[e.Name()] && !c.notCopied(dir, e) {
			err = remove(c.to.fs, filepath.Join(c.to.dir, dir, e.Name()))
		}
	}
	return err
}

// notCopied reports whether each store has an entry of a directory of the job by itself.
func (c *JobCopy) notCopied(dir string, e fs.DirEntry) bool {
	_, numbered := container.ParseNumber(e.Name())
	return dir == "" && (numbered || slices.Contains([]string{specName, lockName, RecordName, RunName, NextName}, e.Name())) ||
		strings.HasSuffix(e.Name(), durable.TempSuffix) || !e.IsDir() && !e.Type().IsRegular()
}

// others copies the files that belong to no checkpoint: journals, results, message logs, traces.
func (c *JobCopy) others(ctx context.Context, dir string) error {
	entries, err := c.From.fs.ReadDir(filepath.Join(c.From.dir, dir))
	if err != nil {
		return durable.Op("list", filepath.Join(c.From.dir, dir), -1, err)
	}
	there := make(map[string]bool)
	for _, e := range entries {
		there[e.Name()] = true
	}
	if err := c.removeOthers(dir, there); err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case c.notCopied(dir, e):
		case e.IsDir():
			err = c.others(ctx, path)
		default:
			err = c.other(ctx, path)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // a running job has removed it
			}
		}
		if err != nil {
			return err
		}
	}
	err = c.to.fs.SyncDir(filepath.Join(c.to.dir, dir))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // nothing was copied there
	}
	return err
}

// other copies a file of no checkpoint, unless the copy is the same.
func (c *JobCopy) other(ctx context.Context, path string) error {
	a, err := c.From.fs.Open(filepath.Join(c.From.dir, path))
	if err != nil {
		return durable.Op("open", filepath.Join(c.From.dir, path), -1, err)
	}
	defer a.Close()
	if b, err := c.to.fs.Open(filepath.Join(c.to.dir, path)); err == nil {
		defer b.Close()
		n, err := a.Size()
		if m, merr := b.Size(); err == nil && merr == nil && n == m && sameBytes(a, b, n) {
			return nil
		}
	}
	return c.file(ctx, path, true)
}

// copyBytes is how much of a file is read at a time.
const copyBytes = 1 << 20

// file copies a file of the job, unless the other store has it and it is not to be replaced. It
// gets its name once it is durable.
func (c *JobCopy) file(ctx context.Context, path string, replace bool) (err error) {
	name := filepath.Join(c.to.dir, path)
	if _, err := c.to.fs.Stat(name); err == nil && !replace {
		return nil
	}
	if err := durable.MkdirAll(c.to.fs, filepath.Dir(name)); err != nil {
		return durable.Op("create", filepath.Dir(name), -1, err)
	}
	from, err := c.From.fs.Open(filepath.Join(c.From.dir, path))
	if err != nil {
		return durable.Op("open", filepath.Join(c.From.dir, path), -1, err)
	}
	defer from.Close()
	temp := name + durable.TempSuffix
	if err := durable.Remove(c.to.fs, temp); err != nil {
		return err
	}
	into, err := c.to.fs.Create(temp)
	if err != nil {
		return durable.Op("create", temp, -1, err)
	}
	n, err := c.bytes(ctx, into, from, temp, filepath.Join(c.From.dir, path))
	if err == nil {
		err = durable.Op("sync", temp, -1, into.Sync())
	}
	if cerr := into.Close(); err == nil {
		err = durable.Op("close", temp, -1, cerr)
	}
	if err == nil {
		err = durable.Op("rename", temp, -1, c.to.fs.Rename(temp, name))
	}
	if err != nil {
		return errors.Join(err, durable.Remove(c.to.fs, temp))
	}
	c.Files++
	c.Bytes += n
	return nil
}

// bytes copies the bytes of a file, of which blocks of zeros become holes where the file system
// has them.
func (c *JobCopy) bytes(ctx context.Context, into, from vfs.File, name, source string) (n int64, err error) {
	b := make([]byte, copyBytes)
	end := int64(0) // of what was written
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := from.ReadAt(b, n)
		if err != nil && err != io.EOF {
			return n, durable.ReadError(source, n, err)
		}
		if !codec.IsZero(b[:k]) {
			if err := durable.WriteAt(into, name, b[:k], n); err != nil {
				return n, err
			}
			end = n + int64(k)
		}
		n += int64(k)
		if c.Progress != nil {
			c.Progress(int64(k))
		}
		if err == io.EOF || k == 0 {
			break
		}
	}
	if end == n {
		return n, nil
	}
	// The file ends in zeros.
	return n, durable.WriteAt(into, name, []byte{0}, n-1)
}
