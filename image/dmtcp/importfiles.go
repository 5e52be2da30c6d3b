package dmtcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ckpt/image/container"
	"ckpt/zones"
	"ckpt/zones/dmtcp"
)

// beside stores the packed images and the files beside the images, and the
// catalog of all.
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
		if dmtcp.IsCompanion(filepath.Dir(f.path)) {
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

// unchanged checks that a file that has been read is as it was found: a copy of
// one that was written to meanwhile is of no moment in time.
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
