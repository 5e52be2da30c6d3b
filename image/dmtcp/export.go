package dmtcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/blake3"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// Exported says what Export has written.
type Exported struct {
	Files int   `json:"files"` // files, links and directories
	Bytes int64 `json:"bytes"` // of the files
}

// Export writes the files of an imported checkpoint to dir, which it makes if need be. It
// overwrites nothing: an existing name is an fs.ErrExist. After an error what it has written is
// removed. Progress, if not nil, is told the bytes written since its last call. It fails with a
// SetError if the checkpoint was not imported, with a durable.DamageError if it is damaged.
func Export(ctx context.Context, job *image.Job, m *image.Manifest, dir string, progress func(int64)) (Exported, error) {
	var out Exported
	if m.Origin != Origin {
		return out, &SetError{Text: fmt.Sprintf("checkpoint %d of job %s was not imported", m.Number, m.Job),
			Fix: "name a checkpoint that was imported"}
	}
	x := &exporter{ctx: ctx, job: job, m: m, progress: progress, done: &out}
	if err := x.load(); err != nil {
		return out, err
	}
	defer x.files.Close()
	made := false
	if err := os.Mkdir(dir, 0o700); err == nil {
		made = true
	} else if !errors.Is(err, fs.ErrExist) {
		return out, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return out, err
	}
	defer root.Close()
	x.root = root
	if err := x.run(); err != nil {
		for _, name := range slices.Backward(x.made) {
			err = errors.Join(err, root.Remove(name))
		}
		if made {
			err = errors.Join(err, os.Remove(dir))
		}
		return Exported{}, err
	}
	return out, nil
}

type exporter struct {
	ctx      context.Context
	job      *image.Job
	m        *image.Manifest
	root     *os.Root
	progress func(int64)
	done     *Exported

	cat   catalog
	files *container.Contents
	made  []string // for removal, parents first
}

// load reads the catalog and checks it.
func (x *exporter) load() error {
	i := slices.IndexFunc(x.m.Files, func(f container.File) bool { return f.Kind == container.KindFiles })
	if i < 0 {
		return x.bad("it has no file of kind %s", container.KindFiles)
	}
	c, err := x.job.Open(x.m, x.m.Files[i].Path)
	if err != nil {
		return err
	}
	x.files = c
	err = x.decode()
	if err != nil {
		c.Close()
	}
	return err
}

func (x *exporter) decode() error {
	i := x.region(catalogRegion)
	if i < 0 || x.files.Regions[i].Size > maxCatalog {
		return x.bad("it has no catalog")
	}
	var text bytes.Buffer
	if err := x.files.Region(i).Copy(x.ctx, &text, 0, x.files.Regions[i].Size, nil); err != nil {
		return err
	}
	if err := json.Unmarshal(text.Bytes(), &x.cat); err != nil {
		return x.bad("its catalog is no JSON: %v", err)
	}
	if x.cat.Format != 1 {
		return fmt.Errorf("catalog format %d of checkpoint %d: %w", x.cat.Format, x.m.Number, durable.ErrNewerVersion)
	}
	for _, e := range x.cat.Entries {
		if !e.Path.local() {
			return x.bad("its catalog names a file %q, which leaves the directory", e.Path)
		}
	}
	// Directories come before what is in them.
	slices.SortStableFunc(x.cat.Entries, func(a, b entry) int { return cmp.Compare(a.Path, b.Path) })
	return nil
}

func (x *exporter) region(name string) int {
	for i, r := range x.files.Regions {
		if r.Name == name {
			return i
		}
	}
	return -1
}

func (x *exporter) bad(format string, args ...any) error {
	return &durable.DamageError{File: fmt.Sprintf("checkpoint %d of job %s", x.m.Number, x.m.Job), Reason: fmt.Sprintf(format, args...)}
}

func (x *exporter) run() error {
	for _, e := range x.cat.Entries {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		name := string(e.Path)
		if err := x.parents(path.Dir(name)); err != nil {
			return err
		}
		var err error
		switch e.Type {
		case dirEntry:
			err = x.mkdir(name)
		case linkEntry:
			if err = x.root.Symlink(string(e.Target), name); err == nil {
				x.made = append(x.made, name)
			}
		case imageEntry, packedEntry, fileEntry:
			err = x.file(e)
		default:
			err = x.bad("its catalog has an entry of type %q", e.Type)
		}
		if err != nil {
			return err
		}
		x.done.Files++
	}
	// The names become durable with their directories.
	for _, dir := range append([]string{"."}, x.made...) {
		if err := x.sync(dir); err != nil {
			return err
		}
	}
	// Last, for making a file changes its directory.
	for _, e := range slices.Backward(x.cat.Entries) {
		if e.Type != dirEntry {
			continue
		}
		if err := x.finish(e); err != nil {
			return err
		}
	}
	return nil
}

// finish gives a file or directory its mode and times.
func (x *exporter) finish(e entry) error {
	return errors.Join(x.root.Chmod(string(e.Path), fs.FileMode(e.Mode)), x.root.Chtimes(string(e.Path), e.ModTime, e.ModTime))
}

// sync makes what is in a directory durable; names of other things are ignored.
func (x *exporter) sync(dir string) error {
	fi, err := x.root.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return err
	}
	f, err := x.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// parents makes the directories that the catalog does not list: between the common directory of
// the images and theirs.
func (x *exporter) parents(dir string) error {
	if dir == "." {
		return nil
	}
	if err := x.parents(path.Dir(dir)); err != nil {
		return err
	}
	if err := x.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (x *exporter) mkdir(name string) error {
	err := x.root.Mkdir(name, 0o700)
	if err == nil {
		x.made = append(x.made, name)
	}
	return err
}

// file writes one file, checks its digest, and makes it durable before it gets its name: a
// restart must not find half an image.
func (x *exporter) file(e entry) error {
	name := string(e.Path)
	if _, err := x.root.Lstat(name); err == nil {
		return &fs.PathError{Op: "export", Path: name, Err: fs.ErrExist}
	}
	partial := path.Join(path.Dir(name), partialName)
	f, err := x.root.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	x.made = append(x.made, partial)
	sum := blake3.New()
	w := &counted{w: io.MultiWriter(f, sum), progress: x.progress}
	if e.Type == imageEntry {
		err = x.image(e, w)
	} else {
		err = x.plain(e, w)
	}
	if err == nil && (w.n != e.Bytes || hex.EncodeToString(sum.Sum(nil)) != e.Blake3) {
		err = x.bad("%s comes out as %d bytes with another blake3 than the %d that were imported", e.Path, w.n, e.Bytes)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = x.root.Rename(partial, name)
	}
	if err == nil {
		x.made[len(x.made)-1] = name
		err = x.finish(e)
	}
	x.done.Bytes += w.n
	return err
}

// partialName is the name of an incomplete file.
const partialName = ".ckpt-export.partial"

func (x *exporter) plain(e entry, w io.Writer) error {
	i := x.region(e.Path.region())
	if i < 0 {
		return x.bad("it has no region %q", e.Path.region())
	}
	return x.files.Region(i).Copy(x.ctx, w, 0, x.files.Regions[i].Size, nil)
}

// image puts an image together: each header, then the data behind it.
func (x *exporter) image(e entry, w io.Writer) error {
	c, err := x.job.Open(x.m, e.Container)
	if err != nil {
		return err
	}
	defer c.Close()
	last := len(c.Regions) - 1
	if last < 0 || c.Regions[last].Name != layoutRegion {
		return x.bad("%s has no layout", e.Container)
	}
	layout, at := c.Region(last), int64(0)
	var buf bytes.Buffer
	take := func(n int64) ([]byte, error) {
		buf.Reset()
		err := layout.Copy(x.ctx, &buf, at, at+n, nil)
		at += n
		return buf.Bytes(), err
	}
	var data *container.RegionReader
	current := -1
	for at < c.Regions[last].Size {
		head, err := take(layoutHead)
		if err != nil {
			return err
		}
		le := binary.LittleEndian
		raw, region := int64(le.Uint32(head)), int(le.Uint32(head[4:]))
		from, n := int64(le.Uint64(head[8:])), int64(le.Uint64(head[16:]))
		b, err := take(raw)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		if region < 0 || region >= last || n < 0 {
			return x.bad("the layout of %s names %d bytes of region %d", e.Container, n, region)
		}
		if region != current {
			data, current = c.Region(region), region
		}
		if err := data.Copy(x.ctx, w, from, from+n, nil); err != nil {
			return err
		}
	}
	return nil
}

// counted counts what is written.
type counted struct {
	w        io.Writer
	n        int64
	progress func(int64)
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if c.progress != nil {
		c.progress(int64(n))
	}
	return n, err
}

// Earlier is what a checkpoint knows of the memory of processes that restarted from it, by the
// name of their image. DMTCP restores library data, stacks and segments as memory without a
// name, so that later images do not tell their zones.
type Earlier map[string]earlierProcess

type earlierProcess struct {
	rank, ranks, onNode int
	regions             []zones.Region // by address, of which the names tell
}

// EarlierOf reads what checkpoint m knows.
func EarlierOf(ctx context.Context, job *image.Job, m *image.Manifest) (Earlier, error) {
	x := &exporter{ctx: ctx, job: job, m: m}
	if err := x.load(); err != nil {
		return nil, err
	}
	defer x.files.Close()
	earlier := make(Earlier)
	for _, e := range x.cat.Entries {
		i := slices.IndexFunc(m.Ranks, func(r image.Rank) bool { return r.File == e.Container })
		j := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Path == e.Container })
		if e.Type != imageEntry || i < 0 || j < 0 {
			continue
		}
		list, err := job.Place().Regions(m.Files[j])
		if err != nil {
			return nil, err
		}
		r := &m.Ranks[i]
		p := earlierProcess{rank: r.Rank, ranks: m.NP, onNode: m.Mapping[r.Node]}
		for _, region := range list {
			if region.Name != layoutRegion {
				p.regions = append(p.regions, region.Region)
			}
		}
		earlier[path.Base(string(e.Path))] = p
	}
	return earlier, nil
}

// restore gives the areas of a process their names and zones back: those of the region that
// held their first byte. An area that bears another name now is another one.
func (known *earlierProcess) restore(p *zones.Process) {
	p.Role, p.Rank, p.JobRanks, p.NodeRanks = zones.RoleRank, known.rank, known.ranks, known.onNode
	at := 0
	for i := range p.Areas {
		a := &p.Areas[i]
		for at < len(known.regions) && regionEnd(&known.regions[at]) <= a.Start {
			at++
		}
		if _, ok := a.Class.Zone(); !ok || at == len(known.regions) {
			continue
		}
		start, name := regionStart(known.regions[at].Name)
		if start <= a.Start && (a.Name == "" || a.Name == name) {
			a.Name, a.Class = name, zones.ClassOf(known.regions[at].Zone)
		}
	}
}

// regionStart takes apart what regionName made.
func regionStart(region string) (start uint64, name string) {
	at, name, _ := strings.Cut(region, " ")
	start, err := strconv.ParseUint(at, 16, 64)
	if err != nil {
		start = ^uint64(0)
	}
	return start, name
}

func regionEnd(r *zones.Region) uint64 {
	start, _ := regionStart(r.Name)
	return start + uint64(r.Size)
}
