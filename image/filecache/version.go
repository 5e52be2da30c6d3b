package filecache

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/internal/durable"
)

// A Version is one that Sync made of a file (level 3). Its bytes are in NAME.vNNNN. It
// exists if its manifest NAME.vNNNN.manifest does, which is written when all of them
// are durable.
type Version struct {
	Number    uint64        `json:"version"`
	Name      string        `json:"name"`
	Bytes     int64         `json:"bytes"`
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
	if v.Number != number || v.Name != name || v.Bytes < 0 {
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

// verifyVersion checks the bytes of a version against its manifest.
func (c *Cache) verifyVersion(v Version) error {
	path := c.Store.versionPath(v.Name, v.Number)
	f, err := c.Store.FS.Open(path)
	if err != nil {
		return durable.ReadError(path, 0, err)
	}
	defer f.Close()
	for _, s := range v.Fragments {
		sum := uint32(0)
		err := pieces(f, path, s.Off, s.N, func(_ int64, p []byte) error {
			sum = durable.AddSum(sum, p)
			return nil
		})
		if err != nil {
			return err
		}
		if sum != s.CRC32C {
			return durable.Damaged(path, s.Off, "checksum of the fragment of node %d does not match", s.Node)
		}
	}
	return nil
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
