package source

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"ckpt/zones"

	"github.com/klauspost/compress/gzip"
)

// A Checkpoint sums up processes that were, or would be, checkpointed together.
type Checkpoint struct {
	Group     string `json:"dmtcp_group,omitempty"` // of a checkpoint of DMTCP
	Ranks     int    `json:"ranks"`
	Launchers int    `json:"launchers"` // and other processes that are not ranks
	// Missing is the number of processes of the checkpoint that were not found.
	Missing int `json:"missing,omitempty"`
	// RankBytes and LauncherBytes are the sizes of the images: the length of files, or
	// the size that images of live processes would have.
	RankBytes     int64 `json:"rank_bytes"`
	LauncherBytes int64 `json:"launcher_bytes"`
	// Companions are the files beside the images that hold shared memory once.
	Companions     int   `json:"companion_files"`
	CompanionBytes int64 `json:"companion_bytes"`
	// Gstored is the sum of all files.
	Gstored int64 `json:"gstored_bytes"`
	// Programs has the processes by executable.
	Programs []Program `json:"programs"`
}

// A Program has the averages over the processes of one executable.
type Program struct {
	Name  string     `json:"process"`
	Role  zones.Role `json:"role"`
	MPI   string     `json:"mpi,omitempty"`
	Count int        `json:"count"`
	// Mean is the bytes per process by zone. Min and Max are the sizes of the smallest
	// and largest image.
	Mean      zones.Sizes `json:"zones"`
	Runtime   int64       `json:"runtime_bytes"`
	Companion int64       `json:"companion_bytes"` // mapped by each, stored once
	Image     int64       `json:"image_bytes"`
	Min       int64       `json:"min_image_bytes"`
	Max       int64       `json:"max_image_bytes"`
}

// Checkpoints groups processes by their checkpoint. Call Settle first.
func Checkpoints(ps []*zones.Process) []Checkpoint {
	members := groupsOf(ps)
	var out []Checkpoint
	for _, g := range slices.Sorted(maps.Keys(members)) {
		out = append(out, sum(g, members[g]))
	}
	return out
}

func sum(group string, ps []*zones.Process) Checkpoint {
	c := Checkpoint{Group: group}
	type part struct{ device, inode, offset uint64 }
	seen := make(map[part]bool)
	type key struct {
		name string
		role zones.Role
	}
	programs := make(map[key]*Program)
	for _, p := range ps {
		bytes := p.FileBytes
		if bytes == 0 {
			bytes = p.Image()
		}
		if p.Role == zones.RoleRank {
			c.Ranks++
			c.RankBytes += bytes
		} else {
			c.Launchers++
			c.LauncherBytes += bytes
		}
		if p.Format == zones.FormatDMTCP {
			n, size := companions(p.Source)
			c.Companions += n
			c.CompanionBytes += size
		}
		for i := range p.Areas {
			a := &p.Areas[i]
			// Each part of a file counts once, whether several processes map it or one
			// in parts.
			if f := (part{a.Device, a.Inode, a.Offset}); a.Companion && !seen[f] {
				seen[f] = true
				c.Companions++
				c.CompanionBytes += a.Bytes()
			}
		}
		if p.Peers > len(ps) {
			c.Missing = p.Peers - len(ps)
		}
		k := key{p.Name, p.Role}
		if programs[k] == nil {
			programs[k] = &Program{Name: p.Name, Role: p.Role, Min: bytes}
		}
		programs[k].add(p, bytes)
	}
	c.Gstored = c.RankBytes + c.LauncherBytes + c.CompanionBytes
	for _, p := range programs {
		p.divide()
		c.Programs = append(c.Programs, *p)
	}
	slices.SortFunc(c.Programs, func(a, b Program) int {
		return cmp.Or(cmp.Compare(b.Role, a.Role), cmp.Compare(a.Name, b.Name))
	})
	return c
}

func (g *Program) add(p *zones.Process, bytes int64) {
	g.Count++
	g.MPI = max(g.MPI, p.MPI)
	g.Mean = g.Mean.Plus(p.Sizes())
	g.Runtime += p.Stored(zones.Runtime)
	g.Companion += p.Companion()
	g.Image += bytes
	g.Min, g.Max = min(g.Min, bytes), max(g.Max, bytes)
}

func (g *Program) divide() {
	n := int64(g.Count)
	for _, v := range []*int64{&g.Mean.Library, &g.Mean.Data, &g.Mean.Shared, &g.Mean.IOBuffer, &g.Runtime, &g.Companion, &g.Image} {
		*v = (*v + n/2) / n
	}
}

// dmtcpRuntime is about the size that DMTCP 5.0 adds to the image of a process. The
// image of a plain C program is 22.35 MiB larger than its data, including some 2.3 MiB
// of libc and the loader. More than half is the arena of DMTCP's allocator (12.1 MiB).
const dmtcpRuntime = 20 << 20

// CountRuntime counts the checkpointer's own memory as library zone, because it is as
// constant. To a live process that runs without DMTCP it adds an area of the expected
// size, accurate to about 2 MiB.
func CountRuntime(p *zones.Process) {
	found := false
	for i := range p.Areas {
		a := &p.Areas[i]
		if a.Class != zones.Runtime {
			continue
		}
		a.Class = zones.ClassOf(zones.Library)
		found = found || a.Name != ""
	}
	if !found && (p.Format == zones.FormatProc || p.Format == zones.FormatSmaps) {
		p.Areas = append(p.Areas, zones.Area{Name: "[dmtcp]", Stored: dmtcpRuntime, Class: zones.ClassOf(zones.Library),
			Resident: -1, Dirty: -1, Occupied: -1})
	}
}

// Settle decides the roles of processes that were found together. By default, every
// process other than a launcher is a rank. If some processes know their rank, the
// others are not ranks. If several know the same rank, as when a script starts the
// program, the rank is the one that has mapped the MPI library, or the last one, the
// child.
func Settle(ps []*zones.Process) {
	for _, group := range groupsOf(ps) {
		settle(group)
	}
}

func groupsOf(ps []*zones.Process) map[string][]*zones.Process {
	members := make(map[string][]*zones.Process)
	for _, p := range ps {
		members[p.Group] = append(members[p.Group], p)
	}
	return members
}

func settle(ps []*zones.Process) {
	type place struct {
		host string
		rank int
	}
	best := make(map[place]*zones.Process)
	for _, p := range ps {
		if p.Role != zones.RoleRank || p.Rank < 0 {
			continue
		}
		k := place{p.Host, p.Rank}
		if b := best[k]; b == nil || p.MPI != "" || b.MPI == "" {
			best[k] = p
		}
	}
	if len(best) == 0 {
		return
	}
	for _, p := range ps {
		if p.Role == zones.RoleRank && best[place{p.Host, p.Rank}] != p {
			p.Role = zones.RoleOther
		}
	}
}

// The signature belongs to the format, not to the program's version.
const (
	signaturePrefix = "DMTCP_CHECKPOINT_IMAGE_v"
	signature       = signaturePrefix + "4.0\n\x00"
)

var imageMagic = []byte{0x1f, 0x8b}

// IsImage reports whether a file that begins with head is an image of DMTCP, of any
// version of the format, compressed or not. It needs the first 512 bytes.
func IsImage(head []byte) bool {
	if bytes.HasPrefix(head, imageMagic) {
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return false
		}
		start := make([]byte, len(signaturePrefix))
		n, _ := io.ReadFull(z, start) // head may end early; use what was unpacked
		head = start[:n]
	}
	return bytes.HasPrefix(head, []byte(signaturePrefix))
}

// CompanionDir returns the name of the directory in which DMTCP puts the files that an
// image shares with others. ok is false if the image does not have a name of DMTCP.
func CompanionDir(image string) (dir string, ok bool) {
	stem, ok := strings.CutSuffix(image, ".dmtcp")
	return stem + companionSuffix, ok
}

const companionSuffix = "_files"

// IsCompanion reports whether a directory is the CompanionDir of some image.
func IsCompanion(dir string) bool { return strings.HasSuffix(dir, companionSuffix) }

func version(head []byte) string {
	v := head[len(signaturePrefix):min(len(head), 32)]
	if i := bytes.IndexAny(v, "\n\x00"); i >= 0 {
		v = v[:i]
	}
	return strings.ToValidUTF8(string(v), "?")
}
