package dmtcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/family"
	"ckpt/internal/vfs"
)

// disk holds the files that DMTCP writes, whatever holds the store.
var disk = vfs.OS{}

// The names in the directory of the engine.
const (
	engineName = "dmtcp" // in the directory of a job
	// liveName is where DMTCP writes. It also reads there: a restarted program looks for
	// files that it shares at the place where they were written.
	liveName  = "live"
	logName   = "coordinator.log"
	setPrefix = "set-"
	// tempEnd is the end of the name of an image that DMTCP has not finished.
	tempEnd = ".temp"
)

// A directory is where a job under DMTCP keeps what is no checkpoint of the store: images
// that wait to be stored, those that a restart reads, and files of DMTCP's coordinator.
type directory struct {
	root  string
	local string // the root, if it lies on the node
}

// openDirectory makes the directory of a job, private to the user: beside its checkpoints, or on
// the node. Another host begins with an empty one.
func openDirectory(j *image.Job, on *nodes.Setting) (*directory, error) {
	d := &directory{root: filepath.Join(j.Dir(), engineName)}
	made := []string{d.root} // which has the state
	if on != nil {
		d.local = filepath.Join(on.NodeDir(0), localName(j))
		d.root = d.local
		if err := durable.MkdirAll(disk, on.NodeDir(0)); err != nil {
			return nil, durable.Op("create", on.NodeDir(0), -1, err)
		}
		made = append(made, d.local)
	}
	for _, dir := range made {
		if err := disk.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, durable.Op("create", dir, -1, err)
		}
	}
	return d, nil
}

// localName names the directory of a job on the node. A copy of the job has another one.
func localName(j *image.Job) string {
	return engineName + strings.TrimPrefix(sessionName(j), sessionPrefix)
}

// removeLocal removes what a job has on the node, but not what the original of a copy has.
func (s *state) removeLocal(j *image.Job) error {
	if s.Local == "" || filepath.Base(s.Local) != localName(j) {
		return nil
	}
	return removeTree(s.Local)
}

func (d *directory) path(name string) string { return filepath.Join(d.root, name) }

// renew makes an empty directory.
func (d *directory) renew(name string) error {
	if err := d.discard(name); err != nil {
		return err
	}
	if err := d.mend(); err != nil {
		return err
	}
	return durable.Op("create", d.path(name), -1, disk.Mkdir(d.path(name)))
}

// mend makes a directory on the node again that was lost.
func (d *directory) mend() error {
	if d.local == "" {
		return nil
	}
	return durable.Op("create", d.local, -1, durable.MkdirAll(disk, d.local))
}

// discard removes a directory with all that is in it.
func (d *directory) discard(name string) error {
	return durable.Op("remove", d.path(name), -1, os.RemoveAll(d.path(name)))
}

// keepOnly removes all sets but some.
func (d *directory) keepOnly(sets []string) error {
	entries, err := disk.ReadDir(d.root)
	if err != nil {
		return durable.Op("list", d.root, -1, err)
	}
	kept := strings.Join(sets, "/") + "/"
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), setPrefix) && !strings.Contains(kept, e.Name()+"/") {
			if err := d.discard(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file that may not be there.
func (d *directory) remove(path string) error { return durable.Remove(disk, path) }

// removeAll removes files that may not be there.
func (d *directory) removeAll(paths []string) error {
	for _, path := range paths {
		if err := d.remove(path); err != nil {
			return err
		}
	}
	return nil
}

// read returns a small file, "" if it cannot be read.
func (d *directory) read(path string) string {
	b, err := durable.ReadFile(disk, path, 1<<20)
	if err != nil {
		return ""
	}
	return string(b)
}

// create makes a file for the output of another process.
func (d *directory) create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// unfinished returns the name of an image that DMTCP has not finished, or "".
func (d *directory) unfinished(name string) (string, error) {
	entries, err := disk.ReadDir(d.path(name))
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tempEnd) {
			return e.Name(), nil
		}
	}
	return "", nil
}

// settle moves all that DMTCP has written into a directory of its own, durably.
func (d *directory) settle(set string) error {
	if err := d.renew(set); err != nil {
		return err
	}
	if err := syncTree(d.path(liveName)); err != nil {
		return err
	}
	entries, err := disk.ReadDir(d.path(liveName))
	if err != nil {
		return durable.Op("list", d.path(liveName), -1, err)
	}
	for _, e := range entries {
		if err := disk.Rename(filepath.Join(d.path(liveName), e.Name()), filepath.Join(d.path(set), e.Name())); err != nil {
			return durable.Op("rename", e.Name(), -1, err)
		}
	}
	for _, dir := range []string{d.path(set), d.root} {
		if err := disk.SyncDir(dir); err != nil {
			return durable.Op("sync", dir, -1, err)
		}
	}
	return nil
}

// reuse makes a set what DMTCP reads.
func (d *directory) reuse(set string) error {
	if err := d.discard(liveName); err != nil {
		return err
	}
	return durable.Op("rename", d.path(set), -1, disk.Rename(d.path(set), d.path(liveName)))
}

// syncTree makes all files of a directory durable.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		if e.IsDir() {
			return durable.Op("sync", path, -1, disk.SyncDir(path))
		}
		f, err := disk.Open(path)
		if err != nil {
			return durable.Op("open", path, -1, err)
		}
		return durable.Op("sync", path, -1, errors.Join(f.Sync(), f.Close()))
	})
}

// written measures what lies in a directory: it grows while DMTCP writes.
func (d *directory) written(name string) (bytes int64) {
	_ = filepath.WalkDir(d.path(name), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil // files come and go meanwhile
	})
	return bytes
}

// images lists the images in a directory.
func (d *directory) images(name string) ([]string, error) {
	entries, err := disk.ReadDir(d.path(name))
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".dmtcp") {
			list = append(list, filepath.Join(d.path(name), e.Name()))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no image is in %s", d.path(name))
	}
	return list, nil
}

// free returns how many bytes may still be written.
func (d *directory) free() (int64, error) { return disk.Free(d.root) }

func removeTree(path string) error { return durable.Op("remove", path, -1, os.RemoveAll(path)) }

// A state is what another coordinator needs to take over: the processes of the run, and
// the images that are not stored yet. Its file is replaced as a whole.
type state struct {
	Format int    `json:"format"`           // 1
	ID     string `json:"job_id,omitempty"` // random, of the description of the job, whose digest changes
	// Boot is the identity of the host on which the processes run, as wire.ThisHost says it.
	Boot    string `json:"boot"`
	Session string `json:"session"` // directory of the MPI library's files
	// Local is the directory of the images on the node; empty: they lie beside this file.
	Local string `json:"local,omitempty"`
	// Segments is the directory of files in memory that ranks share: names in /dev/shm itself
	// are the same for every job of Open MPI on a host.
	Segments  string           `json:"segments,omitempty"`
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
	of     *taking       // nil if an earlier run left the set
	before *rawSet       // was pending when DMTCP wrote this one
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

// openSession makes the directories in which MPI libraries keep files, unless they are there. A
// restarted program looks for them, and for the mark of its end, at the same place. Segments of
// earlier processes go: a rank that finds one reads what another job has written. It returns a
// scratch directory, too.
func (e *Engine) openSession(ctx context.Context, begins bool) (scratch string, err error) {
	if scratch, err = e.driver.Scratch(ctx); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.Session == "" {
		e.state.Session = filepath.Join(filepath.Dir(filepath.Dir(scratch)), sessionName(e.Job))
	}
	if begins {
		e.state.Mark = filepath.Join(e.state.Session, markName)
		e.state.Segments = segmentsOf(e.state.Session)
	}
	for _, dir := range []string{filepath.Dir(e.state.Session), e.state.Session} {
		if err := disk.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	if err := e.holdSession(); err != nil {
		return "", err
	}
	return scratch, e.state.renewSegments()
}

const sessionPrefix = "mpi"

// sessionName names the directory of the MPI library's files. A copy of a job has another one.
func sessionName(j *image.Job) string {
	sum := sha256.Sum256([]byte(j.Dir()))
	return sessionPrefix + "-" + hex.EncodeToString(sum[:6])
}

// inMemory is the file system in memory of every Linux.
const inMemory = "/dev/shm"

// segmentsOf returns the directory of shared files that belongs to a session: in memory where
// that can be, else in the session.
func segmentsOf(session string) string {
	if _, err := disk.Stat(inMemory); err != nil {
		return filepath.Join(session, "segments")
	}
	return filepath.Join(inMemory, fmt.Sprintf("ckpt-%d-%s", os.Geteuid(), filepath.Base(session)))
}

// renewSegments makes the directory of segments, empty. Jobs of earlier versions have none.
func (s *state) renewSegments() error {
	if s.Segments == "" {
		return nil
	}
	return errors.Join(removeTree(s.Segments), disk.Mkdir(s.Segments))
}

// Remove removes what a job has outside its store, unless a copy of the job runs there. A copy
// that was never started has nothing.
func Remove(j *image.Job) error {
	s, err := readState(j)
	if err != nil || filepath.Base(s.Session) != sessionName(j) {
		return nil // it says nothing of our files
	}
	held, err := s.hold()
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close()
	}
	return errors.Join(removeTree(s.Session), removeTree(segmentsOf(s.Session)), s.removeLocal(j))
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
