package image

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// identityName is the file that says which store a directory is. As copies of a store have it
// too, it says where the store was when it was written.
const identityName = "identity"

// maxIdentity bounds the file.
const maxIdentity = 64 << 10

// An Identity says which store a directory is.
type Identity struct {
	// ID is random and made once; empty in a store of an earlier ckpt, and in a copy until
	// something is written there.
	ID string
	// Original is the directory that this store is a copy of; empty if it is no copy.
	Original string
}

// identityFile is what the file holds.
type identityFile struct {
	Owner
	Was    []string      `json:"was,omitempty"`     // ids of stores that moved here
	CopyOf *identityFile `json:"copy_of,omitempty"` // the store that this one was copied from
}

// An Owner names a store in files outside it, by id and place: enough to tell a copy from a
// store that was renamed or is seen through another mount or host.
type Owner struct {
	ID    string `json:"store"`
	Path  string `json:"path"` // absolute
	Host  string `json:"host,omitempty"`
	Inode uint64 `json:"inode,omitempty"` // 0 if the file system lacks them
}

// Identity reads which store this is. It changes nothing. A damaged file does not count.
func (s *Store) Identity() (Identity, error) {
	file, err := s.identity()
	is := Identity{ID: file.ID}
	if file.CopyOf != nil {
		is.Original = file.CopyOf.Path
	}
	return is, err
}

// identity returns what the file would hold if it were written now.
func (s *Store) identity() (identityFile, error) {
	file, err := s.readIdentity()
	if damage := (*durable.DamageError)(nil); errors.Is(err, fs.ErrNotExist) || errors.As(err, &damage) {
		return identityFile{}, nil
	}
	if err != nil {
		return identityFile{}, err
	}
	is, err := s.isAt(file.Owner)
	if err != nil || !is {
		return identityFile{CopyOf: &file}, err
	}
	return file, nil
}

// Owner returns the name of the store for files outside it; without an id if it has no identity
// of its own.
func (s *Store) Owner() (Owner, error) {
	file, err := s.identity()
	if err != nil {
		return Owner{}, err
	}
	here, err := s.here()
	here.ID = file.ID
	return here, err
}

// Is reports whether an Owner means this store.
func (s *Store) Is(o Owner) (bool, error) {
	file, err := s.identity()
	if err != nil || o.ID != "" && (o.ID == file.ID || slices.Contains(file.Was, o.ID)) {
		return err == nil, err
	}
	return s.isAt(o) // the identity was lost and made anew
}

// Own returns the identity of a store that is written to, which gets one if it lacks one.
func (s *Store) Own() (Identity, error) {
	is, err := s.Identity()
	if err != nil || is.ID != "" {
		return is, err
	}
	err = s.identify(func(file *identityFile) {})
	if err != nil {
		return Identity{}, err
	}
	return s.Identity()
}

// Moved takes this directory for the store that it was copied from: its user says that one is
// gone for good.
func (s *Store) Moved() error {
	return s.identify(func(file *identityFile) {
		if file.CopyOf != nil {
			file.Was = append(append(file.Was, file.CopyOf.ID), file.CopyOf.Was...)
			file.CopyOf = nil
		}
	})
}

// identifyPause lies between attempts to take the lock.
const identifyPause = 5 * time.Millisecond

// identify changes the identity, which it makes if it is missing.
func (s *Store) identify(change func(*identityFile)) error {
	for {
		lock, err := s.fs.Lock(filepath.Join(s.dir, formatName))
		if errors.Is(err, vfs.ErrLocked) {
			time.Sleep(identifyPause)
			continue
		}
		if err != nil {
			return durable.Op("lock", s.dir, -1, err)
		}
		defer lock.Close()
		file, err := s.identity()
		if err == nil && file.ID == "" {
			file.Owner, err = s.here()
			file.ID = NewID()
		}
		if err != nil {
			return err
		}
		change(&file)
		return durable.ReplaceSealed(s.fs, s.identityPath(), file)
	}
}

func (s *Store) identityPath() string { return filepath.Join(s.dir, identityName) }

func (s *Store) readIdentity() (file identityFile, err error) {
	err = durable.ReadSealed(s.fs, s.identityPath(), maxIdentity, &file)
	if err == nil && !isID(file.ID) {
		err = durable.Damaged(s.identityPath(), 0, "id %.40q is not 128 bits in hex", file.ID)
	}
	return file, err
}

// here returns where the store is now.
func (s *Store) here() (Owner, error) {
	path, err := filepath.Abs(s.dir)
	if err != nil {
		return Owner{}, err
	}
	fi, err := s.fs.Stat(s.dir)
	if err != nil {
		return Owner{}, durable.Op("look at", s.dir, -1, err)
	}
	o := Owner{Path: path}
	o.Host, _ = os.Hostname() // an unknown host has no name
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		o.Inode = st.Ino
	}
	return o, nil
}

// isAt reports whether this directory is the one that an Owner names, and no copy. A store
// keeps its inode when it is renamed or mounted elsewhere; from a backup it comes with its path
// and another inode.
func (s *Store) isAt(o Owner) (bool, error) {
	here, err := s.here()
	if err != nil || o.Path == "" {
		return false, err
	}
	same := o.Inode != 0 && o.Inode == here.Inode
	if o.Path == here.Path {
		return same || o.Host == here.Host, nil
	}
	return same && !s.isElsewhere(o), nil
}

// isElsewhere reports whether the store is still where the Owner was: then this directory is a
// snapshot, with the inodes of its original.
func (s *Store) isElsewhere(o Owner) bool {
	there := &Store{fs: s.fs, dir: o.Path}
	if original, err := there.readIdentity(); err != nil || original.ID != o.ID {
		return false
	}
	a, err := s.fs.Stat(s.dir)
	b, berr := s.fs.Stat(o.Path)
	return err == nil && berr == nil && !os.SameFile(a, b)
}
