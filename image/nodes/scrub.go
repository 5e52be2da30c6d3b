package nodes

import (
	"context"
	"errors"
	"slices"

	"ckpt/image"
)

// Scrub is Verify, and makes sound again whatever the nodes that can be reached allow:
// directories first, then files of ranks, what protects them, and manifests. The findings say what was
// restored, and what was wrong with the rest.
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

// manifest writes the manifest of the version, where there is none or a damaged one. One
// of another version of the number is left alone: Settle knows which is right.
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
