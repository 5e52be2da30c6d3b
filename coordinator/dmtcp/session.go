package dmtcp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// openSession makes the directory in which MPI libraries keep files, unless it is there. A
// restarted program looks for them at the same place. It returns a scratch directory, too.
func (e *engine) openSession() (scratch string, err error) {
	if scratch, err = e.scratch(); err != nil {
		return "", err
	}
	if e.state.Session == "" {
		sum := sha256.Sum256([]byte(e.job.Dir()))
		e.state.Session = filepath.Join(filepath.Dir(filepath.Dir(scratch)), "mpi-"+hex.EncodeToString(sum[:6]))
	}
	for _, dir := range []string{filepath.Dir(e.state.Session), e.state.Session} {
		if err := disk.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return scratch, e.holdSession()
}

// holdSession keeps the directory from cleaners of temporary files and from other runs.
func (e *engine) holdSession() (err error) {
	e.freeSession()
	e.session, err = e.state.hold()
	return err
}

// freeSession leaves the directory to cleaners of temporary files.
func (e *engine) freeSession() {
	if e.session != nil {
		e.session.Close()
	}
	e.session = nil
}

// hold holds the directory of the MPI library's files until Close; nil without a directory,
// and where there are no locks. A copy of the job names the directory and the processes of
// the original as its own. It fails with image.ErrInUse while the original runs: a restart
// of the copy would use its files.
func (s *state) hold() (io.Closer, error) {
	held, err := launch.HoldDir(s.Session)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return nil, fmt.Errorf("%w: a copy of it, or the original, runs with files in %s", image.ErrInUse, s.Session)
	case err != nil:
		return nil, nil
	}
	return held, nil
}

// endLeft kills the processes of a run whose coordinator was killed; on another host, and after
// another start of this one, their numbers mean nothing. The caller holds the directory of the
// MPI library's files.
func endLeft(s *state) {
	if here, _ := wire.ThisHost(); wire.SameProcesses(s.Boot, here) {
		endAll(s.Processes)
	}
	s.Processes = nil
}
