package image

import (
	"context"
	"fmt"
	"slices"

	"ckpt/internal/durable"
)

// Check verifies some of the files of a checkpoint, named by their paths in
// m.Files, as Load would but without keeping what it reads. It returns the
// first damage found, as Load does.
func (j *Job) Check(ctx context.Context, m *Manifest, paths []string) error {
	for _, path := range paths {
		i := slices.IndexFunc(m.Files, func(f File) bool { return f.Path == path })
		if i < 0 {
			return durable.Op("check", path, -1, fmt.Errorf("checkpoint %d has no such file", m.Number))
		}
		if err := j.check(ctx, m, m.Files[i]); err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) check(ctx context.Context, m *Manifest, f File) error {
	c, err := j.openFile(m, f)
	if err != nil {
		return err
	}
	defer c.Close()
	return j.readAll(ctx, c, &reader{depth: 1})
}
