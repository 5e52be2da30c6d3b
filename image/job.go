package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"ckpt/image/container"
	"ckpt/image/plan/fileview"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

const (
	specName  = "job"
	specMagic = "ckpt-job "
	maxSpec   = 16 << 20
	lockName  = "lock"
)

// A Job holds the checkpoints of one job. Several goroutines may use it.
type Job struct {
	fs    vfs.FS
	store *Store
	name  string
	dir   string
	// device describes the storage, as measured for the store.
	device func() fileview.Device
	kept   *container.Place // with files that stay open; nil: they do not

	mu   sync.Mutex
	lock io.Closer   // nil if not ours
	file fs.FileInfo // that is locked; nil if it cannot be told
	open map[int]*Tx // checkpoints begun, until they are committed or aborted

	know    sync.Mutex // held for short; what it guards changes only while mu is held, too
	owned   bool       // the lock is ours
	catalog *catalog   // nil if not looked at yet, and without the lock

	described atomic.Pointer[string] // digest of the description, once it is known
}

// Name returns the name of the job.
func (j *Job) Name() string { return j.name }

// FS returns the file system of the job, for files that the coordinator keeps there.
func (j *Job) FS() vfs.FS { return j.fs }

// StoreDir returns the directory of the store that has the job.
func (j *Job) StoreDir() string { return j.store.dir }

// Store returns the store that has the job.
func (j *Job) Store() *Store { return j.store }

// Digest identifies the job, wherever its files are: the description has a random id.
func (j *Job) Digest() (string, error) { return j.description() }

// Through returns the job, for reading, as a file system around its own shows it.
func (j *Job) Through(fsys vfs.FS) *Job {
	return &Job{fs: fsys, store: &Store{fs: fsys, dir: j.store.dir}, name: j.name, dir: j.dir, device: j.device}
}

// Keep returns the job, for reading, each of whose files is opened once, until done is called.
func (j *Job) Keep() (again *Job, done func()) {
	place, done := j.Place().Keep()
	again = j.Through(j.fs)
	again.kept = &place
	return again, done
}

// Dir returns the directory of the job. The caller may keep files there under names that are
// not numbers and do not end in .tmp.
func (j *Job) Dir() string { return j.dir }

// SpecPath returns the path of the file with the description of the job.
func (j *Job) SpecPath() string { return filepath.Join(j.dir, specName) }

// Spec returns the description. It fails with a durable.DamageError or durable.ErrNewerVersion.
func (j *Job) Spec() ([]byte, error) {
	name := j.SpecPath()
	b, err := durable.ReadFile(j.fs, name, maxSpec+256)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &durable.DamageError{File: name, Reason: "the description of the job is missing", Err: err}
	}
	if err != nil {
		return nil, err
	}
	spec, _, err := unseal(name, specMagic, b)
	if err == nil {
		j.describe(b)
	}
	return spec, err
}

// describe keeps the digest of the description, which stays as long as there are checkpoints.
func (j *Job) describe(sealed []byte) {
	digest := sealOf(sealed)
	j.described.Store(&digest)
}

// description returns the digest of the description of the job.
func (j *Job) description() (string, error) {
	if d := j.described.Load(); d != nil {
		return *d, nil
	}
	if _, err := j.Spec(); err != nil {
		return "", err
	}
	return *j.described.Load(), nil
}

// Lock makes this process the only writer of the job, until Unlock or its end. It does not
// wait: ErrInUse if another has it.
func (j *Job) Lock() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lock != nil {
		return nil
	}
	if err := trust(j.fs, j.store.dir); err != nil {
		return err
	}
	l, err := j.fs.Lock(filepath.Join(j.dir, lockName))
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%w: %s", ErrInUse, j.dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s has gone", ErrJobNotFound, j.dir)
	}
	if err != nil {
		return durable.Op("lock", j.dir, -1, err)
	}
	if err := j.fence(l); err != nil {
		return errors.Join(durable.Op("lock", j.dir, -1, err), l.Close())
	}
	j.lock = l
	j.file, _ = j.fs.Stat(filepath.Join(j.dir, lockName))
	j.own(true)
	return nil
}

// fence keeps a holder before us, whose lease has run out, from committing what it has begun: the
// names of those manifests are forbidden. It began them before it lost the lock, since Commit
// makes sure of that, so that they are there to be seen.
func (j *Job) fence(l io.Closer) error {
	f, ok := j.fs.(vfs.Fencer)
	if lease, leased := l.(vfs.Lease); !ok || !leased || !lease.Contested() {
		return nil
	}
	all, err := j.numbers()
	if err != nil {
		return err
	}
	for _, n := range all {
		if n == container.JobNumber {
			continue
		}
		if _, err := j.fs.Stat(j.manifestPath(n)); errors.Is(err, fs.ErrNotExist) {
			err = f.Forbid(j.manifestPath(n))
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// forbidden fails with vfs.ErrForbidden if no manifest of checkpoint n can be made for now.
func (j *Job) forbidden(n int) error {
	f, ok := j.fs.(vfs.Fencer)
	if !ok {
		return nil
	}
	is, err := f.Forbidden(j.manifestPath(n))
	if is {
		err = vfs.ErrForbidden
	}
	return durable.Op("write", j.manifestPath(n), -1, err)
}

// Locked reports whether a process has the lock. It does not take it.
func (j *Job) Locked() (bool, error) {
	locked, err := j.fs.Locked(filepath.Join(j.dir, lockName))
	return locked, durable.Op("lock", j.dir, -1, err)
}

// own says whether what is known stays so.
func (j *Job) own(owned bool) {
	j.know.Lock()
	defer j.know.Unlock()
	j.owned, j.catalog = owned, nil
}

// Unlock gives the lock back.
func (j *Job) Unlock() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.letGo()
}

// letGo is Unlock for a caller that holds j.mu.
func (j *Job) letGo() error {
	if j.lock == nil {
		return nil
	}
	j.own(false)
	err := j.lock.Close()
	j.lock = nil
	return durable.Op("unlock", j.dir, -1, err)
}

// locked checks that we may write. The caller holds j.mu.
func (j *Job) locked(op string) error {
	if j.lock == nil {
		return durable.Op(op, j.dir, -1, errors.New("the job is not locked by this process"))
	}
	return nil
}

// InPlace checks that the directory of a locked job is still there. It fails with ErrJobGone.
func (j *Job) InPlace() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inPlace()
}

// inPlace is InPlace for a caller that holds j.mu.
func (j *Job) inPlace() error {
	now, err := j.fs.Stat(filepath.Join(j.dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := j.fs.Stat(j.dir); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s", ErrJobGone, j.dir)
		}
	}
	if err != nil || j.file == nil {
		return nil // the next operation tells
	}
	was, ok := j.file.Sys().(*syscall.Stat_t)
	is, too := now.Sys().(*syscall.Stat_t)
	if ok && too && (was.Ino != is.Ino || was.Dev != is.Dev) {
		return fmt.Errorf("%w: %s holds another job now", ErrJobGone, j.dir)
	}
	return nil
}

// Next returns a number that no checkpoint has or had, as far as traces are left.
func (j *Job) Next() (int, error) {
	all, err := j.numbers()
	if err != nil || len(all) == 0 {
		return 1, err
	}
	return all[len(all)-1] + 1, nil
}

// Manifest reads the manifest of checkpoint n. It fails with ErrCheckpointNotFound,
// durable.ErrOtherJob, durable.ErrNewerVersion or a durable.DamageError.
func (j *Job) Manifest(n int) (*Manifest, error) {
	name := j.manifestPath(n)
	b, err := durable.ReadFile(j.fs, name, maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: number %d of job %s", ErrCheckpointNotFound, n, j.name)
	}
	if err != nil {
		return nil, err
	}
	m, err := DecodeManifest(name, b)
	if err != nil {
		return nil, err
	}
	if m.Job != j.name {
		return nil, &container.OtherJobError{File: name, Job: m.Job, Want: j.name}
	}
	if m.Number != n {
		return nil, durable.Damaged(name, 0, "manifest is of checkpoint %d, not %d", m.Number, n)
	}
	if err := j.checkDescription(name, m); err != nil {
		return nil, err
	}
	return m, nil
}

// checkDescription checks that a checkpoint was taken under the description of the job. If that
// cannot be read, Spec says why.
func (j *Job) checkDescription(name string, m *Manifest) error {
	digest, err := j.description()
	if err != nil || m.Description == "" || m.Description == digest {
		return nil
	}
	return &durable.DamageError{File: name, Err: ErrOtherDescription,
		Reason: fmt.Sprintf("%v: its digest was %.8s…, that of %s is %.8s…", ErrOtherDescription, m.Description, j.SpecPath(), digest)}
}

// numbers lists the numbered directories, committed or not, ascending.
func (j *Job) numbers() ([]int, error) {
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return nil, durable.Op("list", j.dir, -1, err)
	}
	var all []int
	for _, e := range entries {
		if n, ok := container.ParseNumber(e.Name()); ok && e.IsDir() {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// NumberDir returns the directory of checkpoint n.
func (j *Job) NumberDir(n int) string { return filepath.Join(j.dir, container.FormatNumber(n)) }

// Stamp is a text that changes when checkpoint n becomes another one. It fails with
// fs.ErrNotExist.
func (j *Job) Stamp(n int) (string, error) {
	fi, err := j.fs.Stat(j.manifestPath(n))
	if err != nil {
		return "", err
	}
	return fmt.Sprint(fi.Size(), fi.ModTime().UnixNano()), nil
}

func (j *Job) manifestPath(n int) string { return filepath.Join(j.NumberDir(n), manifestName) }

// onDisk returns the bytes of a file without its holes, as far as that is known.
func onDisk(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return min(fi.Size(), st.Blocks*512)
	}
	return fi.Size()
}

// Place is where the container files of the job lie.
func (j *Job) Place() container.Place {
	if j.kept != nil {
		return *j.kept
	}
	return container.Place{FS: j.fs, Dir: j.dir, Job: j.name, Device: j.device}
}

// file returns the one of m.Files that has the path.
func (m *Manifest) file(path string) (container.File, error) {
	i := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Path == path })
	if i < 0 {
		return container.File{}, durable.Op("open", path, -1, fmt.Errorf("checkpoint %d has no such file", m.Number))
	}
	return m.Files[i], nil
}

// Load loads regions of a rank from one of m.Files, as container.Place.Load does.
func (j *Job) Load(ctx context.Context, m *Manifest, path string, rank int, into []zones.Region, opt container.LoadOptions) error {
	f, err := m.file(path)
	if err != nil {
		return err
	}
	return j.Place().Load(ctx, f, rank, into, opt)
}

// Check reads some of m.Files, named by their paths, as Load would, and keeps nothing.
func (j *Job) Check(ctx context.Context, m *Manifest, paths []string) error {
	for _, path := range paths {
		f, err := m.file(path)
		if err == nil {
			err = j.Place().Check(ctx, f, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// RegionBytes returns the size of a region of a rank in one of m.Files; 0 if it is not there.
func (j *Job) RegionBytes(m *Manifest, path string, rank int, name string) (int64, error) {
	f, err := m.file(path)
	if err != nil {
		return 0, err
	}
	regions, err := j.Place().Regions(f)
	for _, r := range regions {
		if r.Name == name && r.Of(rank) {
			return r.Size, nil
		}
	}
	return 0, err
}

// EachRegion calls f for each region of the data zone with its rank, until f fails. Its memory
// is not there.
func (j *Job) EachRegion(m *Manifest, f func(rank int, r zones.Region) error) error {
	for _, file := range m.Files {
		regions, err := j.Place().Regions(file)
		if err != nil {
			return err
		}
		for _, r := range regions {
			if r.Zone != zones.Data {
				continue
			}
			if err := f(r.Rank, r.Region); err != nil {
				return err
			}
		}
	}
	return nil
}

// Open opens one of m.Files, named by its path, and the files it refers to.
func (j *Job) Open(m *Manifest, path string) (*container.Contents, error) {
	f, err := m.file(path)
	if err != nil {
		return nil, err
	}
	return j.Place().Open(f)
}

// Tally counts the bytes of one of m.Files, named by its path, by region.
func (j *Job) Tally(m *Manifest, path string) (*container.Tally, error) {
	f, err := m.file(path)
	if err != nil {
		return nil, err
	}
	return j.Place().Tally(f)
}

// Recall fills h with what a file of checkpoint m holds of a rank, for the first checkpoint
// after a restart to refer to.
func (j *Job) Recall(h *container.History, m *Manifest, path string, rank int) error {
	f, err := m.file(path)
	if err != nil {
		return err
	}
	return h.Recall(j.Place(), f, m.Number, rank)
}

// AddTo puts the extents of checkpoint m into the pool.
func (j *Job) AddTo(p *container.Pool, m *Manifest) error {
	return p.Add(j.Place(), m.Number, m.Files)
}
