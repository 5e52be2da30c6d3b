package image

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/internal/durable"
)

// Plan says what Run would do now, and changes nothing. To may be nil: a store that is not made
// yet has nothing.
func (c *JobCopy) Plan(numbers []int) (Copied, error) {
	c.Copied, c.to, c.first = Copied{}, nil, nil
	if c.To != nil {
		if err := c.find(); err != nil && !errors.Is(err, ErrJobNotFound) {
			return Copied{}, err
		}
	}
	var missing []*Manifest
	var err error
	for again := true; again && err == nil; {
		again = false
		c.Copied = Copied{Damaged: c.Damaged, Forbidden: c.Forbidden}
		missing, err = c.wanted(numbers)
		for _, m := range missing {
			lost := c.lost(m)
			if lost == nil && c.to != nil {
				lost = c.to.forbidden(m.Number)
			}
			again = lost != nil && c.leavesOut(m.Number, len(numbers), lost) || again
		}
	}
	for _, m := range missing {
		c.Checkpoints = append(c.Checkpoints, m.Number)
	}
	c.Files, c.Bytes = c.weigh(missing)
	return c.Copied, cmp.Or(err, c.first)
}

// lost says which file of a checkpoint is nowhere, or has no index. The copy tells what else is wrong.
func (c *JobCopy) lost(m *Manifest) error {
	paths, err := c.From.pathsOf(m)
	if damage := (*durable.DamageError)(nil); errors.As(err, &damage) {
		return err
	}
	for _, path := range paths {
		if c.to != nil {
			if _, err := c.to.fs.Stat(filepath.Join(c.to.dir, path)); err == nil {
				continue
			}
		}
		name := filepath.Join(c.From.dir, path)
		if _, err := c.From.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return durable.Damaged(name, 0, "the file is missing")
		}
	}
	return nil
}

// weigh counts the files of checkpoints that the other store lacks, and their bytes. An index that
// cannot be read names none: the copy tells.
func (c *JobCopy) weigh(list []*Manifest) (files int, total int64) {
	seen := make(map[string]bool)
	for _, m := range list {
		paths, _ := c.From.pathsOf(m)
		for _, path := range paths {
			if seen[path] {
				continue
			}
			seen[path] = true
			if c.to != nil {
				if _, err := c.to.fs.Stat(filepath.Join(c.to.dir, path)); err == nil {
					continue
				}
			}
			if fi, err := c.From.fs.Stat(filepath.Join(c.From.dir, path)); err == nil {
				files++
				total += fi.Size()
			}
		}
	}
	return files, total
}

// wanted returns the manifests of the checkpoints that the other store lacks and would keep. It
// fails if the histories of the two have parted.
func (c *JobCopy) wanted(numbers []int) ([]*Manifest, error) {
	missing, err := c.missing(numbers)
	if err == nil && c.to != nil {
		err = c.continues()
	}
	if err == nil && c.Exact && c.to != nil {
		c.Removed, err = c.extra(numbers)
	}
	if err != nil || c.Keep == (Retention{}) {
		return missing, err
	}
	var list []Summary
	if c.to != nil {
		if list, err = c.to.counted(nil); err != nil {
			return nil, err
		}
	}
	lacks := make(map[int]bool)
	for _, m := range missing {
		lacks[m.Number] = true
		list = append(list, m.Summary())
	}
	slices.SortFunc(list, func(a, b Summary) int { return a.Number - b.Number })
	// A copy is sound, or it fails.
	olds, reasons := c.Keep.olds(list, func(n int) bool { return lacks[n] || c.to.sound(n) == nil })
	for i, s := range list {
		switch n := s.Number; {
		case reasons[n] != "":
			c.Retained = append(c.Retained, Reason{n, reasons[n]})
		case i < olds && lacks[n]:
			c.LeftOut = append(c.LeftOut, n)
		case i < olds:
			c.Removed = append(c.Removed, n)
		}
	}
	return slices.DeleteFunc(missing, func(m *Manifest) bool { return slices.Contains(c.LeftOut, m.Number) }), nil
}
