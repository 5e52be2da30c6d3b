package image

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/image/container"
	"ckpt/internal/durable"
)

// A catalog is what is known of the checkpoints of a job. While this process has the lock it is
// kept up to date, so that no operation on one checkpoint looks at all.
type catalog struct {
	records map[int]*record
	numbers []int // of records, ascending
	fresh   []int // committed since the last sweep

	// Of the file: it can be added to; it lists what has gone without a word.
	sound bool
	stale bool
	lines int
	size  int64
	// failed says that it could not be written: the next sweep tries again.
	failed bool
}

// known returns what is known of the checkpoints, to be read until done is called.
func (j *Job) known() (c *catalog, done func(), err error) {
	j.know.Lock()
	if j.catalog != nil {
		return j.catalog, j.know.Unlock, nil
	}
	c, err = j.scan()
	if err != nil {
		j.know.Unlock()
		return nil, nil, err
	}
	if j.owned {
		j.catalog = c
	}
	return c, j.know.Unlock, nil
}

// held returns it for changing. The caller holds j.mu, and the job is locked.
func (j *Job) held() (*catalog, error) {
	c, done, err := j.known()
	if err != nil {
		return nil, err
	}
	done()
	return c, nil
}

// change changes it. The caller holds j.mu.
func (j *Job) change(do func(c *catalog)) {
	j.know.Lock()
	defer j.know.Unlock()
	if j.catalog != nil {
		do(j.catalog)
	}
}

// forgetKnown has the next operation look at the disk again.
func (j *Job) forgetKnown() {
	j.know.Lock()
	defer j.know.Unlock()
	j.catalog = nil
}

func (c *catalog) add(r *record) {
	if i, ok := slices.BinarySearch(c.numbers, r.number); !ok {
		c.numbers = slices.Insert(c.numbers, i, r.number)
	}
	c.records[r.number] = r
}

func (c *catalog) remove(n int) {
	if i, ok := slices.BinarySearch(c.numbers, n); ok {
		c.numbers = slices.Delete(c.numbers, i, i+1)
	}
	delete(c.records, n)
	c.fresh = slices.DeleteFunc(c.fresh, func(k int) bool { return k == n })
}

// scan reads the catalog and the directory of the job.
func (j *Job) scan() (*catalog, error) {
	c := j.readCatalog()
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return nil, durable.Op("list", j.dir, -1, err)
	}
	_, err = j.reconcile(c, entries)
	return c, err
}

// readCatalog reads the file. If anything is wrong with it, nothing in it counts.
func (j *Job) readCatalog() *catalog {
	c := &catalog{records: make(map[int]*record)}
	b, err := durable.ReadFile(j.fs, j.catalogPath(), maxCatalog)
	if err != nil {
		return c
	}
	records, lines, err := parseCatalog(b)
	if err != nil {
		return c
	}
	c.records, c.lines, c.size, c.sound = records, lines, int64(len(b)), true
	for n := range records {
		c.numbers = append(c.numbers, n)
	}
	slices.Sort(c.numbers)
	return c
}

// reconcile makes c agree with the job's directory: records without a directory go, a directory
// without a record is looked into. It returns the numbered directories without a committed
// checkpoint, ascending.
func (j *Job) reconcile(c *catalog, entries []fs.DirEntry) (remains []int, err error) {
	there := make(map[int]bool, len(entries))
	for _, e := range entries {
		n, ok := container.ParseNumber(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		there[n] = true
		if c.records[n] != nil {
			continue
		}
		committed := false
		if n != container.JobNumber {
			_, err := j.fs.Stat(j.manifestPath(n))
			if committed = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, durable.Op("list", j.NumberDir(n), -1, err)
			}
		}
		if committed {
			c.add(&record{number: n, unread: true})
		} else {
			remains = append(remains, n)
		}
	}
	for n := range c.records {
		if !there[n] {
			c.remove(n)
			c.sound, c.stale = false, true
		}
	}
	slices.Sort(remains)
	return remains, nil
}

// complete reads what no record tells. Needs of checkpoints up to floor stay unknown, -1 if all
// are known.
func (j *Job) complete(c *catalog) (floor int) {
	floor = -1
	for _, n := range c.numbers {
		if !c.records[n].unread {
			continue
		}
		if r, err := j.examine(n); err == nil {
			c.records[n] = r
		} else {
			floor = n
		}
	}
	return floor
}

// note adds the record of a new checkpoint. If the file cannot be written, the directory is
// looked into instead.
func (j *Job) note(r *record) {
	j.change(func(c *catalog) {
		c.add(r)
		c.fresh = append(c.fresh, r.number)
		switch {
		case c.failed:
		case c.sound:
			j.list(c, []*record{r})
		default:
			j.writeCatalog(c)
		}
	})
}

// list adds lines for records to the file.
func (j *Job) list(c *catalog, records []*record) {
	var text strings.Builder
	for _, r := range records {
		if r.listable() {
			text.WriteString(r.line())
		}
	}
	if text.Len() == 0 {
		return
	}
	if j.appendCatalog(c, text.String(), false) != nil {
		c.sound, c.failed = false, true
		return
	}
	for _, r := range records {
		r.listed = r.listable()
	}
}

// announce notes, durably, that checkpoints are about to be taken back: their lines must not
// outlive them.
func (j *Job) announce(c *catalog, numbers []int) error {
	var text strings.Builder
	for _, n := range numbers {
		if r := c.records[n]; r != nil && r.listed {
			text.WriteString(dropLine(n))
		}
	}
	if c.sound && (text.Len() == 0 || j.appendCatalog(c, text.String(), true) == nil) {
		return nil
	}
	return j.removeCatalog(c)
}

// appendCatalog adds lines to the file.
func (j *Job) appendCatalog(c *catalog, text string, durably bool) error {
	f, err := j.fs.OpenWrite(j.catalogPath())
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), c.size)
	if err == nil && durably {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	c.size += int64(len(text))
	c.lines += strings.Count(text, "\n")
	return nil
}

// removeCatalog removes the file, durably.
func (j *Job) removeCatalog(c *catalog) error {
	c.sound = false
	err := j.fs.Remove(j.catalogPath())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	} else if err == nil {
		err = j.fs.SyncDir(j.dir)
	}
	if err != nil {
		return durable.Op("remove", j.catalogPath(), -1, err)
	}
	c.stale = false
	for _, r := range c.records {
		r.listed = false
	}
	return nil
}

// writeCatalog writes the file anew.
func (j *Job) writeCatalog(c *catalog) {
	text := []byte(catalogMagic)
	lines := 0
	for _, n := range c.numbers {
		r := c.records[n]
		if r.listed = r.listable(); r.listed {
			text = append(text, r.line()...)
			lines++
		}
	}
	if lines > 0 && durable.Replace(j.fs, filepath.Join(j.dir, catalogName), text) == nil {
		c.sound, c.stale, c.failed = true, false, false
		c.lines, c.size = lines, int64(len(text))
		return
	}
	c.failed = j.removeCatalog(c) != nil || lines > 0
}

// tidyCatalog sees to it that the file lists all, and not too many that have gone.
func (j *Job) tidyCatalog(c *catalog) {
	var missing []*record
	for _, n := range c.numbers {
		if r := c.records[n]; !r.listed && r.listable() {
			missing = append(missing, r)
		}
	}
	if !c.sound || len(c.records) == 0 || c.lines > 2*len(c.records)+64 {
		j.writeCatalog(c)
	} else {
		j.list(c, missing)
	}
}
