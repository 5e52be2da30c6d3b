package nodes

import (
	"context"
	"slices"
	"sync"

	"ckpt/image"
)

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
// directories are not sound, and then how each file is, by node. It does not stop at damage; the error is that of ctx. Progress, if not nil,
// is told the bytes read since the last call, and never called twice at once.
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

// all checks all files, those of different nodes at once.
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
