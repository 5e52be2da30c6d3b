package nodes

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
)

// Lost reports whether an error of the directory of a node says that the node has lost what
// it had, for whatever reason: others may make it again. A node that cannot be reached from
// here may still have everything.
func Lost(err error) bool {
	return err != nil && !Foreign(err) && !errors.Is(err, ErrUnreachable) && !ended(err) && !short(err)
}

// short reports whether an error is of this process, which lacks memory or descriptors just
// now, and says nothing about a directory.
func short(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// ended reports whether an error only says that the caller wants no more of it.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// conditionOf says what an error means for the file or the directory that it is of.
func conditionOf(err error) Condition {
	switch {
	case err == nil:
		return Sound
	case errors.Is(err, ErrUnreachable), ended(err):
		return Unreachable
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, image.ErrCheckpointNotFound):
		return Missing
	}
	return Damaged
}

// directory says whether a node can use its directory: nil if it can and nothing is wrong
// with it, or if nothing of the job is there. Lost says that no file of the job can be read;
// write, that the node has to be able to write some.
func (t *Tier) directory(node int, write bool) (lost bool, err error) {
	j, err := t.look(node)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // its files are missing
	case err != nil:
		return true, err
	}
	n := t.nodes[node]
	_, err = image.OpenStore(n.FS, n.Dir)
	_, serr := j.Spec()
	_, oerr := t.owned(j, node)
	err = errors.Join(err, serr, oerr)
	if err == nil && write {
		err = try(j, container.BlockSize)
	}
	return false, err
}

// mend makes the directory of a node again, as far as it is damaged.
func (t *Tier) mend(node int) error {
	o := &t.opened[node]
	o.mu.Lock()
	o.job = nil
	o.mu.Unlock()
	_, err := t.place(node)
	return err
}

// directories finds the nodes whose directories are damaged or cannot be used.
func (v *verification) directories() (list []Finding) {
	for node := range v.tier.nodes {
		lost, err := v.tier.directory(node, !v.shallow)
		if err == nil || conditionOf(err) == Unreachable {
			continue // with its files
		}
		f := Finding{Role: RoleDirectory, Node: node, Rank: -1, Condition: Damaged, Err: nodeError(node, err)}
		if lost {
			f.Condition = LostNode
		}
		list = append(list, f)
	}
	return list
}

// Manifest returns that of a version: as a node has it or, if that has lost it, another. ID
// is the identity of the version.
func (t *Tier) Manifest(node, number int, id string) (*image.Manifest, error) {
	var errs []error
	for i := range t.nodes {
		at := (node + i) % len(t.nodes)
		j, err := t.look(at)
		if err == nil {
			var m *image.Manifest
			if m, err = manifestOf(j, number, id); err == nil {
				return m, nil
			}
		}
		errs = append(errs, nodeError(at, err))
	}
	return nil, errors.Join(errs...)
}

// manifestOf reads the manifest of a version in the directory of a node.
func manifestOf(j *image.Job, number int, id string) (*image.Manifest, error) {
	m, err := j.Manifest(number)
	if err == nil && m.ID != id {
		err = durable.Damaged(j.FilePath(manifestPath(number)), 0, "it is of another version of this number: id %.8s…, want %.8s…", m.ID, id)
	}
	return m, err
}
