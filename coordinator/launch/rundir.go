package launch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ckpt/coordinator/wire"
	"ckpt/internal/family"
	"ckpt/internal/vfs"
)

// A RunDir is what one run of a job keeps outside the store: the socket, whose
// path must be short, and the scratch directory of each node. It is locked (flock(2)) as
// long as its coordinator lives: the next run removes what a killed one left behind, and
// cleaners like systemd-tmpfiles leave it alone.
type RunDir struct {
	Path  string
	name  string
	nodes int
	// segmentDirs are where segments may lie.
	segmentDirs []string
	lock        *os.File // the directory, open; it may have gone
}

// idBytes is the length of a run's name, which has two hexadecimal digits for each.
const idBytes = 6

// runLock is the file that earlier versions lock.
const runLock = "lock"

// disk holds the directories of runs, whatever holds the store.
var disk = vfs.OS{}

// maxSocketPath is the longest path of a Unix socket on Linux.
const maxSocketPath = 107

// runBase makes the directory of all runs of this user, or finds it: in a directory, or in
// /tmp if the path of a socket in it would be too long. Other users may have made what has
// its name in a directory open to all: then it gets another one.
func runBase(tmp string) (base string, err error) {
	if tmp, err = filepath.Abs(tmp); err != nil {
		return "", err
	}
	name := fmt.Sprintf("ckpt-%d", os.Getuid())
	if len(filepath.Join(tmp, name))+len("-1234567890/0123456789ab/sock") > maxSocketPath {
		tmp = "/tmp"
	}
	for _, suffix := range []string{"", "-1", "-2", "-3"} {
		base = filepath.Join(tmp, name+suffix)
		if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		if private(base) {
			return base, nil
		}
	}
	return os.MkdirTemp(tmp, name+"-*")
}

// private reports whether a directory is this user's alone. Root outside a user
// namespace is another user than root inside.
func private(dir string) bool {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || fi.Mode().Perm() != 0o700 {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Getuid()
}

// A TempError says that there is no place for sockets and scratch files.
type TempError struct{ Err error }

func (e *TempError) Error() string { return "directory for temporary files: " + e.Err.Error() }
func (e *TempError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *TempError) Hint() string { return "set TMPDIR to a directory that can be written" }

// NewRunDir makes the directory of a run, private to the user.
func NewRunDir(segmentDir string, nodes int) (*RunDir, error) {
	base, err := runBase(os.TempDir())
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		id := make([]byte, idBytes)
		if _, err := rand.Read(id); err != nil {
			return nil, err
		}
		r := &RunDir{name: hex.EncodeToString(id), nodes: nodes, segmentDirs: []string{segmentDir, os.TempDir()}}
		err := r.make(base)
		// The sweep of another run may have been quicker than our lock.
		taken := errors.Is(err, vfs.ErrLocked) || errors.Is(err, fs.ErrNotExist)
		if err == nil {
			sweepRuns(base, segmentDir)
			return r, nil
		}
		if !taken || try == 10 {
			return nil, err
		}
	}
}

// make makes the directory in the one of all runs.
func (r *RunDir) make(base string) error {
	r.Path = filepath.Join(base, r.name)
	if err := disk.Mkdir(r.Path); err != nil {
		return err
	}
	lock, err := lockDir(r.Path)
	if err != nil && !errors.Is(err, vfs.ErrNoLocks) { // then no run sweeps
		lock.Close()
		return err
	}
	if r.lock != nil {
		r.lock.Close()
	}
	r.lock = lock
	if err = r.makeScratch(); err != nil {
		os.RemoveAll(r.Path)
	}
	return err
}

func (r *RunDir) makeScratch() error {
	for node := range r.nodes {
		if err := disk.Mkdir(r.Scratch(node)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Mend makes again what has gone of the directory, which some cleaners of temporary files
// remove in spite of the lock. It may have another path then.
func (r *RunDir) Mend() error {
	if sameDir(r.lock, r.Path) {
		return r.makeScratch()
	}
	base, err := runBase(os.TempDir())
	if err != nil {
		if base, err = runBase("/tmp"); err != nil {
			return err
		}
	}
	return r.make(base)
}

// HoldDir keeps cleaners of temporary files away from a directory until Close.
func HoldDir(path string) (io.Closer, error) {
	d, err := lockDir(path)
	if err != nil {
		d.Close()
		return nil, err
	}
	return vfs.Held{File: d}, nil
}

// lockDir opens a directory and locks it. It fails with vfs.ErrLocked if somebody else has it,
// and with vfs.ErrNoLocks where locks are impossible. The caller closes the directory in any case.
func lockDir(path string) (*os.File, error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	err = vfs.Flock(d, true)
	if err == nil && !sameDir(d, path) {
		err = vfs.ErrLocked
	}
	if err != nil {
		err = &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return d, err
}

// sameDir reports whether a path leads to an open directory.
func sameDir(d *os.File, path string) bool {
	named, err := os.Lstat(path)
	if err != nil {
		return false
	}
	opened, err := d.Stat()
	return err == nil && os.SameFile(opened, named)
}

func segmentPrefix(run string) string { return fmt.Sprintf("ckpt-%d-%s-", os.Getuid(), run) }

func (r *RunDir) Socket() string          { return socketIn(r.Path) }
func (r *RunDir) Scratch(node int) string { return filepath.Join(r.Path, fmt.Sprintf("node-%d", node)) }

// Segment returns the path of the memory that the ranks of a group share on a
// node.
func (r *RunDir) Segment(dir string, group, incarnation, node int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%d-g%d-n%d", segmentPrefix(r.name), group, incarnation, node))
}

// Remove removes the directory, and the names of segments that no rank came to map.
func (r *RunDir) Remove() error {
	for _, dir := range r.segmentDirs {
		removePrefixed(dir, segmentPrefix(r.name))
	}
	err := os.RemoveAll(r.Path)
	if errors.Is(err, syscall.ENOTEMPTY) {
		err = nil // a sweep looks for the lock at this moment, and removes the rest
	}
	return errors.Join(err, r.lock.Close())
}

// sweepRuns removes what dead runs have left, as far as it can.
func sweepRuns(base, segmentDir string) {
	runs, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range runs {
		path := filepath.Join(base, e.Name())
		if id, err := hex.DecodeString(e.Name()); err != nil || len(id) != idBytes {
			continue // not of a run
		}
		d, err := lockDir(path)
		if err == nil && !lockedAsBefore(path) { // else alive
			for _, dir := range []string{segmentDir, os.TempDir()} {
				removePrefixed(dir, segmentPrefix(e.Name()))
			}
			endOrphans(socketIn(path))
			os.RemoveAll(path)
		}
		d.Close()
	}
}

func socketIn(run string) string { return filepath.Join(run, "sock") }

// endOrphans ends the processes of a dead run whose launcher has died with it. A rank that has no
// agent yet would wait for ranks for ever that were never started.
func endOrphans(socket string) {
	address := "unix:" + socket
	if os.Getenv(wire.EnvSocket) == address {
		return // this process belongs to it
	}
	family.Signal(slices.DeleteFunc(family.Carrying(wire.EnvSocket+"="+address), func(p family.Process) bool { return !LostLauncher(p) }), syscall.SIGKILL)
}

// lockedAsBefore reports whether a run of an earlier version lives, which locks a file.
func lockedAsBefore(path string) bool {
	if _, err := os.Lstat(filepath.Join(path, runLock)); err != nil {
		return false
	}
	l, err := disk.Lock(filepath.Join(path, runLock))
	if err == nil {
		l.Close()
	}
	return err != nil
}

func removePrefixed(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			_ = disk.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
