package slowfs

import (
	"hash/fnv"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"ckpt/internal/vfs"
)

// FS is a file system on a slow disk. It goes around the page cache if the file system
// beneath does.
type FS struct {
	in   vfs.FS
	disk *disk
}

var _ vfs.FS = (*FS)(nil)

// Open returns a file system whose files beneath m.Dir are as slow as the disk says. The
// directory must exist; it keeps the state of the disk in the file StateName.
func Open(in vfs.FS, m Model) (*FS, error) {
	d, err := openDisk(m)
	if err != nil {
		return nil, err
	}
	return &FS{in, d}, nil
}

// on reports whether a file is on the disk.
func (s *FS) on(name string) bool {
	name, err := filepath.Abs(name)
	rest, found := strings.CutPrefix(name, s.disk.model.Dir)
	return err == nil && found && (rest == "" || rest[0] == '/' || s.disk.model.Dir == "/")
}

// idOf is how the disk knows a file: by its name when it was opened.
func idOf(name string) uint64 {
	h := fnv.New64a()
	io.WriteString(h, filepath.Clean(name))
	return h.Sum64()
}

func (s *FS) open(name string, direct bool, open vfs.Opener) (vfs.File, error) {
	f, err := open(s.in, name)
	if err != nil || !s.on(name) {
		return f, err
	}
	return &file{File: f, disk: s.disk, id: idOf(name), direct: direct}, nil
}

// Create implements vfs.FS.
func (s *FS) Create(name string) (vfs.File, error) { return s.open(name, false, vfs.FS.Create) }

// CreateDirect implements vfs.FS.
func (s *FS) CreateDirect(name string) (vfs.File, error) {
	return s.open(name, true, vfs.FS.CreateDirect)
}

// Open implements vfs.FS.
func (s *FS) Open(name string) (vfs.File, error) { return s.open(name, false, vfs.FS.Open) }

// OpenWrite implements vfs.FS.
func (s *FS) OpenWrite(name string) (vfs.File, error) { return s.open(name, false, vfs.FS.OpenWrite) }

// OpenWriteDirect implements vfs.FS.
func (s *FS) OpenWriteDirect(name string) (vfs.File, error) {
	return s.open(name, true, vfs.FS.OpenWriteDirect)
}

// OpenDirect implements vfs.FS.
func (s *FS) OpenDirect(name string) (vfs.File, error) {
	return s.open(name, true, vfs.FS.OpenDirect)
}

// Rename implements vfs.FS.
func (s *FS) Rename(oldName, newName string) error { return s.in.Rename(oldName, newName) }

// Remove implements vfs.FS.
func (s *FS) Remove(name string) error { return s.in.Remove(name) }

// Mkdir implements vfs.FS.
func (s *FS) Mkdir(name string) error { return s.in.Mkdir(name) }

// ReadDir implements vfs.FS.
func (s *FS) ReadDir(name string) ([]fs.DirEntry, error) { return s.in.ReadDir(name) }

// Stat implements vfs.FS.
func (s *FS) Stat(name string) (fs.FileInfo, error) { return s.in.Stat(name) }

// SyncDir implements vfs.FS. It moves the arm to the place of the directory.
func (s *FS) SyncDir(name string) error {
	came := s.disk.arrival()
	err := s.in.SyncDir(name)
	if err == nil && s.on(name) {
		s.disk.move(came)
	}
	return err
}

// Lock implements vfs.FS.
func (s *FS) Lock(name string) (io.Closer, error) { return s.in.Lock(name) }

// Locked implements vfs.FS.
func (s *FS) Locked(name string) (bool, error) { return s.in.Locked(name) }

// Free implements vfs.FS.
func (s *FS) Free(name string) (int64, error) { return s.in.Free(name) }
