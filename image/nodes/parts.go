package nodes

import (
	"slices"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
)

// Role is what a file of a version is for.
type Role string

// The roles of files.
const (
	RoleOwn      Role = "own"  // of a rank of the node
	RoleCopy     Role = "copy" // of a rank of another node
	RoleParity   Role = "parity"
	RoleManifest Role = "manifest"
	// RoleDirectory is the directory of the node itself, with what says whose it is.
	RoleDirectory Role = "directory"
)

// A part is a file that a node has of a version, or should have.
type part struct {
	role   Role
	node   int
	file   container.File // of RoleOwn and RoleCopy
	rank   int            // of RoleOwn and RoleCopy
	parity image.Parity   // of RoleParity
}

func (p *part) path() string {
	if p.role == RoleParity {
		return p.parity.Path
	}
	return p.file.Path
}

// there checks that a part is in place, as far as that shows without reading it all.
func (p *part) there(j *image.Job) error {
	if p.role == RoleOwn {
		_, err := j.Place().References(p.file, true)
		return err
	}
	name := j.FilePath(p.path())
	fi, err := j.FS().Stat(name)
	if err != nil {
		return durable.ReadError(name, -1, err)
	}
	want := p.file.Bytes
	if p.role == RoleParity {
		want = p.parity.Bytes
	}
	if fi.Size() != want {
		return durable.Damaged(name, min(fi.Size(), want), "file is %d bytes long, want %d", fi.Size(), want)
	}
	return nil
}

// fileOf returns the entry of a rank's own file; false if it has none.
func fileOf(m *image.Manifest, rank int) (container.File, bool) {
	for _, r := range m.Ranks {
		if r.Rank == rank {
			return entryOf(m, r.File)
		}
	}
	return container.File{}, false
}

// rankOf returns the rank that a file is of; -1 if it is of none.
func rankOf(m *image.Manifest, path string) int {
	i := slices.IndexFunc(m.Ranks, func(r image.Rank) bool { return r.File == path })
	if i < 0 {
		return -1
	}
	return m.Ranks[i].Rank
}

// entryOf returns the entry of a file that nodes have.
func entryOf(m *image.Manifest, path string) (container.File, bool) {
	i := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Path == path })
	if i < 0 || !inTier(m, m.Files[i]) {
		return container.File{}, false
	}
	return m.Files[i], true
}

// inTier reports whether a file of a version is one that nodes have: that of a rank. The
// files of the job are in the store only.
func inTier(m *image.Manifest, f container.File) bool {
	n, ok := container.PathNumber(f.Path)
	return ok && n == m.Number && f.Kind == container.KindRank
}

// topologyOf returns the topology under which a version was written.
func topologyOf(m *image.Manifest) Topology {
	top := Topology{NodeOf: make([]int, m.NP)}
	for _, r := range m.Ranks {
		top.NodeOf[r.Rank] = r.Node
	}
	if m.Tier != nil {
		top.Domains = m.Tier.Domains
	}
	if len(top.Domains) == 0 {
		top.Domains = nil
	}
	return top
}

// schemeOf returns the scheme that protects a version.
func schemeOf(m *image.Manifest) (Scheme, error) {
	if m.Tier == nil {
		return Scheme{}, nil
	}
	s, err := Parse(m.Tier.Protect)
	if err == nil {
		err = s.Check(len(m.Mapping))
	}
	return s, err
}

// copiesOf returns the nodes that keep copies of a rank's file.
func copiesOf(s Scheme, top Topology, rank int) []int {
	if s.Kind() != Partner {
		return nil
	}
	return s.Partners(top, rank)
}

// partsOf lists the files of a version, and where they were put.
func partsOf(m *image.Manifest) []part {
	var list []part
	top := topologyOf(m)
	scheme, err := schemeOf(m)
	if err != nil {
		scheme = Scheme{} // nobody knows what one of another version of ckpt puts where
	}
	for _, r := range m.Ranks {
		f, ok := entryOf(m, r.File)
		if !ok {
			continue
		}
		list = append(list, part{role: RoleOwn, node: r.Node, file: f, rank: r.Rank})
		for _, n := range copiesOf(scheme, top, r.Rank) {
			list = append(list, part{role: RoleCopy, node: n, file: f, rank: r.Rank})
		}
	}
	if m.Tier != nil {
		for _, p := range m.Tier.Parities {
			list = append(list, part{role: RoleParity, node: p.Node, parity: p, rank: -1})
		}
	}
	return list
}
