package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/image/container"
	"ckpt/image/plan/fileview"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

const (
	formatName = "format"
	storeMagic = "ckpt-store "
	jobsName   = "jobs"
)

// A Store is a directory, perhaps in an object storage, that holds the checkpoints of jobs.
type Store struct {
	fs  vfs.FS
	dir string
}

// OpenStore opens the store in dir. It fails with ErrNoStore, durable.ErrNewerVersion, or with
// ErrNoIdentity for a sealed store that it cannot open.
func OpenStore(fsys vfs.FS, dir string) (*Store, error) {
	fsys, err := vfs.At(fsys, dir)
	if err != nil {
		return nil, durable.Op("open store", dir, -1, err)
	}
	v, err := storeFormat(fsys, dir)
	if err == nil && v == sealedVersion {
		fsys, err = unsealed(fsys, dir)
	}
	if err != nil {
		return nil, err
	}
	return &Store{fs: forOwner(fsys, dir), dir: dir}, nil
}

// storeFormat returns the format of the store in dir. It fails with ErrNoStore or
// durable.ErrNewerVersion.
func storeFormat(fsys vfs.FS, dir string) (int, error) {
	name := filepath.Join(dir, formatName)
	b, err := durable.ReadFile(fsys, name, 4096)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return 0, fmt.Errorf("%s is %w", dir, ErrNoStore)
	case err != nil:
		return 0, err
	}
	rest, ok := strings.CutPrefix(string(b), storeMagic)
	v, err := strconv.Atoi(strings.TrimSuffix(rest, "\n"))
	if !ok || err != nil || v < 1 || !strings.HasSuffix(rest, "\n") {
		return 0, fmt.Errorf("%s is %w: %s says %.40q", dir, ErrNoStore, name, b)
	}
	if v > sealedVersion {
		return 0, fmt.Errorf("store %s has format %d: %w, which reads formats up to %d",
			dir, v, durable.ErrNewerVersion, sealedVersion)
	}
	return v, nil
}

// CreateStore opens the store in dir, and makes it with its parents (0700) if there is none.
// Several processes may do so at once.
func CreateStore(fsys vfs.FS, dir string) (*Store, error) {
	fsys, err := vfs.At(fsys, dir)
	if err != nil {
		return nil, durable.Op("open store", dir, -1, err)
	}
	if _, err := OpenStore(fsys, dir); errors.Is(err, ErrNoStore) {
		if err := checkApart(fsys, dir); err != nil { // before anything is written
			return nil, durable.Op("create store in", dir, -1, err)
		}
	}
	if err := trust(fsys, dir); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		s, err := OpenStore(fsys, dir)
		if err == nil || !errors.Is(err, ErrNoStore) {
			return s, err
		}
		if _, serr := fsys.Stat(filepath.Join(dir, formatName)); serr == nil {
			return OpenStore(fsys, dir) // another process has just made it, or this is no store
		}
		err = createStore(fsys, dir, formatVersion)
		// Somebody else who makes it at this moment may have taken our file.
		if err == nil || try == 10 || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			if err != nil {
				return nil, durable.Op("create store in", dir, -1, err)
			}
			return &Store{fs: forOwner(fsys, dir), dir: dir}, nil
		}
	}
}

// trust makes sure, before a store is written to, that its storage keeps two writers apart.
func trust(fsys vfs.FS, dir string) error {
	f, ok := fsys.(vfs.Fencer)
	if !ok {
		return nil
	}
	return durable.Op("write to", dir, -1, f.Trust(dir))
}

func createStore(fsys vfs.FS, dir string, format int) error {
	if err := durable.MkdirAll(fsys, dir); err != nil {
		return err
	}
	if err := durable.Mkdir(fsys, filepath.Join(dir, jobsName)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.Replace(fsys, filepath.Join(dir, formatName), fmt.Appendf(nil, "%s%d\n", storeMagic, format))
}

// checkApart refuses a directory among the jobs of a store, which would take it for one of them.
func checkApart(fsys vfs.FS, dir string) error {
	above, err := filepath.Abs(dir)
	for err == nil && above != filepath.Dir(above) {
		name := filepath.Base(above)
		above = filepath.Dir(above)
		if name != jobsName {
			continue
		}
		if _, ferr := storeFormat(fsys, above); ferr == nil {
			err = fmt.Errorf("%s %w, %s", dir, ErrAmongJobs, above)
		}
	}
	return err
}

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Jobs lists the names of the jobs, sorted, also of those that cannot be read: Job says why.
func (s *Store) Jobs() ([]string, error) {
	dir := filepath.Join(s.dir, jobsName)
	entries, err := s.fs.ReadDir(dir)
	if err != nil {
		return nil, durable.Op("list", dir, -1, err)
	}
	var names []string
	for _, e := range entries {
		if !container.ValidJobName(e.Name()) {
			continue
		}
		// A directory with nothing in it is a job whose creation was cut short.
		if there, err := s.job(e.Name()).there(); err != nil || there {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Job returns the job of this name, for reading; to write, call Lock on it.
func (s *Store) Job(name string) (*Job, error) {
	j := s.job(name)
	if !container.ValidJobName(name) {
		return nil, fmt.Errorf("%w: %q is not a valid name", ErrJobNotFound, name)
	}
	there, err := j.there()
	if err != nil {
		return nil, durable.Op("open job", j.dir, -1, err)
	}
	if !there {
		return nil, fmt.Errorf("%w: %s in %s", ErrJobNotFound, name, s.dir)
	}
	return j, nil
}

// CheckJobName says what is wrong with the name of a job, if anything.
func CheckJobName(name string) error {
	if !container.ValidJobName(name) {
		return fmt.Errorf("job name %.120q is not valid: want a letter or digit, then up to 100 of those and . _ -", name)
	}
	return nil
}

// CreateJob makes a job under its lock. The spec is the caller's description. A name has up to
// 101 letters, digits, dots, dashes and underscores and begins with a letter or digit.
func (s *Store) CreateJob(name string, spec []byte) (*Job, error) {
	return s.create(name, spec, (*Job).there, func(*Job) error { return nil })
}

// TakeOverJob is CreateJob, but it also replaces a job without checkpoints that no coordinator
// runs. Clear, called under the lock, removes durably those of the caller's files that must not
// pass for the new job's.
func (s *Store) TakeOverJob(name string, spec []byte, clear func(*Job) error) (*Job, error) {
	return s.create(name, spec, (*Job).hasCheckpoints, clear)
}

// CheckFree fails where TakeOverJob would, as far as can be told without changing anything.
func (s *Store) CheckFree(name string) error {
	j := s.job(name)
	is, err := j.hasCheckpoints()
	if err == nil && is {
		return fmt.Errorf("%w: %s", ErrJobExists, j.dir)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrJobNotFound) {
		return nil
	}
	if locked, lerr := j.Locked(); err == nil && lerr == nil && locked {
		return fmt.Errorf("%w: %s", ErrInUse, j.dir)
	}
	return durable.Op("create job", j.dir, -1, err)
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
	err := durable.Mkdir(j.fs, j.dir)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, durable.Op("create job", j.dir, -1, err)
	}
	free := func() error {
		is, err := taken(j)
		if err == nil && is {
			return fmt.Errorf("%w: %s", ErrJobExists, j.dir)
		}
		return durable.Op("create job", j.dir, -1, err)
	}
	// A creation may have been cut short: the spec makes the job, and only the lock's owner
	// writes it.
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
		_, err = s.Own()
	}
	if err == nil {
		err = durable.Op("create job", j.dir, -1, j.writeSpec(spec))
	}
	if err != nil {
		j.Unlock()
		return nil, err
	}
	return j, nil
}

func (j *Job) writeSpec(spec []byte) error {
	sealed := seal(specMagic, spec)
	err := durable.Replace(j.fs, filepath.Join(j.dir, specName), sealed)
	j.describe(sealed)
	return err
}

// Redescribe replaces the description of a job without checkpoints. It needs the lock.
func (j *Job) Redescribe(spec []byte) error {
	if err := j.InPlace(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.locked("describe"); err != nil {
		return err
	}
	taken, err := j.hasCheckpoints()
	if err == nil && taken {
		err = errors.New("the job has checkpoints, which were taken under its description")
	}
	if err != nil {
		return durable.Op("describe", j.dir, -1, err)
	}
	return durable.Op("describe", j.dir, -1, j.writeSpec(spec))
}

// there reports whether the directory holds a job: its spec or checkpoints.
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

// job returns the job of a name. Root writes into another user's job for that user.
func (s *Store) job(name string) *Job {
	dir := filepath.Join(s.dir, jobsName, name)
	return &Job{fs: forOwner(s.fs, dir), store: s, name: name, dir: dir,
		device: sync.OnceValue(func() fileview.Device { return s.Storage().Device() })}
}

// storageName is the file of a store that says how fast its storage reads.
const storageName = "storage.json"

// Storage describes how fast the storage of a store reads. It decides which holes between
// extents are read along, never what is read.
type Storage struct {
	Bandwidth float64       `json:"bytes_per_s"`
	Call      time.Duration `json:"call_ns"` // cost of a call however short it is
	Measured  time.Time     `json:"measured,omitzero"`
}

// usualStorage serves a store that was not measured.
var usualStorage = Storage{Bandwidth: container.UsualDevice.Bandwidth, Call: container.UsualDevice.Latency}

// BreakEven returns the bytes that the storage reads in the time of a call.
func (s Storage) BreakEven() int64 { return int64(s.Bandwidth * s.Call.Seconds()) }

// Device describes the storage to the rules of data sieving.
func (s Storage) Device() fileview.Device {
	return fileview.Device{Bandwidth: s.Bandwidth, Latency: s.Call, Block: container.BlockSize}
}

// sound reports whether the numbers are possible.
func (s Storage) sound() bool {
	return s.Bandwidth >= 1<<10 && s.Bandwidth <= 1<<50 && s.Call > 0 && s.Call <= time.Minute
}

// Storage returns what SetStorage has kept. Without it, or if the file is damaged, the storage
// counts as usual: the numbers only cost time.
func (s *Store) Storage() Storage {
	b, err := durable.ReadFile(s.fs, filepath.Join(s.dir, storageName), 4096)
	kept := Storage{}
	if err != nil || json.Unmarshal(b, &kept) != nil || !kept.sound() {
		return usualStorage
	}
	return kept
}

// SetStorage keeps what was measured of the storage, for all jobs of the store.
func (s *Store) SetStorage(measured Storage) error {
	b, err := json.Marshal(measured)
	if err != nil {
		return err
	}
	return durable.Replace(s.fs, filepath.Join(s.dir, storageName), append(b, '\n'))
}
