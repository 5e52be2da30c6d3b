package container

import (
	"fmt"
	"sync"

	"ckpt/image/plan/fileview"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// A Place is where the container files of a job lie.
type Place struct {
	FS     vfs.FS
	Dir    string                 // of the job; paths in manifests and indexes are relative to it
	Job    string                 // its name, which is in every header
	Device func() fileview.Device // how fast the storage reads
	kept   *kept                  // files that stay open; nil: each is opened anew
}

// kept are files that were opened, by their paths. One goroutine or several may use them.
type kept struct {
	mu    sync.Mutex
	files map[string]*container
}

// mostKept bounds the files that stay open, since a process may have so many only.
const mostKept = 256

// Keep has each file be opened and its index be read once, whoever reads it, until done is called.
func (p Place) Keep() (again Place, done func()) {
	p.kept = &kept{files: make(map[string]*container)}
	return p, func() {
		p.kept.mu.Lock()
		defer p.kept.mu.Unlock()
		for _, c := range p.kept.files {
			c.f.Close()
		}
		clear(p.kept.files)
	}
}

// once returns the file that was opened before, or opens it.
func (k *kept) once(path string, open func() (*container, error)) (*container, error) {
	if k == nil {
		return open()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.files[path]; c != nil {
		return c, nil
	}
	c, err := open()
	if err == nil && len(k.files) < mostKept {
		c.stays, k.files[path] = true, c
	}
	return c, err
}

// File is the entry of a container file in a manifest.
type File struct {
	// Path is relative to the directory of the job; it may lead to an earlier checkpoint.
	Path  string `json:"path"`
	Kind  string `json:"kind"` // as in Header
	Ranks []int  `json:"ranks"`
	Node  int    `json:"node"`
	Bytes int64  `json:"bytes"` // length of the file
	// Holes is how many of them are in holes, which take no space on the disk.
	Holes       int64  `json:"holes,omitempty"`
	IndexBlake3 string `json:"index_blake3"`
}

// Number returns the checkpoint whose directory the file is in.
func (f *File) Number() int {
	n, _ := PathNumber(f.Path)
	return n
}

// References checks a file's length and index, and returns the files that hold extents of it;
// with check, these must be there.
func (p Place) References(f File, check bool) (refs []string, err error) {
	c, err := p.open(f)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, ref := range c.index.files {
		refs = append(refs, ref.path)
		if !check {
			continue
		}
		x, err := p.openRef(c, ref)
		if err != nil {
			return nil, err
		}
		x.Close()
		if x.rebuilt != nil {
			return nil, x.rebuilt
		}
	}
	return refs, nil
}

// A Region is one of a container file, without memory. Rank is -1 where several ranks share it.
type Region struct {
	zones.Region
	Rank int
}

// Of reports whether a region is the rank's, or everybody's.
func (r *Region) Of(rank int) bool { return isOf(int32(r.Rank), rank) }

// isOf reports whether a region of a rank is another's too: the segment of a node and the
// library, whose rank is -1, are everybody's.
func isOf(of int32, rank int) bool { return of == -1 || int(of) == rank }

// Regions lists the regions of a file.
func (p Place) Regions(f File) ([]Region, error) {
	c, err := p.openAny(f)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.regions(), nil
}

func (c *container) regions() []Region {
	out := make([]Region, len(c.index.regions))
	for i, r := range c.index.regions {
		out[i] = Region{zones.Region{Name: r.name, Zone: r.zone, Elem: r.elem, Size: r.size}, int(r.rank)}
	}
	return out
}

// A Tally says what a container file holds of each of its regions.
type Tally struct {
	Regions []RegionTally
	// Overhead is the bytes of header, index and trailer.
	Overhead int64
	// References is how many files of earlier checkpoints hold extents of it.
	References int
}

// A RegionTally counts the bytes of a region: zeros, which are stored nowhere, bytes in another
// file, and bytes in this one.
type RegionTally struct {
	Name       string
	Zone       zones.Zone
	Rank       int // -1 where it belongs to no single rank
	Zeros      int64
	Referenced int64
	Unpacked   int64 // in this file, before they were packed
	Packed     int64 // what they take there
}

// Tally counts the bytes of a file. It reads the index only.
func (p Place) Tally(f File) (*Tally, error) {
	c, err := p.openAny(f)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.tally(), nil
}

func (c *container) tally() *Tally {
	t := &Tally{Overhead: c.size, References: len(c.index.files), Regions: make([]RegionTally, len(c.index.regions))}
	for i, r := range c.index.regions {
		t.Regions[i] = RegionTally{Name: r.name, Zone: r.zone, Rank: int(r.rank)}
	}
	for _, e := range c.index.extents {
		r := &t.Regions[e.region]
		switch {
		case e.codec == codecZero:
			r.Zeros += e.rawLen
		case e.fileRef != 0:
			r.Referenced += e.rawLen
		default:
			r.Unpacked += e.rawLen
		}
	}
	for _, e := range c.index.ownOnce() { // what several regions share takes its space once
		n := zones.PageRound(e.storedLen)
		t.Regions[e.region].Packed += n
		t.Overhead -= n
	}
	for _, h := range c.index.holes(c.trailer.indexOffset) {
		t.Overhead -= h.n
	}
	return t
}

// Processes describes a container file as the memory of its processes: an area per region,
// without addresses. Header, index and trailer count for the first process.
func Processes(fsys vfs.FS, path string) ([]*zones.Process, error) {
	c, err := openContainer(fsys, path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	t := c.tally()
	var ps []*zones.Process
	for _, r := range t.Regions {
		if len(ps) == 0 || ps[len(ps)-1].Rank != r.Rank {
			ps = append(ps, c.process(r.Rank))
		}
		p := ps[len(ps)-1]
		p.Areas = append(p.Areas, zones.Area{Name: r.Name, Class: zones.ClassOf(r.Zone),
			End: uint64(r.Zeros + r.Referenced + r.Unpacked), Stored: r.Packed,
			Prot: zones.Read | zones.Write, Shared: r.Zone == zones.Shared,
			Resident: -1, Dirty: -1, Occupied: -1})
		p.FileBytes += r.Packed
	}
	if len(ps) == 0 {
		ps = append(ps, c.process(c.header.Rank))
	}
	ps[0].FileBytes += t.Overhead
	ps[0].Overhead = t.Overhead
	for _, p := range ps {
		p.Unpacked = p.FileBytes
	}
	return ps, nil
}

// process describes one process of the file, without its areas.
func (c *container) process(rank int) *zones.Process {
	h := c.header
	p := &zones.Process{Source: c.path, Format: zones.FormatCkpt, Name: h.Job, Rank: rank, Role: zones.RoleRank}
	switch h.Kind {
	case KindRank, KindAggregated, KindJob:
	default:
		p.Role, p.Name = zones.RoleLauncher, h.Job+" "+h.Kind
	}
	return p
}

// checkRegion refuses a region that cannot be written, or has less memory than needed.
func checkRegion(r zones.Region, need int64) error {
	n, all := int64(len(r.Mem)), zones.PageRound(r.Size)
	switch {
	case r.Name == "" || len(r.Name) > maxName:
		return fmt.Errorf("region name %.40q is %d bytes long, want 1 to %d", r.Name, len(r.Name), maxName)
	case !r.Zone.Valid() || !r.Elem.Valid():
		return fmt.Errorf("region %q has unknown %v or %v", r.Name, r.Zone, r.Elem)
	case r.Size < 0 || n > all || n%zones.PageSize != 0 || n < need:
		return fmt.Errorf("region %q has %d bytes of memory for a size of %d", r.Name, len(r.Mem), r.Size)
	}
	return nil
}
