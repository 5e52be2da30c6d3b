package dmtcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
	"ckpt/zones/source"
)

// Options are the settings of Import.
type Options struct {
	// Progress, if not nil, is told the bytes read since its last call, one call at a time.
	Progress func(int64)
	// Notice, if not nil, gets errors that do not stop the import: the previous checkpoint is
	// damaged, so that no extent refers to it.
	Notice func(error)
	// Describe, if not nil, completes the manifest before the checkpoint counts.
	Describe func(*image.Manifest)
	// Codec packs what is stored; nil: nothing is packed.
	Codec *container.Codec
}

// Import stores the files as the next checkpoint of job, which is locked. After an error
// nothing of it remains; a zones.FormatError says that an image is damaged or has changed.
func (s *Set) Import(ctx context.Context, job *image.Job, opt Options) (*image.Manifest, error) {
	latest, err := job.Latest()
	if err != nil {
		return nil, err
	}
	tx, err := job.Begin(latest + 1)
	if err != nil {
		return nil, err
	}
	m, err := s.Write(ctx, job, tx, opt)
	if err != nil {
		return nil, errors.Join(err, tx.Abort())
	}
	return m, tx.Commit(ctx, m)
}

// Write writes the files into a checkpoint that was begun, and returns its manifest.
func (s *Set) Write(ctx context.Context, job *image.Job, tx *image.Tx, opt Options) (*image.Manifest, error) {
	pool, err := poolOf(ctx, job, opt)
	if err != nil {
		return nil, err
	}
	im := &importer{set: s, job: job, tx: tx, pool: pool, opt: opt, shared: make(map[int]*container.Builder),
		m: &image.Manifest{Mode: "coordinated", Origin: Origin, NP: s.NP, Mapping: s.Mapping}}
	if err := im.run(ctx); err != nil {
		return nil, errors.Join(err, im.discard())
	}
	if opt.Describe != nil {
		opt.Describe(im.m)
	}
	return im.m, nil
}

// poolOf knows the extents of the newest checkpoint, if that is sound: a new checkpoint must
// not depend on damage. Verifying takes about as long as storing one image and the changes of
// the others.
func poolOf(ctx context.Context, job *image.Job, opt Options) (*container.Pool, error) {
	pool := container.NewPool()
	latest, err := job.Latest()
	if latest == 0 || err != nil {
		return pool, err
	}
	report, err := job.Verify(ctx, latest, nil)
	if err != nil {
		return nil, err
	}
	if len(report.Damage) > 0 {
		d := report.Damage[0]
		err = &durable.DamageError{File: d.File, Offset: d.Offset, Reason: d.Reason}
	} else {
		var m *image.Manifest
		if m, err = job.Manifest(latest); err == nil {
			err = job.AddTo(pool, m)
		}
	}
	var damage *durable.DamageError
	if errors.As(err, &damage) {
		if opt.Notice != nil {
			opt.Notice(fmt.Errorf("the import shares nothing with checkpoint %d: %w", latest, err))
		}
		return container.NewPool(), nil
	}
	return pool, err
}

type importer struct {
	set  *Set
	job  *image.Job
	tx   *image.Tx
	pool *container.Pool
	opt  Options
	m    *image.Manifest
	cat  catalog

	library *container.Builder // nil if not needed yet
	shared  map[int]*container.Builder
	packs   []*opened // of the library and of the shared segments
	images  []*opened // of the processes, then of the files
}

// opened is a container file that is being written.
type opened struct {
	*container.Builder
	file container.File
}

func (im *importer) run(ctx context.Context) error {
	im.cat = catalog{Format: 1, Origin: Origin}
	for i := range im.set.Images {
		img := &im.set.Images[i]
		if err := im.image(ctx, i, img); err != nil {
			return err
		}
		im.describe(img)
	}
	if err := im.beside(ctx); err != nil {
		return err
	}
	// Close the files before those that refer to them.
	for _, o := range slices.Concat(im.packs, im.images) {
		info, err := o.Close()
		if err != nil {
			return err
		}
		o.file.Bytes, o.file.IndexBlake3 = info.Bytes, info.IndexBlake3
		im.m.Files = append(im.m.Files, o.file)
	}
	for i := range im.m.Ranks {
		r := &im.m.Ranks[i]
		r.File = im.rel(im.tx.RankPath(r.Rank))
		if im.set.Images[i].packed {
			r.File = im.rel(im.tx.FilesPath())
		}
		if b := im.shared[r.Node]; b != nil {
			r.Shared = im.rel(im.tx.SharedPath(r.Node))
		}
		if im.library != nil {
			r.Library = im.rel(im.tx.LibraryPath())
		}
	}
	return nil
}

// describe enters a process into the manifest.
func (im *importer) describe(img *Image) {
	m := im.m
	if t := img.info.ModTime().UTC(); t.After(m.Created) {
		m.Created = t
	}
	if img.Role != zones.RoleRank {
		return
	}
	if m.App == "" {
		m.App, m.MPI = img.Name, img.MPI
	}
	sizes := img.Sizes()
	m.Ranks = append(m.Ranks, image.Rank{Rank: img.Rank, Node: img.Node, Zones: sizes})
	m.Bytes = m.Bytes.Plus(sizes)
}

func (im *importer) rel(path string) string {
	rel, err := filepath.Rel(im.job.Dir(), path)
	if err != nil {
		return path // the manifest will not accept it
	}
	return filepath.ToSlash(rel)
}

// build begins a container file.
func (im *importer) build(path, kind string, rank, node int, ranks []int) (*opened, error) {
	b, err := im.tx.Build(path, container.Header{Job: im.job.Name(), Number: im.tx.Number(), Rank: rank, Node: node, Kind: kind}, im.pool)
	if err != nil {
		return nil, err
	}
	b.Pack(im.opt.Codec)
	return &opened{b, container.File{Path: im.rel(path), Kind: kind, Ranks: ranks, Node: node}}, nil
}

// discard removes the files that are not complete.
func (im *importer) discard() error {
	var errs []error
	for _, o := range slices.Concat(im.packs, im.images) {
		errs = append(errs, o.Discard())
	}
	return errors.Join(errs...)
}

// pack returns the file that collects the extents of a class, nil if they stay with their
// process.
func (im *importer) pack(c zones.Class, node int) (*container.Builder, error) {
	var all []int
	switch c {
	case zones.ClassOf(zones.Library), zones.Runtime:
		if im.library != nil {
			return im.library, nil
		}
		for r := range im.set.NP {
			all = append(all, r)
		}
		o, err := im.build(im.tx.LibraryPath(), container.KindLibrary, -1, -1, all)
		if err != nil {
			return nil, err
		}
		im.packs = append(im.packs, o)
		im.library = o.Builder
		return im.library, o.Region(packRegion, zones.Library, 0)
	case zones.ClassOf(zones.Shared):
		if b := im.shared[node]; b != nil || node < 0 {
			return b, nil
		}
		for _, img := range im.set.Images[:im.set.NP] {
			if img.Node == node {
				all = append(all, img.Rank)
			}
		}
		o, err := im.build(im.tx.SharedPath(node), container.KindShared, -1, node, all)
		if err != nil {
			return nil, err
		}
		im.packs = append(im.packs, o)
		im.shared[node] = o.Builder
		return o.Builder, o.Region(packRegion, zones.Shared, 0)
	}
	return nil, nil
}

// beside stores packed images, the files beside the images, and the catalog of all.
func (im *importer) beside(ctx context.Context) error {
	o, err := im.build(im.tx.FilesPath(), container.KindFiles, -1, -1, nil)
	if err != nil {
		return err
	}
	im.images = append(im.images, o)
	for _, img := range im.set.Images {
		if !img.packed {
			continue
		}
		e, err := im.entry(img.Path, img.info, packedEntry)
		if err == nil {
			err = im.file(ctx, o, img.Path, img.info, zones.Data, &e)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range im.set.files {
		t := fileEntry
		switch {
		case f.info.IsDir():
			t = dirEntry
		case f.target != "":
			t = linkEntry
		}
		e, err := im.entry(f.path, f.info, t)
		if err != nil {
			return err
		}
		e.Target = fileName(f.target)
		if t != fileEntry {
			im.cat.Entries = append(im.cat.Entries, e)
			continue
		}
		zone := zones.Library // no memory
		if source.IsCompanion(filepath.Dir(f.path)) {
			zone = zones.Shared
		}
		if err := im.file(ctx, o, f.path, f.info, zone, &e); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(im.cat, "", "  ")
	if err != nil {
		return err
	}
	if len(text) > maxCatalog {
		return fmt.Errorf("the list of %d files is %d bytes long, limit %d", len(im.cat.Entries), len(text), maxCatalog)
	}
	return o.Aside(catalogRegion, zones.Library, text)
}

// file stores a file as a region of files.img.
func (im *importer) file(ctx context.Context, o *opened, path string, info fs.FileInfo, zone zones.Zone, e *entry) error {
	if err := o.Region(e.Path.region(), zone, e.Bytes); err != nil {
		return err
	}
	sum, _, err := run(ctx, func(p *pipeline) error { return p.whole(path, e.Bytes) }, func(x *piece) error {
		if im.opt.Progress != nil {
			im.opt.Progress(int64(len(x.buf)))
		}
		_, err := o.Extent(x.buf, x.id)
		return err
	})
	if err == nil {
		err = unchanged(path, info)
	}
	e.Blake3 = sum
	im.cat.Entries = append(im.cat.Entries, *e)
	return err
}

// unchanged checks that a file is as it was found: a copy of one that was written to meanwhile
// is of no moment in time.
func unchanged(path string, was fs.FileInfo) error {
	is, err := os.Stat(path)
	if err != nil {
		return err
	}
	if is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime()) {
		return &zones.FormatError{File: path, Reason: "the file has changed while it was read"}
	}
	return nil
}

func (im *importer) entry(path string, info os.FileInfo, t entryType) (entry, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return entry{}, err
	}
	rel, err := filepath.Rel(im.set.base, abs)
	if err != nil {
		return entry{}, err
	}
	const kept = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	e := entry{Path: fileName(filepath.ToSlash(rel)), Type: t, Mode: uint32(info.Mode() & kept), ModTime: info.ModTime().UTC()}
	if info.Mode().IsRegular() {
		e.Bytes = info.Size()
	}
	return e, nil
}
