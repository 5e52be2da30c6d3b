package image

import (
	"context"
	"fmt"
	"slices"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// place is where the container files of the job lie.
func (j *Job) place() container.Place {
	return container.Place{FS: j.fs, Dir: j.dir, Job: j.name, Device: j.device}
}

// file returns the one of m.Files that has the path.
func (m *Manifest) file(path string) (container.File, error) {
	i := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Path == path })
	if i < 0 {
		return container.File{}, durable.Op("open", path, -1, fmt.Errorf("checkpoint %d has no such file", m.Number))
	}
	return m.Files[i], nil
}

// Load reads the regions of a rank out of one of m.Files, named by its path, as
// container.Place.Load does.
func (j *Job) Load(ctx context.Context, m *Manifest, path string, rank int, into []zones.Region, opt container.LoadOptions) error {
	f, err := m.file(path)
	if err != nil {
		return err
	}
	return j.place().Load(ctx, f, rank, into, opt)
}

// Check verifies some of the files of a checkpoint, named by their paths in
// m.Files, as Load would but without keeping what it reads. It returns the
// first damage found, as Load does.
func (j *Job) Check(ctx context.Context, m *Manifest, paths []string) error {
	for _, path := range paths {
		f, err := m.file(path)
		if err == nil {
			err = j.place().Check(ctx, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// RegionBytes returns the size of a region of a rank in the container file path, one
// of m.Files; 0 if it has no region of this name. It fails as Load does.
func (j *Job) RegionBytes(m *Manifest, path string, rank int, name string) (int64, error) {
	f, err := m.file(path)
	if err != nil {
		return 0, err
	}
	regions, err := j.place().Regions(f)
	for _, r := range regions {
		if r.Name == name && r.Of(rank) {
			return r.Size, nil
		}
	}
	return 0, err
}

// EachRegion calls f for each region of the data zone in a checkpoint, with the rank
// that has it, until f fails.
func (j *Job) EachRegion(m *Manifest, f func(rank int, name string) error) error {
	for _, file := range m.Files {
		regions, err := j.place().Regions(file)
		if err != nil {
			return err
		}
		for _, r := range regions {
			if r.Zone != zones.Data {
				continue
			}
			if err := f(r.Rank, r.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Open opens one of m.Files, named by its path, and the files it refers to.
func (j *Job) Open(m *Manifest, path string) (*container.Contents, error) {
	f, err := m.file(path)
	if err != nil {
		return nil, err
	}
	return j.place().Open(f)
}

// Tally counts the bytes of one of m.Files, named by its path, by region.
func (j *Job) Tally(m *Manifest, path string) (*container.Tally, error) {
	f, err := m.file(path)
	if err != nil {
		return nil, err
	}
	return j.place().Tally(f)
}

// Recall fills h with what a file of checkpoint m holds of a rank, so that the
// first checkpoint after a restart can refer to it.
func (j *Job) Recall(h *container.History, m *Manifest, path string, rank int) error {
	f, err := m.file(path)
	if err != nil {
		return err
	}
	return h.Recall(j.place(), f, m.Number, rank)
}

// AddTo puts the extents of checkpoint m into the pool.
func (j *Job) AddTo(p *container.Pool, m *Manifest) error {
	return p.Add(j.place(), m.Number, m.Files)
}
