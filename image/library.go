package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// WriteLibrary stores the library zone of the program that the ranks run, once
// for the job, and returns the entry for the manifests of its checkpoints. Number
// is that of the checkpoint which needs it first; until that has been committed,
// Sweep removes the file, and another attempt at the checkpoint replaces it. It needs
// the lock. The file is written through fsys, which is that of the job or one around it.
func (j *Job) WriteLibrary(ctx context.Context, fsys vfs.FS, number int, regions []zones.Region, opt container.WriteOptions) (container.File, error) {
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
	name := filepath.Join(dir, libraryName(number))
	if _, err := j.fs.Stat(j.manifestPath(number)); errors.Is(err, fs.ErrNotExist) {
		if err := durable.Remove(j.fs, name); err != nil {
			return container.File{}, err
		}
	}
	h := container.Header{Job: j.name, Number: container.JobNumber, Rank: -1, Node: -1, Kind: container.KindLibrary}
	info, err := container.Write(ctx, fsys, name, h, regions, opt)
	if err != nil {
		return container.File{}, err
	}
	return container.File{Path: container.JobPath(name), Kind: container.KindLibrary, Ranks: []int{}, Node: -1, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}, nil
}

// libraryName names the image of the library by the checkpoint that needs it first.
func libraryName(number int) string { return fmt.Sprintf("library-%d.img", number) }

// WroteLibrary reports whether f is the library zone, stored once for the job, and was
// written for this checkpoint.
func (m *Manifest) WroteLibrary(f container.File) bool {
	return f.Path == container.JobPath(filepath.Join(container.FormatNumber(container.JobNumber), libraryName(m.Number)))
}
