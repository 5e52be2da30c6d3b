package objectfs

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// isDir reports whether a directory is there, as it was seen or as it is.
func (f *FS) isDir(key string, seen bool) (bool, error) {
	if key == "" || seen && f.saw(key) {
		return true, nil
	}
	all, err := f.c.list(background(), key+"/", true, 1)
	is := err == nil && len(all.Objects) > 0
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.dirs, key); is {
		f.dirs[key] = true
	}
	return is, err
}

func (f *FS) saw(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dirs[key]
}

// parent checks that the directory of a key is there.
func (f *FS) parent(key string) error {
	dir := above(key)
	is, err := f.isDir(dir, true)
	if err != nil || is {
		return err
	}
	if _, err := f.c.head(background(), dir); err == nil {
		return syscall.ENOTDIR
	}
	return fs.ErrNotExist
}

// Mkdir implements vfs.FS.
func (f *FS) Mkdir(name string) error {
	key, err := f.key(name)
	if err == nil && key == "" {
		err = fs.ErrExist
	}
	if err == nil {
		err = f.parent(key)
	}
	if err == nil {
		var is bool
		if is, err = f.isDir(key, false); is {
			err = fs.ErrExist // perhaps without an object of its own
		}
	}
	if err == nil {
		_, err = f.c.put(background(), key+"/", nil, Condition{New: true})
	}
	if errors.Is(err, ErrPrecondition) {
		err = fs.ErrExist
	}
	if err == nil {
		f.mu.Lock()
		f.dirs[key] = true
		f.mu.Unlock()
	}
	return failed("mkdir", name, err)
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	key, err := f.key(name)
	if err != nil {
		return nil, failed("list", name, err)
	}
	prefix := below(key)
	all, err := f.c.list(background(), prefix, false, 1<<30)
	if err == nil && len(all.Objects)+len(all.Prefixes) == 0 && key != "" {
		if err = fs.ErrNotExist; f.isFile(key) {
			err = syscall.ENOTDIR
		}
	}
	if err != nil {
		return nil, failed("list", name, err)
	}
	var list []fs.DirEntry
	for _, o := range all.Objects {
		if o.Key != prefix && !strings.HasSuffix(o.Key, leaseSuffix) && !gone(o) {
			list = append(list, fs.FileInfoToDirEntry(infoOf(o)))
		}
	}
	for _, p := range all.Prefixes {
		if p != prefix {
			list = append(list, fs.FileInfoToDirEntry(info{name: path.Base(p), dir: true}))
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

func (f *FS) isFile(key string) bool {
	_, err := f.c.head(background(), key)
	return err == nil
}

// SyncDir implements vfs.FS: what the storage has answered is durable.
func (f *FS) SyncDir(name string) error {
	key, err := f.key(name)
	if err == nil {
		var is bool
		if is, err = f.isDir(key, true); err == nil && !is {
			err = fs.ErrNotExist
		}
	}
	return failed("sync", name, err)
}

// forbiddenFor is how long a forbidden name stays forbidden once its directory is removed: no
// process that was stopped goes on after so long with a request that it had prepared.
const forbiddenFor = 24 * time.Hour

// removeDir removes a directory that has only leases without holders. A forbidden name in it stays
// for a day, and the directory with it. If a request to remove something may still arrive, removeDir
// forbids the directory itself: the request would remove files that are made there anew.
func (f *FS) removeDir(key string) error {
	all, err := f.c.list(background(), key+"/", true, 1000)
	if err != nil {
		return err
	}
	if len(all.Objects) == 0 {
		return fs.ErrNotExist
	}
	var remove []string
	kept := false
	for _, o := range all.Objects {
		switch {
		case o.Key == key+"/": // last
		case gone(o) && above(o.Key) == key:
			now, err := f.c.head(background(), o.Key)
			if err != nil {
				return err
			}
			if now.Now.Sub(now.Modified) < forbiddenFor {
				kept = true
				continue
			}
			remove = append(remove, o.Key)
		case strings.HasSuffix(o.Key, leaseSuffix) && above(o.Key) == key:
			if locked, err := f.lockedAt(o.Key); err != nil || locked {
				return cmp.Or(err, error(syscall.ENOTEMPTY))
			}
			remove = append(remove, o.Key)
		default:
			return syscall.ENOTEMPTY
		}
	}
	f.mu.Lock()
	delete(f.dirs, key)
	doubted := f.doubted
	f.mu.Unlock()
	if doubted && !kept {
		kept = true
		if err := f.forbid(below(key) + Once); err != nil {
			return err
		}
	}
	if !kept {
		remove = append(remove, key+"/")
	}
	for _, k := range remove {
		if err := f.delete(k); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
