package image

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ckpt/image/container"
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
	lock, err := s.hold()
	if err != nil {
		return err
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

// hold waits for the lock of the store. Each holder keeps it for a moment.
func (s *Store) hold() (io.Closer, error) {
	for {
		lock, err := s.fs.Lock(filepath.Join(s.dir, formatName))
		if !errors.Is(err, vfs.ErrLocked) {
			return lock, durable.Op("lock", s.dir, -1, err)
		}
		time.Sleep(identifyPause)
	}
}

// Same reports whether two names lead to one store: a directory that is linked or mounted
// twice, or a bucket under two URLs.
func (s *Store) Same(o *Store) (bool, error) {
	var ids [2]string
	for i, store := range []*Store{s, o} {
		file, err := store.readIdentity()
		if damage := (*durable.DamageError)(nil); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.As(err, &damage) {
			return false, err
		}
		ids[i] = file.ID
	}
	if ids[0] != ids[1] {
		return false, nil
	}
	// A copy has the id of its original, and a lock of its own.
	lock, err := s.hold()
	if err != nil { // one of the two may be read only
		s, o = o, s
		lock, err = s.hold()
	}
	if err != nil {
		return false, err
	}
	defer lock.Close()
	is, err := o.fs.Locked(filepath.Join(o.dir, formatName))
	return is, durable.Op("lock", o.dir, -1, err)
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

// idBytes is the length of Manifest.ID before it is in hex.
const idBytes = 16

// NewID returns an identity for a checkpoint, as Manifest.ID has it.
func NewID() string {
	b := make([]byte, idBytes)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// isID reports whether s is an identity that NewID can have made.
func isID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == idBytes && hex.EncodeToString(b) == s
}

// checkTier checks what the manifest says of the nodes that had the checkpoint first.
func (m *Manifest) checkTier(files map[string]bool) error {
	if m.ID != "" && !isID(m.ID) {
		return errors.New("id is not 128 bits in hex")
	}
	t := m.Tier
	if t == nil {
		return nil
	}
	nodes := len(m.Mapping)
	switch {
	case m.ID == "" || nodes == 0:
		return errors.New("the checkpoint has no id or no mapping")
	case t.Dir == "" || len(t.Dir) > 4096 || len(t.Protect) > 100:
		return fmt.Errorf("dir %.100q or protect %.100q is empty or too long", t.Dir, t.Protect)
	case len(t.Domains) > 0 && len(t.Domains) != nodes || len(t.Hosts) > 0 && len(t.Hosts) != nodes:
		return fmt.Errorf("%d domains or %d hosts are not of %d nodes", len(t.Domains), len(t.Hosts), nodes)
	}
	seen := make(map[string]bool)
	for _, p := range t.Parities {
		switch {
		case !container.LocalPath(p.Path) || !inDir(p.Path, m.Number):
			return fmt.Errorf("path %q is not in the directory of the checkpoint", p.Path)
		case seen[p.Path] || files[p.Path]:
			return fmt.Errorf("file %q is listed twice", p.Path)
		case p.Set < 0 || p.Set >= m.NP || p.Index < 0 || p.Index >= nodes || p.Node < 0 || p.Node >= nodes:
			return fmt.Errorf("set %d, index %d or node %d of file %q is out of range", p.Set, p.Index, p.Node, p.Path)
		case p.Bytes < 0 || p.Bytes > maxBytes || p.Blake3 != "" && !isDigest(p.Blake3):
			return fmt.Errorf("%d bytes or the digest of file %q are out of range", p.Bytes, p.Path)
		}
		seen[p.Path] = true
	}
	return nil
}

func inDir(path string, number int) bool {
	n, ok := container.PathNumber(path)
	return ok && n == number
}

// PlaceJob opens, or makes, a job in the directory of a node, which several processes write to
// without its lock. A job with another description is replaced if it has no checkpoint; else
// ErrJobExists, or ErrInUse while it is locked.
func (s *Store) PlaceJob(name string, spec []byte) (*Job, error) {
	if err := CheckJobName(name); err != nil {
		return nil, err
	}
	if len(spec) > maxSpec {
		return nil, fmt.Errorf("spec of job %s is %d bytes long, limit %d", name, len(spec), maxSpec)
	}
	j := s.job(name)
	if err := durable.Mkdir(s.fs, j.dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, durable.Op("create job", j.dir, -1, err)
	}
	j = s.job(name) // of the owner of its directory
	is, err := j.Spec()
	if err == nil && bytes.Equal(is, spec) {
		return j, nil
	}
	damage := (*durable.DamageError)(nil)
	if err != nil && !errors.As(err, &damage) {
		return nil, err
	}
	if err == nil {
		if err := j.Lock(); err != nil {
			return nil, err
		}
		defer j.Unlock()
		taken, err := j.hasCheckpoints()
		if err == nil && taken {
			err = fmt.Errorf("%w: %s, with another description", ErrJobExists, j.dir)
		}
		if err != nil {
			return nil, err
		}
	}
	return j, durable.Op("create job", j.dir, -1, j.writeSpec(spec))
}

// Announce commits a checkpoint in the directory of a node: its files are in place and synced
// by their writers. It syncs their names, and fills in what Commit does.
func (j *Job) Announce(m *Manifest) error {
	t := &Tx{job: j, number: m.Number, dir: j.NumberDir(m.Number)}
	if err := t.complete(m); err != nil {
		return durable.Op("commit to", t.dir, -1, err)
	}
	b, err := m.Encode()
	if err != nil {
		return durable.Op("commit to", t.dir, -1, err)
	}
	if err := j.fs.SyncDir(t.dir); err != nil {
		return durable.Op("sync", t.dir, -1, err)
	}
	return durable.Replace(j.fs, j.manifestPath(m.Number), b)
}

// FilePath returns where a file of a manifest is.
func (j *Job) FilePath(path string) string { return filepath.Join(j.dir, filepath.FromSlash(path)) }

// Withdraw removes the manifest of checkpoint n, if there is one, durably.
func (j *Job) Withdraw(n int) error {
	return durable.Op("withdraw", j.manifestPath(n), -1, j.uncommit(n))
}

// OpenNodeStore opens the store in the directory of a node even without the file that makes it
// one: its jobs tell whether they are sound. It fails with durable.ErrNewerVersion.
func OpenNodeStore(fsys vfs.FS, dir string) (*Store, error) {
	if _, err := OpenStore(fsys, dir); errors.Is(err, durable.ErrNewerVersion) {
		return nil, err
	}
	return &Store{fs: fsys, dir: dir}, nil
}

// CreateNodeStore is CreateStore for the directory of a node. It makes a lost or damaged format
// file again, and leaves a directory alone that holds something else.
func CreateNodeStore(fsys vfs.FS, dir string) (*Store, error) {
	s, err := CreateStore(fsys, dir)
	if err == nil {
		_, err = fsys.Stat(filepath.Join(dir, jobsName))
		if !errors.Is(err, fs.ErrNotExist) {
			return s, durable.Op("open store", dir, -1, err)
		}
	} else if !errors.Is(err, ErrNoStore) && !errors.As(err, new(*durable.DamageError)) || !wasStore(fsys, dir) {
		return nil, err
	}
	if err := createStore(fsys, dir, formatVersion); err != nil {
		return nil, durable.Op("create store in", dir, -1, err)
	}
	return &Store{fs: fsys, dir: dir}, nil
}

// wasStore reports whether a directory was a store: it has jobs, or an empty format file, as a
// loss of power leaves it.
func wasStore(fsys vfs.FS, dir string) bool {
	if fi, err := fsys.Stat(filepath.Join(dir, jobsName)); err == nil && fi.IsDir() {
		return true
	}
	fi, err := fsys.Stat(filepath.Join(dir, formatName))
	return err == nil && fi.Size() == 0 && !fi.IsDir()
}

// RecordName is the file in the directory of a job, in the store, that says what the nodes have
// of it. It is replaced while others sweep.
const RecordName = "tier.json"
