package image

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/image/container"
	"ckpt/internal/durable"
)

// Sweep removes what no committed checkpoint refers to: remains of uncommitted checkpoints, and
// files whose last checkpoint was pruned. It returns their paths in the job. It needs the lock.
//
// It looks at numbered directories and names ending in .tmp; the rest belongs to the caller. If
// a manifest or index cannot be read, Sweep keeps everything up to that checkpoint.
func (j *Job) Sweep() (removed []string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	removed, _, err = j.sweep()
	return removed, err
}

// Prune removes all but the newest keep sound checkpoints, and the files that only they used.
// It returns their numbers and the bytes set free. It needs the lock, and no checkpoint under
// way.
//
// A checkpoint is sound if its manifest can be read and its files have the right length,
// header, index and trailer; Verify checks the payload. A damaged one does not count as kept,
// or the last one to restore might go; newer than the oldest kept one, it stays. So do those in
// also, if keep is not 0. Prune looks at checkpoints until eight are sound.
func (j *Job) Prune(keep int, also ...int) (removed []int, freed int64, err error) {
	return j.prune(keep, func(all []int) []int { return j.selection(all, keep, also) })
}

// Thin is Prune for a running job: only the checkpoints in of count, from which its ranks
// descend. Others older than the oldest kept one go too, but for those in also.
func (j *Job) Thin(keep int, of []int, also ...int) (removed []int, freed int64, err error) {
	return j.prune(keep, func(all []int) []int {
		return slices.DeleteFunc(slices.Clone(j.thinnable(all, keep, of)), func(n int) bool { return slices.Contains(also, n) })
	})
}

// thinnable returns what Thin removes of all.
func (j *Job) thinnable(all []int, keep int, of []int) []int {
	counted := slices.DeleteFunc(slices.Clone(all), func(n int) bool { return !slices.Contains(of, n) })
	n, _ := j.prunable(counted, keep)
	if n == 0 {
		return nil
	}
	if n == len(counted) {
		return all
	}
	at, _ := slices.BinarySearch(all, counted[n])
	return all[:at]
}

// selection returns what Prune removes of all.
func (j *Job) selection(all []int, keep int, also []int) []int {
	n, _ := j.prunable(all, keep)
	return slices.DeleteFunc(slices.Clone(all[:n]), func(n int) bool { return keep > 0 && slices.Contains(also, n) })
}

// prune removes the checkpoints that a function selects from all of them.
func (j *Job) prune(keep int, selected func(all []int) []int) (removed []int, freed int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.locked("prune"); err != nil {
		return nil, 0, err
	}
	if keep < 0 {
		return nil, 0, durable.Op("prune", j.dir, -1, fmt.Errorf("cannot keep %d checkpoints", keep))
	}
	if len(j.open) > 0 {
		return nil, 0, durable.Op("prune", j.dir, -1, errors.New("a checkpoint is being written"))
	}
	all, err := j.Checkpoints()
	if err != nil {
		return nil, 0, err
	}
	// The manifests go first, oldest first, each durably: no manifest may come back that names
	// a removed file.
	old := selected(all)
	removed, err = j.takeBack(old)
	if err != nil {
		return removed, 0, durable.Op("prune", j.NumberDir(old[len(removed)]), -1, err)
	}
	_, freed, err = j.sweep()
	return removed, freed, err
}

// lookedAt is how many checkpoints Prune looks at: those that anybody would restore.
const lookedAt = 8

// prunable returns how many of the oldest checkpoints of the job may go, and the damaged ones it came across.
func (j *Job) prunable(all []int, keep int) (n int, damaged []int) {
	return prunable(all, keep, func(n int) bool { return j.sound(n) == nil })
}

// prunable returns how many of the oldest checkpoints may go, and those it came across that are not sound.
func prunable(all []int, keep int, isSound func(n int) bool) (n int, damaged []int) {
	if keep == 0 {
		return len(all), nil
	}
	sound := 0
	for i, n := range slices.Backward(all) {
		if sound < lookedAt && !isSound(n) {
			damaged = append(damaged, n)
			continue
		}
		if sound++; sound == keep {
			return i, damaged
		}
	}
	return 0, damaged
}

// Damaged lists the checkpoints that Prune would not count, ascending.
func (j *Job) Damaged(keep int) ([]int, error) {
	all, err := j.Checkpoints()
	_, damaged := j.prunable(all, keep)
	slices.Reverse(damaged)
	return damaged, err
}

// sound returns what is wrong with checkpoint n without reading its payload.
func (j *Job) sound(n int) error {
	m, err := j.Manifest(n)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		if _, err := j.Place().References(f, true); err != nil {
			return err
		}
	}
	return nil
}

// recordTemp ends the names of records that are being written: the coordinator keeps some beside the loop
// that sweeps. The next writing replaces what a crash has left.
const recordTemp = ".json" + durable.TempSuffix

func (j *Job) sweep() (removed []string, freed int64, err error) {
	if err := j.locked("sweep"); err != nil {
		return nil, 0, err
	}
	if len(j.open) > 0 {
		return nil, 0, durable.Op("sweep", j.dir, -1, errors.New("a checkpoint is being written"))
	}
	c, err := j.held()
	if err != nil {
		return nil, 0, err
	}
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return nil, 0, durable.Op("sweep", j.dir, -1, err)
	}
	var look []int
	floor := -1
	j.change(func(c *catalog) {
		if look, err = j.reconcile(c, entries); err == nil {
			floor = j.complete(c)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	if err := j.settle(look); err != nil {
		return nil, 0, err
	}
	s := &sweeper{job: j}
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), durable.TempSuffix) && e.Name() != catalogName && !strings.HasSuffix(e.Name(), recordTemp) {
			s.remove(e.Name())
		}
	}
	s.directories(c, append(look, c.fresh...), floor)
	if len(s.removed) > 0 {
		s.errs = append(s.errs, durable.Op("sync", j.dir, -1, j.fs.SyncDir(j.dir)))
	}
	j.change(func(c *catalog) {
		c.fresh = nil
		j.tidyCatalog(c)
	})
	slices.Sort(s.removed)
	return s.removed, s.freed, errors.Join(s.errs...)
}

// A sweeper removes files and counts them.
type sweeper struct {
	job     *Job
	dry     bool // they are only counted
	removed []string
	freed   int64
	errs    []error
}

func (s *sweeper) remove(rel string) {
	name := filepath.Join(s.job.dir, rel)
	fi, err := s.job.fs.Stat(name)
	if err == nil && !s.dry {
		err = s.job.fs.Remove(name)
	}
	if err != nil {
		s.failed(name, err)
		return
	}
	s.removed = append(s.removed, rel)
	if !fi.IsDir() {
		s.freed += onDisk(fi)
	}
}

func (s *sweeper) failed(name string, err error) {
	if s.dry && errors.Is(err, fs.ErrNotExist) {
		return // removed this moment
	}
	s.errs = append(s.errs, durable.Op("sweep", name, -1, err))
}

// directories removes what committed checkpoints do not use of numbered directories above
// floor.
func (s *sweeper) directories(c *catalog, look []int, floor int) {
	look = distinct(look)
	used, unknown := s.job.used(c, look)
	for _, n := range look {
		if n > max(floor, unknown) {
			s.directory(n, used)
		}
	}
}

func (s *sweeper) directory(n int, used map[string]bool) {
	files, err := s.job.fs.ReadDir(s.job.NumberDir(n))
	if err != nil {
		s.failed(s.job.NumberDir(n), err)
		return
	}
	kept := 0
	for _, f := range files {
		switch rel := path.Join(container.FormatNumber(n), f.Name()); {
		case used[rel]:
			kept++
		case s.dry && f.Name() == manifestName: // a prune has removed it before
		default:
			s.remove(rel)
		}
	}
	if kept == 0 {
		s.remove(container.FormatNumber(n))
	}
}

// settle makes it durable that checkpoints without a manifest have none. The process that
// removed one may have died before; after a loss of power it would name removed files.
func (j *Job) settle(remains []int) error {
	for _, n := range remains {
		if err := j.fs.SyncDir(j.NumberDir(n)); err != nil {
			return durable.Op("sync", j.NumberDir(n), -1, err)
		}
	}
	return nil
}

// used lists the files in some directories that committed checkpoints need. It reads those that
// need any, as the catalog says. Uses of directories up to floor stay unknown.
func (j *Job) used(c *catalog, look []int) (files map[string]bool, floor int) {
	files, floor = make(map[string]bool), -1
	for _, n := range c.numbers {
		r := c.records[n]
		for _, f := range r.files {
			files[f] = true
		}
		_, itself := slices.BinarySearch(look, n)
		if !itself && !slices.ContainsFunc(r.needs, func(k int) bool { _, ok := slices.BinarySearch(look, k); return ok }) {
			continue
		}
		files[path.Join(container.FormatNumber(n), manifestName)] = true
		m, err := j.Manifest(n)
		var paths []string
		if err == nil {
			paths, err = j.pathsOf(m)
		}
		if err != nil {
			floor = n
			continue
		}
		for _, p := range paths {
			files[p] = true
		}
	}
	return files, floor
}

// PrunePreview returns what Prune would remove and set free, and changes nothing. Without the
// lock, another process may be writing: what lies after the newest checkpoint does not count
// then.
func (j *Job) PrunePreview(keep int, also ...int) (remove []int, freed int64, err error) {
	c := j.readCatalog()
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return nil, 0, durable.Op("list", j.dir, -1, err)
	}
	look, err := j.reconcile(c, entries)
	if err != nil {
		return nil, 0, err
	}
	remove = j.selection(c.numbers, keep, also)
	if !j.ours() && len(c.numbers) > 0 {
		newest := c.numbers[len(c.numbers)-1]
		look = slices.DeleteFunc(look, func(n int) bool { return n > newest })
	}
	for _, n := range remove {
		c.remove(n)
	}
	w := &sweeper{job: j, dry: true}
	w.directories(c, append(look, remove...), j.complete(c))
	if len(w.errs) > 0 {
		return nil, 0, errors.Join(w.errs...)
	}
	return remove, w.freed, nil
}

// ours reports whether this process has the lock.
func (j *Job) ours() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lock != nil
}
