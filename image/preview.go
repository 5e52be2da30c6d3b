package image

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"ckpt/image/container"
	"ckpt/internal/durable"
)

// PrunePreview returns what Prune would remove and set free, and changes nothing. It
// needs no lock. Without it, another process may be writing a checkpoint: then what lies
// after the newest checkpoint does not count as debris.
func (j *Job) PrunePreview(keep int, also ...int) (remove []int, freed int64, err error) {
	c := j.readCatalog()
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return nil, 0, durable.Op("list", j.dir, -1, err)
	}
	look, err := j.reconcile(c, entries)
	if err != nil {
		return nil, 0, err
	}
	remove = j.selection(c.numbers, keep, also)
	if !j.ours() && len(c.numbers) > 0 {
		newest := c.numbers[len(c.numbers)-1]
		look = slices.DeleteFunc(look, func(n int) bool { return n > newest })
	}
	for _, n := range remove {
		c.remove(n)
	}
	look = distinct(append(look, remove...))
	floor := j.complete(c)
	used, unknown := j.used(c, look)
	floor = max(floor, unknown)
	for _, n := range look {
		if n <= floor {
			continue
		}
		bytes, err := j.unused(n, used)
		if err != nil {
			return nil, 0, err
		}
		freed += bytes
	}
	return remove, freed, nil
}

// ours reports whether this process has the lock.
func (j *Job) ours() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lock != nil
}

// unused adds up what a numbered directory holds and no checkpoint uses.
func (j *Job) unused(n int, used map[string]bool) (bytes int64, err error) {
	entries, err := j.fs.ReadDir(j.numberDir(n))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // removed this moment
	}
	if err != nil {
		return 0, durable.Op("list", j.numberDir(n), -1, err)
	}
	for _, e := range entries {
		if used[path.Join(container.FormatNumber(n), e.Name())] || e.Name() == manifestName {
			continue // Prune does not count manifests
		}
		if fi, err := e.Info(); err == nil {
			bytes += onDisk(fi)
		}
	}
	return bytes, nil
}
