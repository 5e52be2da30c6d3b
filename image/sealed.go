package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/sealedfs"
	"ckpt/internal/vfs"
)

// sealedVersion is the format of a sealed store. Manifests and descriptions in it are of
// formatVersion.
const sealedVersion = 2

// ErrNoIdentity says that a store is sealed, and that no identity was given that opens it.
var ErrNoIdentity = sealedfs.ErrNoIdentity

// ErrOtherStore says that the identity is for stores of other keys.
var ErrOtherStore = sealedfs.ErrOtherStore

// IdentityVariable names the file of an identity that opens sealed stores.
const IdentityVariable = sealedfs.Identity

// IdentityGiven reports whether the environment names an identity.
func IdentityGiven() bool { return sealedfs.IdentityGiven() }

// CheckRecipient says what is wrong with a recipient of age, if anything.
func CheckRecipient(text string) error { return sealedfs.CheckRecipient(text) }

// plainPath says which files of a sealed store are not sealed: what says that it is a store, and
// the locks of jobs.
func plainPath(path string) bool {
	return !strings.HasPrefix(path, jobsName+"/") || strings.TrimSuffix(filepath.Base(path), durable.TempSuffix) == lockName
}

// unsealed returns the file system that has the files of a sealed store in plain text.
func unsealed(fsys vfs.FS, dir string) (vfs.FS, error) {
	if s := sealedfs.Of(fsys); s != nil && s.Root() == filepath.Clean(dir) {
		return fsys, nil
	}
	key, err := sealedfs.ReadKey(fsys, dir)
	if err != nil {
		return nil, err
	}
	return sealedfs.New(fsys, dir, key, plainPath).Leased(), nil
}

// forOwner is vfs.ForOwner for the file system of a store, which may be sealed.
func forOwner(fsys vfs.FS, dir string) vfs.FS {
	if s := sealedfs.Of(fsys); s != nil {
		return s.Over(vfs.ForOwner(s.Under(), dir)).Leased()
	}
	return vfs.ForOwner(fsys, dir)
}

// Sealed reports whether the files of the store are sealed.
func (s *Store) Sealed() bool { return sealedfs.Of(s.fs) != nil }

// IsSealed reports whether a directory is a sealed store. It is not if it is no store.
func IsSealed(fsys vfs.FS, dir string) (bool, error) {
	fsys, err := vfs.At(fsys, dir)
	if err != nil {
		return false, durable.Op("open store", dir, -1, err)
	}
	v, err := storeFormat(fsys, dir)
	if errors.Is(err, ErrNoStore) {
		return false, nil
	}
	return v == sealedVersion, err
}

// A Sealing says who can open a sealed store.
type Sealing struct {
	Fingerprint string   `json:"fingerprint"` // of its key
	Recipients  []string `json:"recipients"`
	Made        bool     `json:"made"` // the store is sealed since this moment
}

// sealName is the lock of those who seal a store, or change who can open it.
const sealName = "seal"

// Seal makes a sealed store, or changes who can open one: it adds recipients of age, and removes
// others. Only somebody who can open the store changes it. A store with jobs that are not sealed
// is refused with ErrJobExists.
func Seal(fsys vfs.FS, dir string, add, remove []string) (s Sealing, err error) {
	fsys, err = vfs.At(fsys, dir)
	if err != nil {
		return s, durable.Op("open store", dir, -1, err)
	}
	if err := trust(fsys, dir); err != nil {
		return s, err
	}
	fsys = vfs.ForOwner(fsys, dir)
	if err := durable.MkdirAll(fsys, dir); err != nil {
		return s, durable.Op("create store in", dir, -1, err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, sealName))
	if errors.Is(err, vfs.ErrLocked) {
		return s, fmt.Errorf("%w: %s is being sealed", ErrInUse, dir)
	}
	if err != nil {
		return s, durable.Op("lock", dir, -1, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	v, err := storeFormat(fsys, dir)
	if err != nil && !errors.Is(err, ErrNoStore) {
		return s, err
	}
	s.Made = v != sealedVersion
	key := sealedfs.NewKey()
	if s.Made {
		err = unused(fsys, dir, err == nil)
	} else {
		key, err = sealedfs.ReadKey(fsys, dir)
	}
	if err != nil {
		return s, err
	}
	if key.Recipients, err = changed(key.Recipients, add, remove); err != nil {
		return s, err
	}
	s.Fingerprint, s.Recipients = key.Fingerprint(), key.Recipients
	if len(add)+len(remove) > 0 {
		err = key.Write(fsys, dir)
	}
	if err == nil && s.Made {
		err = createStore(fsys, dir, sealedVersion)
	}
	return s, err
}

// ours are what a directory may hold that becomes a sealed store: the rest of an attempt, or of a
// proof that its storage can be trusted.
var ours = []string{sealName, sealedfs.KeyName, sealedfs.KeyName + durable.TempSuffix, formatName + durable.TempSuffix, jobsName, vfs.ProofName}

// unused checks that a directory can become a sealed store: it is a store without jobs, or has
// nothing in it.
func unused(fsys vfs.FS, dir string, isStore bool) error {
	at := dir
	if isStore {
		at = filepath.Join(dir, jobsName)
	}
	entries, err := fsys.ReadDir(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return durable.Op("list", at, -1, err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case isStore:
			return fmt.Errorf("%w, and is not sealed: %s", ErrJobExists, filepath.Join(at, name))
		case !slices.Contains(ours, name):
			return fmt.Errorf("%s is %w, and has other files: %s", dir, ErrNoStore, name)
		}
	}
	if isStore {
		return nil
	}
	return unused(fsys, dir, true)
}

// changed adds and removes recipients.
func changed(have, add, remove []string) ([]string, error) {
	list := slices.Clone(have)
	for _, r := range remove {
		i := slices.Index(list, r)
		if i < 0 {
			return nil, fmt.Errorf("%.80q is no recipient of the store", r)
		}
		list = slices.Delete(list, i, i+1)
	}
	for _, r := range add {
		if err := sealedfs.CheckRecipient(r); err != nil {
			return nil, err
		}
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("a sealed store needs a recipient, or nobody could open it")
	}
	return list, nil
}

// An Outside shows of a sealed store what can be seen without its key.
type Outside struct{ store *Store }

// OpenOutside opens a sealed store without its key.
func OpenOutside(fsys vfs.FS, dir string) (*Outside, error) {
	fsys, err := vfs.At(fsys, dir)
	if err != nil {
		return nil, durable.Op("open store", dir, -1, err)
	}
	return &Outside{&Store{fs: fsys, dir: dir}}, nil
}

// Jobs lists the names of the jobs.
func (o *Outside) Jobs() ([]string, error) { return o.store.Jobs() }

// Job returns the numbers of the checkpoints of a job, and the bytes of all its sealed files.
func (o *Outside) Job(name string) (numbers []int, bytes int64, err error) {
	j, err := o.store.Job(name)
	if err != nil {
		return nil, 0, err
	}
	all, err := j.numbers()
	if err != nil {
		return nil, 0, err
	}
	for _, n := range all {
		if _, err := j.fs.Stat(j.manifestPath(n)); err == nil {
			numbers = append(numbers, n)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, durable.Op("list", j.NumberDir(n), -1, err)
		}
	}
	bytes, err = j.Size()
	return numbers, bytes, err
}

// Check checks lengths and checksums of all sealed files of a job, or of the directory of one
// checkpoint, which may refer to files elsewhere. It returns how many files and bytes it read.
func (o *Outside) Check(ctx context.Context, name string, number int, progress func(int64)) (files int, bytes int64, damage []Damage, err error) {
	j, err := o.store.Job(name)
	if err != nil {
		return 0, 0, nil, err
	}
	dir := j.dir
	if number > 0 {
		dir = j.NumberDir(number)
		if _, err := j.fs.Stat(j.manifestPath(number)); errors.Is(err, fs.ErrNotExist) {
			return 0, 0, nil, fmt.Errorf("%w: number %d of job %s", ErrCheckpointNotFound, number, name)
		}
	}
	w := &walker{job: j}
	w.visit(dir, func(name string) error {
		path, err := filepath.Rel(o.store.dir, name)
		if err != nil || plainPath(path) || strings.HasSuffix(name, durable.TempSuffix) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		n, found, err := checkFile(j, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed, as by a job that runs
		}
		if n > 0 {
			files, bytes = files+1, bytes+n
			progress(n)
		}
		damage = append(damage, found...)
		return err
	})
	return files, bytes, damage, w.err
}

// checkFile checks a file, and nothing of a directory. One that was never completed is no damage
// where there is no checkpoint.
func checkFile(j *Job, name string) (size int64, damage []Damage, err error) {
	fi, err := j.fs.Stat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return 0, nil, err
	}
	f, err := j.fs.Open(name)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	if size, err = f.Size(); err != nil {
		return 0, nil, err
	}
	found, err := sealedfs.Check(f, name, size)
	for _, d := range found {
		if !errors.Is(d, sealedfs.ErrIncomplete) || committed(j, name) {
			damage = append(damage, Damage{File: name, Offset: d.Offset, Reason: d.Reason})
		}
	}
	return size, damage, err
}

// committed reports whether a file belongs to a committed checkpoint, or to the job itself.
func committed(j *Job, name string) bool {
	rest, err := filepath.Rel(j.dir, name)
	n, numbered := container.PathNumber(rest)
	if err != nil || !numbered || n == container.JobNumber {
		return true
	}
	_, err = j.fs.Stat(j.manifestPath(n))
	return err == nil
}
