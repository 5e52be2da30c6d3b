package nodes

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
)

// Sweep removes from the nodes what belongs to none of some versions: the remains of those
// that were not committed, or not reclaimed to the end, and files that were not complete.
// It comes before the first version of a run is begun. A directory with a manifest that
// cannot be read stays: a newer ckpt may have written it.
func (t *Tier) Sweep(ctx context.Context, versions []Version) []error {
	known := make(map[int]bool)
	for _, v := range versions {
		known[v.Number] = true
	}
	var errs []error
	for _, err := range t.each(func(node int) error { return nodeError(node, t.sweep(ctx, node, known)) }) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (t *Tier) sweep(ctx context.Context, node int, known map[int]bool) error {
	j, err := t.look(node)
	if Lost(err) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := j.FS().ReadDir(j.Dir())
	if err != nil {
		return durable.Op("list", j.Dir(), -1, err)
	}
	for _, e := range entries {
		n, ok := container.ParseNumber(e.Name())
		if !ok || !e.IsDir() {
			if strings.HasPrefix(e.Name(), tryPrefix) {
				_ = durable.Remove(j.FS(), filepath.Join(j.Dir(), e.Name())) // a trial that was cut short
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if known[n] {
			err = sweepIncomplete(j, n)
		} else if _, serr := j.FS().Stat(j.FilePath(manifestPath(n))); errors.Is(serr, fs.ErrNotExist) {
			err = wipe(j, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepIncomplete removes files of a version that were not complete.
func sweepIncomplete(j *image.Job, number int) error {
	dir := j.NumberDir(number)
	entries, err := j.FS().ReadDir(dir)
	if err != nil {
		return durable.Op("list", dir, -1, err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), durable.TempSuffix) {
			if err := durable.Remove(j.FS(), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
