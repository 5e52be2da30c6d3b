package filecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// Sync stores the file, when no request is under way: each manager writes its whole
// fragment. With level 3 that is a new version. Processes call Process.Sync; Sync is for
// those that act for all of them.
func (f *File) Sync(ctx context.Context) error {
	f.gate.Lock()
	defer f.gate.Unlock()
	if f.closed {
		return fmt.Errorf("sync %s: %w", f.name, ErrClosed)
	}
	return f.store(ctx, "sync")
}

// force stores the file if a journal is long.
func (f *File) force() error {
	if !f.full.Load() {
		return nil
	}
	if f.home != nil {
		return f.home(context.Background())
	}
	f.gate.Lock()
	defer f.gate.Unlock()
	if f.closed || !f.full.Load() {
		return nil // another process was faster
	}
	return f.store(context.Background(), "journal")
}

// store writes the file to the store. The gate is held.
func (f *File) store(ctx context.Context, why string) (err error) {
	end := f.cache.Monitor.event(f.name, "store", why)
	defer func() { end(err) }()
	if _, err := f.storeDir(); err != nil {
		return fmt.Errorf("sync %s: %w", f.name, err)
	}
	if f.opt.Levels.Versions {
		err = f.storeVersion(ctx)
	} else {
		err = f.overwrite(ctx)
	}
	if err == nil {
		f.stored = true
		err = f.rotate(ctx)
	}
	if err == nil && f.opt.Levels.Versions {
		err = f.prune()
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", f.name, err)
	}
	f.dirty.Store(false)
	return nil
}

// overwrite writes over the file in the store.
func (f *File) overwrite(ctx context.Context) error {
	s := f.cache.Store
	path := s.path(f.name)
	if !f.stored {
		// A scratch file that becomes one of the store replaces what is there.
		if err := durable.Remove(s.FS, path); err != nil {
			return err
		}
	}
	fi, err := s.FS.Stat(path)
	if missing(err) {
		err = create(s.FS, path)
		f.named = false
	} else if err == nil && fi.Size() > f.Size() {
		err = fmt.Errorf("%s has grown to %d bytes in the store, beyond %d", path, fi.Size(), f.Size())
	}
	if err != nil {
		return err
	}
	if _, err := f.putAll(ctx, path); err != nil {
		return err
	}
	if !f.named {
		dir := filepath.Dir(path)
		if err := s.FS.SyncDir(dir); err != nil {
			return durable.Op("sync", dir, -1, err)
		}
		f.named = true
	}
	f.base++
	return nil
}

func create(fsys vfs.FS, path string) error {
	file, err := fsys.Create(path)
	if err != nil {
		return durable.Op("create", path, -1, err)
	}
	return durable.Op("close", path, -1, file.Close())
}

// storeVersion makes a new version of the file.
func (f *File) storeVersion(ctx context.Context) error {
	numbers, err := f.cache.Versions(f.name)
	if err != nil {
		return err
	}
	v := Version{Number: 1, Name: f.name, Bytes: f.Size(), Stripe: f.layout.Stripe}
	if len(numbers) > 0 {
		v.Number = numbers[len(numbers)-1] + 1
	}
	// A file that has the name of a version, and no manifest, may be the user's.
	for ; v.Number != f.making; v.Number++ {
		_, err := f.cache.Store.FS.Stat(f.cache.Store.versionPath(f.name, v.Number))
		if missing(err) {
			break
		}
		if err != nil {
			return err
		}
	}
	f.making = v.Number
	path := f.cache.Store.versionPath(f.name, v.Number)
	if err := durable.Remove(f.cache.Store.FS, path); err != nil { // of an attempt that failed
		return err
	}
	if err := create(f.cache.Store.FS, path); err != nil {
		return err
	}
	if v.Fragments, err = f.putAll(ctx, path); err != nil {
		return err
	}
	if err := f.cache.commitVersion(v); err != nil {
		return err
	}
	f.base = v.Number
	if link := f.cache.Store.Link; link != nil {
		return link(path, f.cache.Store.path(f.name))
	}
	return nil
}

// putAll has all managers write their fragments, each with large writes one behind the
// other.
func (f *File) putAll(ctx context.Context, path string) ([]FragmentSum, error) {
	sums := make([]FragmentSum, len(f.managers))
	length := f.Size()
	err := f.cache.each(func(i int) error {
		reply, err := f.call(ctx, i, Request{Kind: Put, Process: -1, Source: -1, Path: path, Length: length})
		sums[i] = FragmentSum{Node: i, Off: f.layout.Of(i).Off, N: f.layout.bytes(i, length), CRC32C: reply.Sum}
		return err
	})
	return sums, err
}

// rotate begins the journals again, since the store has everything.
func (f *File) rotate(ctx context.Context) error {
	if f.opt.Levels.Replicas == 0 {
		return nil
	}
	f.epoch++
	err := f.cache.each(func(i int) error {
		_, err := f.call(ctx, i, Request{Kind: Rotate, Process: -1, Source: -1, Epoch: f.epoch, Base: f.base})
		return err
	})
	if err == nil {
		f.full.Store(false)
	}
	return err
}

// prune removes the versions that are too old, and debris is left to the next ones.
func (f *File) prune() error {
	numbers, err := f.cache.Versions(f.name)
	if err != nil {
		return err
	}
	if extra := len(numbers) - f.opt.Levels.Keep; extra > 0 {
		return f.cache.removeVersions(f.name, numbers[:extra])
	}
	return nil
}

// Close stores the file, unless it has no new bytes, and frees
// the node directories. After an error the file is still open. Processes call Process.Close.
func (f *File) Close(ctx context.Context) (err error) {
	f.gate.Lock()
	defer f.gate.Unlock()
	if f.closed {
		return fmt.Errorf("close %s: %w", f.name, ErrClosed)
	}
	end := f.cache.Monitor.event(f.name, "close", "")
	defer func() { end(err) }()
	if f.dirty.Load() {
		if err := f.store(ctx, "close"); err != nil {
			return err
		}
	}
	// A node that says "closed" tells Recover that nothing is missing.
	if err := f.mark(closed); err != nil {
		return fmt.Errorf("close %s: %w", f.name, err)
	}
	f.closed = true
	return errors.Join(f.closeManagers(), f.cache.clear(f.name), f.cache.Monitor.Flush())
}

// Abandon ends the use of a file as the death of all processes does: the node
// directories keep what they have, for Recover.
func (f *File) Abandon() error {
	f.gate.Lock()
	defer f.gate.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	return f.closeManagers()
}

func (f *File) closeManagers() error {
	var errs []error
	if f.transport != nil {
		errs = append(errs, f.transport.Close())
	}
	for _, m := range f.managers {
		errs = append(errs, m.close())
	}
	for _, p := range f.processes {
		if p != nil && p.record != nil {
			errs = append(errs, p.record.close())
		}
	}
	return errors.Join(errs...)
}

// clear empties the node directories of a file.
func (c *Cache) clear(name string) error {
	return c.each(func(i int) error { return clearDir(c.Nodes[i], c.Nodes[i].dir(name)) })
}

// A Version is one that Sync made of a file (level 3). Its bytes are in NAME.vNNNN. It
// exists if its manifest NAME.vNNNN.manifest does, which is written when all of them
// are durable.
type Version struct {
	Number    uint64        `json:"version"`
	Name      string        `json:"name"`
	Bytes     int64         `json:"bytes"`
	Stripe    int64         `json:"stripe,omitempty"` // 0: each fragment is contiguous
	Fragments []FragmentSum `json:"fragments"`
}

// A FragmentSum is the checksum of a part of a version.
type FragmentSum struct {
	Node   int    `json:"node"`
	Off    int64  `json:"offset"`
	N      int64  `json:"bytes"`
	CRC32C uint32 `json:"crc32c"`
}

const (
	manifestSuffix = ".manifest"
	maxManifest    = 64 << 20
)

func (s Store) versionPath(name string, number uint64) string {
	return s.path(fmt.Sprintf("%s.v%04d", name, number))
}

// Versions lists the complete versions of a file, oldest first.
func (c *Cache) Versions(name string) ([]uint64, error) {
	path := c.Store.path(name)
	list, err := c.Store.FS.ReadDir(filepath.Dir(path))
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, durable.Op("read", filepath.Dir(path), -1, err)
	}
	var numbers []uint64
	for _, e := range list {
		base, ok := strings.CutSuffix(e.Name(), manifestSuffix)
		if number, isVersion := parseVersion(base, filepath.Base(path)); ok && isVersion {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func parseVersion(base, name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(base, name+".v")
	if !ok {
		return 0, false
	}
	n, err := fmt.Sscanf(digits, "%d", &number)
	return number, err == nil && n == 1 && number > 0 && digits == fmt.Sprintf("%04d", number)
}

// readVersion reads the manifest of a version.
func (c *Cache) readVersion(name string, number uint64) (Version, error) {
	path := c.Store.versionPath(name, number) + manifestSuffix
	var v Version
	if err := durable.ReadSealed(c.Store.FS, path, maxManifest, &v); err != nil {
		return Version{}, err
	}
	if v.Number != number || filepath.Base(v.Name) != filepath.Base(name) || v.Bytes < 0 {
		return Version{}, durable.Damaged(path, 0, "it is of version %d of %s", v.Number, v.Name)
	}
	return v, nil
}

// commit makes a version exist. Its file is durable, its name may not be.
func (c *Cache) commitVersion(v Version) error {
	path := c.Store.versionPath(v.Name, v.Number)
	dir := filepath.Dir(path)
	if err := c.Store.FS.SyncDir(dir); err != nil {
		return durable.Op("sync", dir, -1, err)
	}
	return durable.ReplaceSealed(c.Store.FS, path+manifestSuffix, v)
}

// A VersionState says whether a version is sound.
type VersionState struct {
	Number uint64 `json:"file_version"`
	Bytes  int64  `json:"bytes"`
	Damage string `json:"damage,omitempty"`
}

// Verify checks all versions of a file, oldest first. Damage is no error.
func (c *Cache) Verify(name string) ([]VersionState, error) {
	numbers, err := c.Versions(name)
	if err != nil {
		return nil, err
	}
	var list []VersionState
	for _, n := range numbers {
		v, err := c.readVersion(name, n)
		if err == nil {
			err = c.verifyVersion(v)
		}
		if errors.Is(err, fs.ErrNotExist) && c.gone(name, n) {
			continue // removed meanwhile
		}
		damage := (*durable.DamageError)(nil)
		if err != nil && !errors.As(err, &damage) {
			return nil, err
		}
		list = append(list, VersionState{Number: n, Bytes: v.Bytes, Damage: text(err)})
	}
	return list, nil
}

func (c *Cache) gone(name string, number uint64) bool {
	_, err := c.Store.FS.Stat(c.Store.versionPath(name, number) + manifestSuffix)
	return missing(err)
}

// NameOfManifest returns the file that a manifest is of, and whether a path is one.
func NameOfManifest(path string) (name string, ok bool) {
	base, ok := strings.CutSuffix(path, manifestSuffix)
	i := strings.LastIndex(base, ".v")
	if !ok || i < 0 {
		return "", false
	}
	_, ok = parseVersion(filepath.Base(base), filepath.Base(base[:i]))
	return base[:i], ok
}

// verifyVersion checks the bytes of a version against its manifest.
func (c *Cache) verifyVersion(v Version) error {
	path := c.Store.versionPath(v.Name, v.Number)
	f, err := c.Store.FS.Open(path)
	if err != nil {
		return durable.ReadError(path, 0, err)
	}
	defer f.Close()
	if n, err := f.Size(); err != nil {
		return durable.Op("read", path, -1, err)
	} else if n != v.Bytes {
		return durable.Damaged(path, min(n, v.Bytes), "it has %d bytes, not %d", n, v.Bytes)
	}
	for _, s := range v.Fragments {
		sum := uint32(0)
		for part := range v.parts(s) {
			err := pieces(f, path, part.Off, part.N, func(_ int64, p []byte) error {
				sum = durable.AddSum(sum, p)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if sum != s.CRC32C {
			return durable.Damaged(path, s.Off, "checksum of the fragment of node %d does not match", s.Node)
		}
	}
	return nil
}

// parts returns where the bytes of a fragment are.
func (v Version) parts(s FragmentSum) iter.Seq[Part] {
	if v.Stripe > 0 {
		return Layout{Nodes: len(v.Fragments), Stripe: v.Stripe}.parts(s.Node, v.Bytes)
	}
	return slices.Values([]Part{{s.Node, s.Off, s.N}})
}

// removeVersions removes those that keep says nothing of. Manifests go first: a
// version without its file must not exist.
func (c *Cache) removeVersions(name string, numbers []uint64) error {
	if len(numbers) == 0 {
		return nil
	}
	dir := filepath.Dir(c.Store.path(name))
	for _, suffix := range []string{manifestSuffix, ""} {
		var errs []error
		for _, n := range numbers {
			errs = append(errs, durable.Remove(c.Store.FS, c.Store.versionPath(name, n)+suffix))
		}
		errs = append(errs, durable.Op("sync", dir, -1, c.Store.FS.SyncDir(dir)))
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}
