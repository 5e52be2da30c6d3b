package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/wording"
)

// A refusedError says why a run did not begin: no rank was to compute.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// runNew runs a job that was just made. A launch that is refused leaves no job.
func (d *driver) runNew(ctx context.Context, opt Options) (*Result, error) {
	r, err := d.drive(ctx, nil, opt.Failures, opt.Interrupts)
	if errors.As(err, new(*refusedError)) {
		_, _, rerr := d.job.Remove()
		err = errors.Join(err, rerr)
	}
	return r, err
}

// takeDirectories makes the directories of the nodes, and fails with a refusedError if some
// belong to another job.
func takeDirectories(on *nodes.Tier, name string, each func(error) error) error {
	on.Hold()
	for _, n := range on.Nodes() {
		err := on.Ready(n.ID)
		if nodes.Foreign(err) {
			on.Forsake()
			return &refusedError{otherOwner(err, n.Dir, name)}
		}
		if err != nil {
			if err = each(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// otherOwner says what to do if a directory belongs to another job.
func otherOwner(err error, dir, name string) error {
	fix := wording.Sprintf("another {job} name or another {local}; rm -r %s if nobody needs its checkpoints", filepath.Join(dir, "jobs", name))
	if errors.Is(err, image.ErrInUse) {
		fix = wording.Sprintf("another {job} name or another {local}: a job that runs uses these directories")
	}
	return &job.UsageError{Text: fmt.Sprintf("%v", err), Fix: fix}
}

// foreign returns why the directories of the nodes cannot be those of this job; nil if they
// can. The nodes are on this host.
func (v *inventory) foreign() error {
	for _, n := range v.nodes.Nodes() {
		if _, err := v.nodes.Job(n.ID); nodes.Foreign(err) {
			return err
		}
	}
	return nil
}

// withoutForeign leaves the nodes out of a restart if their directories belong to another
// job by now, as those of a copied store do, and hold nothing of this one.
func (o *RestartOptions) withoutForeign(spec *job.Resolved) *job.Resolved {
	v := o.inventory
	if v == nil || v.apart || len(v.versions) > 0 {
		return spec
	}
	err := v.foreign()
	if err == nil {
		return spec
	}
	o.Observer.Warn(fmt.Sprintf("checkpoints go to the store at once: %v", err))
	o.inventory = nil
	again := *spec
	again.Tier = nil
	return &again
}

// checkApart refuses a store in the directory of a node, and one in the jobs of the store:
// each would take the files of the other for its own. The mapping of a program is known
// only when its ranks have come.
func checkApart(store string, spec *job.Resolved) error {
	if spec.Tier == nil {
		return nil
	}
	for node := range spec.Mapping {
		dir := spec.Tier.NodeDir(node)
		if within(store, dir) || within(dir, filepath.Join(store, "jobs")) {
			return &job.UsageError{Text: wording.Sprintf("{store} %s and the directory of node %d, %s, lie in each other", store, node, dir),
				Fix: "name two directories that are apart"}
		}
	}
	return nil
}

// within reports whether a directory is another or lies in it.
func within(dir, in string) bool {
	rel, err := filepath.Rel(in, dir)
	return err == nil && filepath.IsLocal(rel)
}
