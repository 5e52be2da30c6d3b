package machine

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// A Volume is what a file system says of itself.
type Volume struct {
	Kind               string
	Bytes, Free        int64 // Free is vfs.Unbounded if the file system does not tell
	Inodes, FreeInodes int64 // 0 inodes: the file system makes them as needed
	// Targets are those of a parallel file system, as far as it tells.
	Targets []TargetSpace
}

// A TargetSpace is the free space of an OST of Lustre.
type TargetSpace struct {
	Name string
	Free int64
}

// readTargets reads the output of lfs df: the OSTs, of which inactive ones say nothing.
func readTargets(text string) (list []TargetSpace) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 6 || !strings.Contains(f[5], "[OST:") {
			continue
		}
		if kib, err := strconv.ParseInt(f[3], 10, 53); err == nil {
			list = append(list, TargetSpace{strings.TrimSuffix(f[0], "_UUID"), kib << 10})
		}
	}
	return list
}

// fullest examines the target with the least free space: files on it fail when it is full,
// whatever is free elsewhere. Need is what the largest checkpoint of the store takes.
func fullest(r *Report, v *Volume, need int64) {
	if len(v.Targets) == 0 {
		return
	}
	t := slices.MinFunc(v.Targets, func(a, b TargetSpace) int { return cmp.Compare(a.Free, b.Free) })
	const least, remedy = 1 << 20, "lfs setstripe -o LIST, or -p POOL, on the store leaves it out; lfs find lists its files"
	switch text := fmt.Sprintf("the fullest of %d targets, %s, has %s MiB free", len(v.Targets), t.Name, ui.MiB(t.Free)); {
	case t.Free < least:
		r.add("targets", Problem, remedy, "%s: files on it fail, although %s MiB are free in all", text, ui.MiB(v.Free))
	case t.Free < need:
		r.add("targets", Warning, remedy, "%s, less than a checkpoint of the store took (%s MiB)", text, ui.MiB(need))
	default:
		r.fine("targets", "%s", text)
	}
}

// space says how much of it is free.
func (v *Volume) space() string {
	if v.Free == vfs.Unbounded {
		return "the file system does not say how much is free"
	}
	return fmt.Sprintf("%s of %s MiB free", ui.MiB(v.Free), ui.MiB(v.Bytes))
}

// fleeting are file systems that do not survive what checkpoints are for.
var fleeting = map[string]string{
	"tmpfs":   "its files are in memory: a reboot loses them",
	"ramfs":   "its files are in memory: a reboot loses them",
	"overlay": "the layer of a container: its files go with the container",
}

// store examines the directory of the store, or the one that it would be made in.
func (m *Machine) store(r *Report) {
	if vfs.Mounted(r.Store) {
		m.objects(r)
		return
	}
	dir, exists, err := m.existing(r.Store)
	if err != nil {
		r.add("store", Problem, "name a directory with --store", "%v", err)
		return
	}
	store, err := image.OpenStore(m.FS, r.Store)
	if exists && err != nil && !errors.Is(err, image.ErrNoStore) {
		r.add("store", Problem, cmp.Or(ui.HintOf(err), "name another directory with --store"), "%v", err)
		return
	}
	unwritable := m.probe(dir, m.FS.Create)
	switch {
	case unwritable != nil:
		r.add("store", Problem, "name a directory with write permission and free space with --store", "%s cannot be written: %v", dir, unwritable)
		m.volume(r, dir, store)
		return
	case !exists:
		r.fine("store", "%s does not exist; ckpt launch can make it", r.Store)
	case store == nil:
		r.fine("store", "%s can be written, and is not a store yet", r.Store)
	default:
		r.fine("store", "%s can be written", r.Store)
	}
	m.locks(r, dir)
	m.direct(r, dir)
	m.volume(r, dir, store)
}

// objects examines a store in an object storage.
func (m *Machine) objects(r *Report) {
	const remedy, writers = "docs/OBJECTS.md says what an object storage has to do, and where credentials come from", 16
	fsys, err := vfs.At(m.FS, r.Store)
	if f, ok := fsys.(interface {
		Prove(dir string, writers int) error
	}); err == nil && ok {
		err = f.Prove(r.Store, writers)
	}
	if err != nil {
		r.add("store", Problem, remedy, "%v", err)
		return
	}
	r.fine("store", "objects can be written: of %d writers of the same one, one succeeds", writers)
	if _, err := image.OpenStore(m.FS, r.Store); err != nil && !errors.Is(err, image.ErrNoStore) {
		r.add("store", Problem, cmp.Or(ui.HintOf(err), "name another store with --store"), "%v", err)
	}
}

// locks examines whether a lock keeps others out: without it, two coordinators would write to
// one job.
func (m *Machine) locks(r *Report, dir string) {
	const remedy = "mount it with locks (-o flock on Lustre, a lock service for NFS), or name a directory on another file system with --store"
	name := filepath.Join(dir, fmt.Sprintf(".ckpt-doctor-%08x", rand.Uint32()))
	first, err := m.FS.Lock(name)
	if err != nil {
		_ = m.FS.Remove(name) // it may have been made
		r.add("locks", Problem, remedy, "no job can be locked in %s: %v", dir, err)
		return
	}
	if second, err := m.FS.Lock(name); err == nil {
		second.Close()
		r.add("locks", Problem, remedy, "a lock in %s keeps nobody out", dir)
	} else {
		r.fine("locks", "work in %s", dir)
	}
	if err := errors.Join(first.Close(), m.FS.Remove(name)); err != nil {
		r.add("locks", Warning, "remove "+name, "%v", err)
	}
}

// probe writes a block into a new file of a directory, and removes it.
func (m *Machine) probe(dir string, create func(string) (vfs.File, error)) (err error) {
	name := filepath.Join(dir, fmt.Sprintf(".ckpt-doctor-%08x", rand.Uint32()))
	f, err := create(name)
	if err != nil {
		return err
	}
	_, werr := f.WriteAt(vfs.Aligned(vfs.DirectUnit), 0)
	return errors.Join(werr, f.Sync(), f.Close(), m.FS.Remove(name))
}

// direct examines I/O around the page cache.
func (m *Machine) direct(r *Report, dir string) {
	const remedy = "checkpoints go through the page cache, which is slower; another file system may do better"
	if err := m.probe(dir, m.FS.CreateDirect); err != nil {
		r.add("direct I/O", Warning, remedy, "does not work in %s: %v", dir, err)
		return
	}
	r.fine("direct I/O", "works in %s", dir)
}

const fewInodes = 1000 // a checkpoint takes one per rank and a few more

// volume examines the file system: its kind, space and inodes.
func (m *Machine) volume(r *Report, dir string, store *image.Store) {
	v, err := m.Statfs(dir)
	if err != nil {
		r.add("file system", Warning, "find out with df", "%v", err)
		return
	}
	if why := fleeting[v.Kind]; why != "" {
		r.add("file system", Warning, "name a directory on a disk with --store, for jobs that matter", "%s: %s", v.Kind, why)
	} else {
		r.fine("file system", "%s", v.Kind)
	}
	switch {
	case v.Inodes > 0 && v.FreeInodes == 0:
		r.add("inodes", Problem, "remove files there, or name another directory with --store", "no file can be made: all %d inodes are taken", v.Inodes)
	case v.Inodes > 0 && v.FreeInodes < fewInodes:
		r.add("inodes", Warning, "remove files there; ckpt launch --layout shared makes fewer", "only %d of %d are free", v.FreeInodes, v.Inodes)
	}
	unreadable(r, store)
	r.Jobs = fits(store, v.Free)
	const least = 1 << 20 // of the smallest job
	switch {
	case v.Free < least:
		r.add("space", Problem, "free some space: ckpt prune JOB --keep N removes old checkpoints", "%s MiB free", ui.MiB(v.Free))
	default:
		r.fine("space", "%s", v.space())
	}
	need := int64(0)
	for _, f := range r.Jobs {
		need = max(need, f.Stored)
	}
	fullest(r, &v, need)
	for i, f := range r.Jobs {
		const most = 5
		if i == most && len(r.Jobs) > most+1 {
			r.fine("space", "and for checkpoints of %d more jobs; --json has all", len(r.Jobs)-most)
			break
		}
		text := fmt.Sprintf("for %d more like %s@%d (%s MiB)", f.More, f.Job, f.Number, ui.MiB(f.Stored))
		if f.More < 2 {
			r.add("space", Warning, fmt.Sprintf("ckpt prune %s --keep 1 removes its older checkpoints", f.Job), "%s", text)
		} else {
			r.fine("space", "%s", text)
		}
	}
}

// unreadable names the jobs that cannot be read.
func unreadable(r *Report, store *image.Store) {
	if store == nil {
		return
	}
	names, err := store.Jobs()
	if err != nil {
		r.add("jobs", Problem, "ckpt needs to read all of the store", "%v", err)
	}
	for _, name := range names {
		if _, err := store.Job(name); err != nil && !errors.Is(err, image.ErrJobNotFound) {
			r.add("jobs", Problem, "ckpt needs to read all of the store", "%v", err)
		}
	}
}

// fits says how many checkpoints of each job fit, each like its newest. An imported
// job, or one whose newest stores only changes, may need more for the next. There are no numbers
// where the free space is not known.
func fits(store *image.Store, free int64) []Fit {
	list := []Fit{}
	if store == nil || free == vfs.Unbounded {
		return list
	}
	names, _ := store.Jobs() // as far as they can be read
	for _, name := range names {
		job, err := store.Job(name)
		if err != nil {
			continue
		}
		newest, err := job.Summaries(1)
		if err != nil || len(newest) == 0 || newest[0].StoredBytes < 1 {
			continue
		}
		s := newest[0]
		list = append(list, Fit{name, s.Number, s.StoredBytes, free / s.StoredBytes})
	}
	return list
}

// temporary examines the directory of sockets and scratch files.
func (m *Machine) temporary(r *Report) {
	dir := m.TempDir()
	if err := m.probe(dir, m.FS.Create); err != nil {
		r.add("temporary", Problem, "set TMPDIR to a directory that can be written", "%s cannot be written: %v", dir, err)
		return
	}
	r.fine("temporary", "%s can be written", dir)
}
