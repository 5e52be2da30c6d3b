package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"ckpt/image/plan/fileview"
	"ckpt/internal/vfs"
)

const (
	formatName = "format"
	storeMagic = "ckpt-store "
	jobsName   = "jobs"
	specName   = "job"
	specMagic  = "ckpt-job "
	lockName   = "lock"
	tmpSuffix  = ".tmp"
	maxSpec    = 16 << 20
)

// A Store is a directory that holds the checkpoints of jobs.
type Store struct {
	fs  vfs.FS
	dir string
}

// OpenStore opens the store in dir. It fails with ErrNoStore if there is none
// and with ErrNewerVersion if it is not for us.
func OpenStore(fsys vfs.FS, dir string) (*Store, error) {
	s := &Store{fs: fsys, dir: dir}
	name := filepath.Join(dir, formatName)
	b, err := readFile(fsys, name, 4096)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%s is %w", dir, ErrNoStore)
	case err != nil:
		return nil, err
	}
	rest, ok := strings.CutPrefix(string(b), storeMagic)
	v, err := strconv.Atoi(strings.TrimSuffix(rest, "\n"))
	if !ok || err != nil || v < 1 || !strings.HasSuffix(rest, "\n") {
		return nil, fmt.Errorf("%s is %w: %s says %.40q", dir, ErrNoStore, name, b)
	}
	if v > formatVersion {
		return nil, fmt.Errorf("store %s has format %d: %w, which reads formats up to %d",
			dir, v, ErrNewerVersion, formatVersion)
	}
	return s, nil
}

// CreateStore opens the store in dir, and makes it, and its parents, if there
// is none. Directories are for the user alone (0700). Several may do so at once.
func CreateStore(fsys vfs.FS, dir string) (*Store, error) {
	for try := 0; ; try++ {
		s, err := OpenStore(fsys, dir)
		if err == nil || !errors.Is(err, ErrNoStore) {
			return s, err
		}
		if _, serr := fsys.Stat(filepath.Join(dir, formatName)); serr == nil {
			return nil, err // something else is there: hands off
		}
		err = createStore(fsys, dir)
		// Somebody else who makes it at this moment may have taken our file.
		if err == nil || try == 10 || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			if err != nil {
				return nil, opError("create store in", dir, -1, err)
			}
			return &Store{fs: fsys, dir: dir}, nil
		}
	}
}

func createStore(fsys vfs.FS, dir string) error {
	if err := mkdirAll(fsys, dir); err != nil {
		return err
	}
	if err := mkdirSync(fsys, filepath.Join(dir, jobsName)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeAtomic(fsys, dir, formatName, fmt.Appendf(nil, "%s%d\n", storeMagic, formatVersion))
}

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Jobs lists the names of the jobs, sorted.
func (s *Store) Jobs() ([]string, error) {
	dir := filepath.Join(s.dir, jobsName)
	entries, err := s.fs.ReadDir(dir)
	if err != nil {
		return nil, opError("list", dir, -1, err)
	}
	var names []string
	for _, e := range entries {
		if !validJobName(e.Name()) {
			continue
		}
		// A directory with nothing in it is a job whose creation was cut short.
		if there, err := s.job(e.Name()).there(); err == nil && there {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Job returns the job of this name, for reading; to write, call Lock on it.
func (s *Store) Job(name string) (*Job, error) {
	j := s.job(name)
	if !validJobName(name) {
		return nil, fmt.Errorf("%w: %q is not a valid name", ErrJobNotFound, name)
	}
	there, err := j.there()
	if err != nil {
		return nil, opError("open job", j.dir, -1, err)
	}
	if !there {
		return nil, fmt.Errorf("%w: %s in %s", ErrJobNotFound, name, s.dir)
	}
	return j, nil
}

// CheckJobName says what is wrong with the name of a job, if anything.
func CheckJobName(name string) error {
	if !validJobName(name) {
		return fmt.Errorf("job name %.120q is not valid: want a letter or digit, then up to 100 of those and . _ -", name)
	}
	return nil
}

// CreateJob makes a job and takes its lock. The spec is the caller's own
// description of the job. A name has up to 101 letters, digits, dots, dashes
// and underscores and begins with a letter or digit.
func (s *Store) CreateJob(name string, spec []byte) (*Job, error) {
	return s.create(name, spec, (*Job).there, func(*Job) error { return nil })
}

// TakeOverJob is CreateJob, but it also replaces a job that has no checkpoint,
// unless another coordinator runs it. Clear is called under the lock, before the
// spec is written: it removes, durably, what of the caller's own in the directory
// must not be taken for the new job's.
func (s *Store) TakeOverJob(name string, spec []byte, clear func(*Job) error) (*Job, error) {
	return s.create(name, spec, (*Job).hasCheckpoints, clear)
}

// create makes a job unless taken says that its name is.
func (s *Store) create(name string, spec []byte, taken func(*Job) (bool, error), clear func(*Job) error) (*Job, error) {
	if err := CheckJobName(name); err != nil {
		return nil, err
	}
	if len(spec) > maxSpec {
		return nil, fmt.Errorf("spec of job %s is %d bytes long, limit %d", name, len(spec), maxSpec)
	}
	j := s.job(name)
	err := mkdirSync(s.fs, j.dir)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, opError("create job", j.dir, -1, err)
	}
	free := func() error {
		is, err := taken(j)
		if err == nil && is {
			return fmt.Errorf("%w: %s", ErrJobExists, j.dir)
		}
		return opError("create job", j.dir, -1, err)
	}
	// The directory may be there from a creation that was cut short; what
	// makes the job is its spec. Under the lock only one can write that.
	if err := free(); err != nil {
		return nil, err
	}
	if err := j.Lock(); err != nil {
		return nil, err
	}
	if err = free(); err == nil {
		err = clear(j)
	}
	if err == nil {
		sealed := seal(specMagic, spec)
		err = opError("create job", j.dir, -1, writeAtomic(s.fs, j.dir, specName, sealed))
		j.describe(sealed)
	}
	if err != nil {
		j.Unlock()
		return nil, err
	}
	return j, nil
}

// there reports whether the directory holds a job: its spec, or, if that was
// lost, checkpoints.
func (j *Job) there() (bool, error) {
	_, err := j.fs.Stat(filepath.Join(j.dir, specName))
	if !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	if _, err := j.fs.Stat(j.dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return j.hasCheckpoints()
}

func (j *Job) hasCheckpoints() (bool, error) {
	all, err := j.Checkpoints()
	return len(all) > 0, err
}

func (s *Store) job(name string) *Job {
	return &Job{fs: s.fs, name: name, dir: filepath.Join(s.dir, jobsName, name),
		device: sync.OnceValue(func() fileview.Device { return s.Storage().Device() })}
}

func validJobName(name string) bool {
	if len(name) < 1 || len(name) > 101 {
		return false
	}
	for i, c := range []byte(name) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// mkdirSync makes a directory and its name durable. It syncs the parent even
// if the directory is there: whoever made it may not have come so far.
func mkdirSync(fsys vfs.FS, dir string) error {
	err := fsys.Mkdir(dir)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if serr := fsys.SyncDir(filepath.Dir(dir)); serr != nil {
		return serr
	}
	return err
}

func mkdirAll(fsys vfs.FS, dir string) error {
	if fi, err := fsys.Stat(dir); err == nil {
		if !fi.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := mkdirAll(fsys, parent); err != nil {
			return err
		}
	}
	if err := mkdirSync(fsys, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// writeAtomic makes or replaces the file dir/name: after a crash it is the old
// one or the new one.
func writeAtomic(fsys vfs.FS, dir, name string, b []byte) error {
	final := filepath.Join(dir, name)
	tmp := final + tmpSuffix
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	if err := fillFile(f, tmp, b); err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	if err := fsys.Rename(tmp, final); err != nil {
		return errors.Join(opError("rename", tmp, -1, err), fsys.Remove(tmp))
	}
	return opError("sync", dir, -1, fsys.SyncDir(dir))
}

// fillFile writes b, checks the length, syncs and closes.
func fillFile(f vfs.File, path string, b []byte) error {
	n, err := f.WriteAt(b, 0)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	err = opError("write", path, 0, err)
	if err == nil {
		err = opError("sync", path, -1, f.Sync())
	}
	if err == nil {
		var size int64
		if size, err = f.Size(); err == nil && size != int64(len(b)) {
			err = fmt.Errorf("file is %d bytes long after writing %d", size, len(b))
		}
		err = opError("write", path, -1, err)
	}
	if cerr := f.Close(); err == nil {
		err = opError("close", path, -1, cerr)
	}
	return err
}

// readFile reads a small file, at most limit bytes.
func readFile(fsys vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, opError("open", path, -1, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, opError("read", path, -1, err)
	}
	if size > limit {
		return nil, damaged(path, limit, "file is %d bytes long, limit %d", size, limit)
	}
	b := make([]byte, size)
	if err := readAt(f, path, b, 0); err != nil {
		return nil, err
	}
	return b, nil
}
