package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// WriteLibrary stores the library zone of the program that the ranks run, once
// for the job, and returns the entry for the manifests of its checkpoints. Number
// is that of the checkpoint which needs it first; until that has been committed,
// Sweep removes the file. It needs the lock.
func (j *Job) WriteLibrary(ctx context.Context, number int, regions []zones.Region, opt container.WriteOptions) (container.File, error) {
	j.mu.Lock()
	err := j.locked("write library to")
	j.mu.Unlock()
	if err != nil {
		return container.File{}, err
	}
	dir := j.numberDir(container.JobNumber)
	if err := durable.Mkdir(j.fs, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return container.File{}, durable.Op("write library to", dir, -1, err)
	}
	name := filepath.Join(dir, fmt.Sprintf("library-%d.img", number))
	h := container.Header{Job: j.name, Number: container.JobNumber, Rank: -1, Node: -1, Kind: container.KindLibrary}
	info, err := container.Write(ctx, j.fs, name, h, regions, opt)
	if err != nil {
		return container.File{}, err
	}
	return container.File{Path: container.JobPath(name), Kind: container.KindLibrary, Ranks: []int{}, Node: -1, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}, nil
}
