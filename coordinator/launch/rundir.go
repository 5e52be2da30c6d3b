package launch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ckpt/internal/vfs"
)

// A RunDir is what one run of a job keeps outside the store: the socket, whose
// path must be short, and the scratch directory of each node. A lock in it
// tells whether its coordinator still lives, so that what a killed one left
// behind is removed by the next.
type RunDir struct {
	Path   string
	prefix string // of the names of segments
	// segmentDirs are where segments may lie.
	segmentDirs []string
	lock        io.Closer
}

const runLock = "lock"

// disk holds the directories of runs, whatever holds the store.
var disk = vfs.OS{}

// maxSocketPath is the longest path of a Unix socket on Linux.
const maxSocketPath = 107

// runBase is the directory of all runs of this user: in $TMPDIR, or in /tmp if
// the path of a socket in it would be too long.
func runBase() (string, error) {
	tmp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("ckpt-%d", os.Getuid())
	base := filepath.Join(tmp, name)
	if len(base)+len("/0123456789ab/sock") > maxSocketPath {
		base = filepath.Join("/tmp", name)
	}
	return base, nil
}

// A TempError says that there is no place for sockets and scratch files.
type TempError struct{ Err error }

func (e *TempError) Error() string { return "directory for temporary files: " + e.Err.Error() }
func (e *TempError) Unwrap() error { return e.Err }

// Hint says what to do about it.
func (e *TempError) Hint() string { return "set TMPDIR to a directory that can be written" }

// NewRunDir makes the directory of a run, private to the user.
func NewRunDir(segmentDir string, nodes int) (*RunDir, error) {
	base, err := runBase()
	if err != nil {
		return nil, err
	}
	if err := disk.Mkdir(base); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	// Somebody else may have made it, in a directory open to all.
	fi, err := os.Lstat(base)
	if err != nil {
		return nil, err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !fi.IsDir() || fi.Mode().Perm() != 0o700 || (ok && int(st.Uid) != os.Getuid()) {
		return nil, fmt.Errorf("%s: not a private directory of this user", base)
	}
	for try := 0; ; try++ {
		r, err := makeRunDir(base, nodes)
		if r != nil {
			r.segmentDirs = []string{segmentDir, os.TempDir()}
		}
		// The sweep of another run may have been quicker than our lock.
		taken := errors.Is(err, vfs.ErrLocked) || errors.Is(err, os.ErrNotExist)
		if err == nil {
			sweepRuns(base, segmentDir)
		}
		if !taken || try == 10 {
			return r, err
		}
	}
}

func makeRunDir(base string, nodes int) (*RunDir, error) {
	id := make([]byte, 6)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	name := hex.EncodeToString(id)
	r := &RunDir{Path: filepath.Join(base, name), prefix: segmentPrefix(name)}
	if err := disk.Mkdir(r.Path); err != nil {
		return nil, err
	}
	var err error
	if r.lock, err = disk.Lock(filepath.Join(r.Path, runLock)); err != nil {
		return nil, err
	}
	for node := range nodes {
		if err := disk.Mkdir(r.Scratch(node)); err != nil {
			return nil, errors.Join(err, r.Remove())
		}
	}
	return r, nil
}

func segmentPrefix(run string) string { return fmt.Sprintf("ckpt-%d-%s-", os.Getuid(), run) }

func (r *RunDir) Socket() string          { return filepath.Join(r.Path, "sock") }
func (r *RunDir) Scratch(node int) string { return filepath.Join(r.Path, fmt.Sprintf("node-%d", node)) }

// Segment returns the path of the memory that the ranks of a group share on a
// node.
func (r *RunDir) Segment(dir string, group, incarnation, node int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%d-g%d-n%d", r.prefix, group, incarnation, node))
}

// Remove removes the directory, and the names of segments that no rank came to map.
func (r *RunDir) Remove() error {
	for _, dir := range r.segmentDirs {
		removePrefixed(dir, r.prefix)
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
		if _, err := os.Stat(filepath.Join(path, runLock)); err != nil {
			continue // just being made
		}
		lock, err := disk.Lock(filepath.Join(path, runLock))
		if err != nil {
			continue // alive
		}
		for _, dir := range []string{segmentDir, os.TempDir()} {
			removePrefixed(dir, segmentPrefix(e.Name()))
		}
		os.RemoveAll(path)
		lock.Close()
	}
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
