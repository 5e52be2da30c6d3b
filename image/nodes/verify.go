package nodes

import (
	"context"
	"errors"
	"slices"
	"sync"

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

// fileOf returns the entry of a rank's own file, if it has one.
func fileOf(m *image.Manifest, rank int) (container.File, bool) {
	for _, r := range m.Ranks {
		if r.Rank == rank {
			return entryOf(m, r.File)
		}
	}
	return container.File{}, false
}

// rankOf returns the rank that a file belongs to, or -1.
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

// inTier reports whether nodes have a file of a version: files of ranks. The files of the
// job are in the store only.
func inTier(m *image.Manifest, f container.File) bool {
	n, ok := container.PathNumber(f.Path)
	return ok && n == m.Number && f.Kind == container.KindRank
}

// topologyOf returns the topology under which a version was written.
func topologyOf(m *image.Manifest) Topology {
	top := Topology{NodeOf: make([]int, m.NP)}
	if m.Groups > 1 { // the others are in blocks, too
		rank := 0
		for node, n := range m.Mapping {
			for range min(n, m.NP-rank) {
				top.NodeOf[rank] = node
				rank++
			}
		}
	}
	for _, r := range m.Ranks {
		top.NodeOf[r.Rank] = r.Node
		if m.Groups > 1 {
			top.Ranks = append(top.Ranks, r.Rank)
		}
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
		scheme = Scheme{} // another version of ckpt may put files elsewhere
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

// Condition is how a file of a version is.
type Condition string

// The conditions of files.
const (
	Sound       Condition = "sound"
	Damaged     Condition = "damaged"
	Missing     Condition = "missing"
	Unreachable Condition = "unreachable" // with its node
	LostNode    Condition = "lost"        // with its node, whose directory cannot be used
)

// A Finding is a file that a node should have of a version, or its directory, and how it is.
type Finding struct {
	Role      Role
	Node      int
	Path      string // as in manifests; empty: of RoleDirectory
	Rank      int    // of RoleOwn and RoleCopy, else -1
	Condition Condition
	Err       error // if it is not sound
	Restored  bool  // by Scrub: it is sound now
}

// Verify reads every byte that the nodes should have of a version, and says which of their
// directories are not sound, and then how each file is, by node. It goes on after damage,
// until ctx is done. Progress, if not nil, is told the bytes read since the last call, one
// call at a time.
func (t *Tier) Verify(ctx context.Context, m *image.Manifest, progress func(int64)) ([]Finding, error) {
	v := &verification{tier: t, m: m, progress: progress}
	list := append(v.directories(), v.all(ctx)...)
	return list, ctx.Err()
}

// A verification checks the files of one version.
type verification struct {
	tier     *Tier
	m        *image.Manifest
	shallow  bool // files are looked at, not read
	mu       sync.Mutex
	progress func(int64)
}

func (v *verification) done(n int64) {
	if v.progress == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress(n)
}

// all checks all files, on all nodes at once.
func (v *verification) all(ctx context.Context) []Finding {
	parts := v.tier.parts(v.m)
	list := make([]Finding, len(parts))
	var wg sync.WaitGroup
	for node := range v.nodes() {
		wg.Go(func() {
			for i := range parts {
				if parts[i].node == node {
					list[i] = v.part(ctx, &parts[i])
				}
			}
		})
	}
	wg.Wait()
	return list
}

// nodes is how many nodes there are, of the tier or of the version.
func (v *verification) nodes() int { return max(len(v.tier.nodes), len(v.m.Mapping)) }

// parts lists all that the nodes should have of a version, by node, the manifests
// included.
func (t *Tier) parts(m *image.Manifest) []part {
	list := partsOf(m)
	for node := range t.nodes {
		list = append(list, part{role: RoleManifest, node: node, rank: -1})
	}
	slices.SortStableFunc(list, func(a, b part) int { return a.node - b.node })
	return list
}

// part checks one file.
func (v *verification) part(ctx context.Context, p *part) Finding {
	f := Finding{Role: p.role, Node: p.node, Path: p.path(), Rank: p.rank, Condition: Sound}
	if p.role == RoleManifest {
		f.Path = manifestPath(v.m.Number)
	}
	j, err := v.tier.look(p.node)
	lost := err != nil
	if err == nil {
		err = v.check(ctx, j, p)
	}
	f.Err, f.Condition = nodeError(p.node, err), conditionOf(err)
	if lost && f.Condition == Damaged {
		f.Condition = LostNode
	}
	return f
}

// check reads a file.
func (v *verification) check(ctx context.Context, j *image.Job, p *part) error {
	if v.shallow && p.role != RoleManifest {
		return p.there(j)
	}
	switch p.role {
	case RoleManifest:
		_, err := manifestOf(j, v.m.Number, v.m.ID)
		return err
	case RoleParity:
		parity, err := openParity(j.FS(), j.FilePath(p.parity.Path), p.parity)
		if err != nil {
			return err
		}
		defer parity.Close()
		if err := parity.Check(ctx); err != nil {
			return err
		}
		v.done(p.parity.Bytes)
		return nil
	}
	return j.Place().Same(ctx, p.file, v.done)
}

// Scrub is Verify, and makes sound again whatever the nodes that can be reached allow:
// directories first, then files of ranks, what protects them, and manifests. The findings
// say what was restored, and what was wrong with the rest.
//
// One process at a time may scrub, and no rank recovers meanwhile.
func (t *Tier) Scrub(ctx context.Context, m *image.Manifest, progress func(int64)) ([]Finding, error) {
	v := &verification{tier: t, m: m, progress: progress}
	list := v.directories()
	for i := range list {
		f := &list[i]
		err := t.mend(f.Node)
		if err == nil {
			_, err = t.directory(f.Node, true)
		}
		if f.Restored = err == nil; err != nil {
			f.Err = nodeError(f.Node, err)
		}
	}
	list = append(list, v.all(ctx)...)
	for _, restore := range []struct {
		roles []Role
		do    func(context.Context, *Finding) error
	}{
		{[]Role{RoleOwn}, v.file},
		{[]Role{RoleCopy}, v.file},
		{[]Role{RoleParity}, v.parity},
		{[]Role{RoleManifest}, v.manifest},
	} {
		for i := range list {
			f := &list[i]
			if f.Condition == Sound || !slices.Contains(restore.roles, f.Role) || ctx.Err() != nil || !v.reachable(f.Node) {
				continue
			}
			if err := restore.do(ctx, f); err != nil {
				f.Err = errors.Join(f.Err, nodeError(f.Node, err))
				continue
			}
			f.Restored = true
		}
	}
	return list, ctx.Err()
}

func (v *verification) reachable(node int) bool {
	return node < len(v.tier.nodes) && v.tier.nodes[node].FS != nil
}

// file puts the file of a rank in place again.
func (v *verification) file(ctx context.Context, f *Finding) error {
	file, ok := entryOf(v.m, f.Path)
	if !ok {
		return errors.New("the manifest does not list it")
	}
	_, err := v.tier.recover(ctx, v.m, file, f.Node)
	return err
}

// parity puts a parity file in place again.
func (v *verification) parity(ctx context.Context, f *Finding) error {
	i := slices.IndexFunc(v.m.Tier.Parities, func(p image.Parity) bool { return p.Path == f.Path })
	if i < 0 {
		return errors.New("the manifest does not list it")
	}
	return v.tier.recompute(ctx, v.m, v.m.Tier.Parities[i])
}

// manifest writes the manifest of the version, unless a sound one is there. If it is of
// another version of this number, Settle knows which is right.
func (v *verification) manifest(_ context.Context, f *Finding) error {
	j, err := v.tier.place(f.Node)
	if err != nil {
		return err
	}
	if is, err := j.Manifest(v.m.Number); err == nil && is.ID != v.m.ID {
		return errors.New("the node has another version of this number")
	}
	if err := makeDir(j, v.m.Number); err != nil {
		return err
	}
	again := *v.m
	again.Files = slices.Clone(v.m.Files)
	return j.Announce(&again)
}
