package serve

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ckpt/cmd/ckpt/internal/ui"
)

// A folder is a directory whose files the service shows, with the directories below it.
type folder struct {
	dir  string // without symbolic links; "" shows nothing
	flag string
	what string // a file of it is
}

// mostEntries bounds the files that are looked at for a list.
const mostEntries = 20_000

// openFolder finds the directory of a flag.
func openFolder(dir, flag, what string) (folder, error) {
	f := folder{flag: flag, what: what}
	if dir == "" {
		return f, nil
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		_, err = os.ReadDir(path)
	}
	if err != nil {
		return f, ui.BadUsage(fmt.Sprintf("--%s: %v", flag, err), "name a directory that you may read")
	}
	f.dir = path
	return f, nil
}

// mayRead reports whether the sender of a request may read a file.
func mayRead(ctx context.Context, path string) bool {
	p, isPeer := ctx.Value(peerKey{}).(*peer)
	return !isPeer || p.owns() || p.reads(path)
}

// walk visits the files that the sender of a request may read, until visit reports false.
func (f folder) walk(ctx context.Context, visit func(path, name string, fi fs.FileInfo) bool) error {
	if f.dir == "" || !mayRead(ctx, f.dir) {
		return nil
	}
	looked := 0
	return filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		switch looked++; {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && path == f.dir:
			return err
		case looked > mostEntries:
			return fs.SkipAll
		case err != nil || !d.Type().IsRegular() || !mayRead(ctx, path):
			return nil // a directory that the service may not read, or that went, has no files for it
		}
		fi, err := d.Info()
		if err != nil {
			return nil // a file that went
		}
		name, err := filepath.Rel(f.dir, path)
		if err == nil && !visit(path, name, fi) {
			err = fs.SkipAll
		}
		return err
	})
}

// find is the path of a file in the folder. No name and no symbolic link leads out of it.
func (f folder) find(ctx context.Context, name string) (string, error) {
	if f.dir == "" {
		return "", ui.AsNotFound(fmt.Errorf("this service shows no directory of %s: ckpt serve --%s DIR does", f.flag, f.flag))
	}
	if !filepath.IsLocal(name) {
		return "", ui.BadUsage(fmt.Sprintf("%s %.80q is not a path in the directory of %s", f.what, name, f.flag), fmt.Sprintf("GET /api/%s lists the %s", f.flag, f.flag))
	}
	missing := ui.AsNotFound(fmt.Errorf("there is no %s %.80q", f.what, name))
	path, err := filepath.EvalSymlinks(filepath.Join(f.dir, name))
	if err != nil {
		return "", missing
	}
	below, err := filepath.Rel(f.dir, path)
	if err != nil || !filepath.IsLocal(below) || !mayRead(ctx, path) {
		return "", missing
	}
	if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
		return "", missing
	}
	return path, nil
}
