package dmtcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/family"
	"ckpt/internal/vfs"
)

// A state is what another coordinator needs to take over: the processes of the run, and
// the images that are not stored yet. Its file is replaced as a whole.
type state struct {
	Format int    `json:"format"`           // 1
	ID     string `json:"job_id,omitempty"` // random, of the description of the job, whose digest changes
	// Boot is the identity of the host on which the processes run, as wire.ThisHost says it.
	Boot      string           `json:"boot"`
	Session   string           `json:"session"` // directory of the MPI library's files
	Processes []family.Process `json:"processes,omitempty"`
	// Pending is a set that is whole and not stored yet, Spare one that is stored.
	Pending *rawSet `json:"pending,omitempty"`
	Spare   *rawSet `json:"spare,omitempty"`
	Sets    int     `json:"sets"` // how many were made
	// Mark is the file in which the program marks its end; earlier versions had no such file.
	Mark string `json:"mark,omitempty"`
}

// A rawSet is the files that DMTCP wrote for a checkpoint.
type rawSet struct {
	Name   string        `json:"name"`
	Number int           `json:"number,omitempty"` // of the checkpoint, once it is stored
	From   int           `json:"from"`             // checkpoint that the run was restarted from
	Pause  time.Duration `json:"pause"`            // of the program
	Peers  int           `json:"peers"`
}

// readState reads the state of a job; the zero value without one, and with an error: the
// processes of another job stay.
func readState(j *image.Job) (state, error) {
	var s state
	err := job.ReadState(j, &s)
	if err == nil && s.Format > 1 {
		err = durable.ErrNewerVersion
	}
	if err != nil {
		return state{}, err
	}
	return s, nil
}

// write replaces the state of a job, durably.
func (s *state) write(j *image.Job) error {
	s.Format = 1
	return durable.Op("write", job.StatePath(j), -1, durable.ReplaceSealed(j.FS(), job.StatePath(j), s))
}

// openSession makes the directory in which MPI libraries keep files, unless it is there. A
// restarted program looks for them at the same place. It returns a scratch directory, too.
func (e *Engine) openSession(ctx context.Context) (scratch string, err error) {
	if scratch, err = e.Scratch(ctx); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.Session == "" {
		sum := sha256.Sum256([]byte(e.Job.Dir()))
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
func (e *Engine) holdSession() (err error) {
	e.freeSession()
	e.session, err = e.state.hold()
	return err
}

// freeSession leaves the directory to cleaners of temporary files.
func (e *Engine) freeSession() {
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
	if wire.SameProcesses(s.Boot, thisHost()) {
		endAll(s.Processes)
	}
	s.Processes = nil
}

func thisHost() string {
	here, _ := wire.ThisHost()
	return here
}
