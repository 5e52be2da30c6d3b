package image

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/internal/durable"
)

// Checkpoints lists the committed checkpoints, also damaged ones, ascending.
func (j *Job) Checkpoints() ([]int, error) {
	c, done, err := j.known()
	if err != nil {
		return nil, err
	}
	defer done()
	return slices.Clone(c.numbers), nil
}

// Newest lists the committed checkpoints as Checkpoints does, and describes the newest: nil if its
// manifest cannot be read. It reads that manifest only if no line of the catalog describes it, so an
// index of many jobs costs little.
func (j *Job) Newest() (numbers []int, newest *Summary, err error) {
	c, done, err := j.known()
	if err != nil {
		return nil, nil, err
	}
	defer done()
	if numbers = slices.Clone(c.numbers); len(numbers) > 0 {
		if s, err := j.summary(c.records[numbers[len(numbers)-1]]); err == nil {
			newest = &s
		}
	}
	return numbers, newest, nil
}

// Latest returns the newest committed checkpoint, or 0.
func (j *Job) Latest() (int, error) {
	c, done, err := j.known()
	if err != nil {
		return 0, err
	}
	defer done()
	for _, n := range slices.Backward(c.numbers) {
		_, err := j.fs.Stat(j.manifestPath(n))
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, durable.Op("list", j.NumberDir(n), -1, err)
		}
	}
	return 0, nil
}

// Stored returns the bytes of all container files, also of those kept for later checkpoints
// only.
func (j *Job) Stored() (int64, error) {
	c := j.readCatalog()
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return 0, durable.Op("list", j.dir, -1, err)
	}
	look, err := j.reconcile(c, entries)
	if err != nil {
		return 0, err
	}
	var stored int64
	for n, r := range c.records {
		if r.unread {
			look = append(look, n)
		}
		stored += r.stored
	}
	for _, n := range look {
		entries, err := j.fs.ReadDir(j.NumberDir(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // swept this moment
		}
		if err != nil {
			return 0, durable.Op("list", j.NumberDir(n), -1, err)
		}
		for _, e := range entries {
			if fi, err := e.Info(); err == nil && filepath.Ext(e.Name()) == ".img" {
				stored += onDisk(fi)
			}
		}
	}
	return stored, nil
}

// distinct sorts a list and leaves out what is there twice.
func distinct[T int | string](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// Summaries describes the committed checkpoints, or the newest last > 0, ascending. It reads a
// manifest only if its line in the catalog is missing or of another one. The error tells which
// manifests cannot be read; if they are of another job it names one.
func (j *Job) Summaries(last int) ([]Summary, error) {
	c, err := j.scan()
	if err != nil {
		return nil, err
	}
	var list []Summary
	var failed error
	numbers := c.numbers
	if last > 0 {
		numbers = numbers[max(0, len(numbers)-last):]
	}
	for _, n := range numbers {
		s, err := j.summary(c.records[n])
		if errors.Is(err, ErrCheckpointNotFound) {
			continue // pruned this moment
		}
		if errors.Is(err, durable.ErrOtherJob) && errors.Is(failed, durable.ErrOtherJob) {
			continue // the directory is a copy: the others say the same
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		list = append(list, s)
	}
	return list, failed
}

func (j *Job) summary(r *record) (Summary, error) {
	var s Summary
	if !r.unread {
		fi, err := j.fs.Stat(j.manifestPath(r.number))
		if err == nil && fi.Size() == r.length && fi.ModTime().UnixNano() == r.modified &&
			json.Unmarshal([]byte(r.summary), &s) == nil && s.Number == r.number && s.Job == j.name &&
			(s.Memory != nil || s.Origin != "") { // else an older version wrote the line
			return s, nil
		}
	}
	m, err := j.Manifest(r.number)
	if err != nil {
		return Summary{}, err
	}
	return m.Summary(), nil
}

// Iterations returns the iteration of each committed checkpoint, as far as known.
func (j *Job) Iterations() (map[int]int64, error) {
	c, done, err := j.known()
	if err != nil {
		return nil, err
	}
	defer done()
	all := make(map[int]int64, len(c.numbers))
	for _, n := range c.numbers {
		r := c.records[n]
		if !r.unread {
			all[n] = r.iteration
		} else if m, err := j.Manifest(n); err == nil {
			all[n] = m.Iteration
		}
	}
	return all, nil
}
