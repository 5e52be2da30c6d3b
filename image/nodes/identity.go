package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// nodeFile is the file in the directory of a job that says whose it is.
const nodeFile = "node"

// mark is what it says. Earlier versions wrote the first two members only.
type mark struct {
	Job    string       `json:"job"`
	Node   int          `json:"node"`
	Digest string       `json:"job_blake3,omitempty"` // of the description of the job
	Owner  *image.Owner `json:"owner,omitempty"`      // the store of the job
}

// An OwnerError says that the directory of a node belongs to another job: one of another
// store, a copied one perhaps, or an earlier job of this name.
type OwnerError struct {
	Dir   string // of the job, on the node
	Job   string
	Store string // of that job; empty: unknown
}

func (e *OwnerError) Error() string {
	if e.Store == "" {
		return fmt.Sprintf("%s belongs to another job %s", e.Dir, e.Job)
	}
	return fmt.Sprintf("%s belongs to job %s of the store %s", e.Dir, e.Job, e.Store)
}

// Foreign reports whether an error says that a directory is used by another job.
func Foreign(err error) bool {
	return errors.As(err, new(*OwnerError)) || errors.Is(err, ErrOtherNode) || errors.Is(err, image.ErrJobExists) || errors.Is(err, image.ErrInUse)
}

// For has the tier check that directories belong to a job of this store, and claim for it
// those that are new.
func (t *Tier) For(store *image.Store) { t.owner = store }

// Hold has the tier lock each directory that it makes or claims, until Release: no other job
// takes it meanwhile.
func (t *Tier) Hold() { t.holds = true }

// Release gives the locks back.
func (t *Tier) Release() {
	for i := range t.opened {
		o := &t.opened[i]
		o.mu.Lock()
		o.release()
		o.mu.Unlock()
	}
}

// Forsake removes from the directories that are held what has no checkpoint.
func (t *Tier) Forsake() {
	for i := range t.opened {
		o := &t.opened[i]
		o.mu.Lock()
		if o.held != nil {
			if numbers, err := o.held.Checkpoints(); err == nil && len(numbers) == 0 {
				_, _, _ = o.held.Remove() // what is left is a job without a checkpoint
			}
			o.release()
		}
		o.job = nil
		o.mu.Unlock()
	}
}

func (o *opened) release() {
	if o.held != nil {
		_ = o.held.Unlock() // it was in use until now
		o.held = nil
	}
}

// hold locks the directory of a node, if the tier holds its directories.
func (t *Tier) hold(j *image.Job, node int) error {
	if !t.holds {
		return nil
	}
	o := &t.opened[node]
	o.release() // a directory that was lost
	err := j.Lock()
	if err == nil {
		o.held = j
	}
	return err
}

// claim writes the file that says whose the directory is, unless a job with a checkpoint has
// it already.
func (t *Tier) claim(j *image.Job, node int) error {
	is, err := t.owned(j, node)
	if errors.As(err, new(*OwnerError)) {
		if numbers, lerr := j.Checkpoints(); lerr != nil || len(numbers) > 0 {
			return errors.Join(err, lerr)
		}
	} else if err != nil && !unknown(err) || err == nil && (is.Owner != nil || t.owner == nil) {
		return err
	}
	want := mark{Job: t.name, Node: node, Digest: t.digest}
	if t.owner != nil {
		owner, err := t.owner.Owner()
		if err != nil {
			return err
		}
		if owner.ID != "" {
			want.Owner = &owner
		}
	}
	return durable.ReplaceSealed(j.FS(), filepath.Join(j.Dir(), nodeFile), want)
}

// unknown reports whether an error of owned leaves the owner open.
func unknown(err error) bool {
	damage := (*durable.DamageError)(nil)
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &damage)
}

// owned checks that the directory belongs to a node of this job.
func (t *Tier) owned(j *image.Job, node int) (is mark, err error) {
	readErr := durable.ReadSealed(j.FS(), filepath.Join(j.Dir(), nodeFile), 64<<10, &is)
	if readErr != nil && !unknown(readErr) {
		return is, readErr
	}
	other := &OwnerError{Dir: j.Dir(), Job: t.name}
	if is.Owner != nil {
		other.Store = is.Owner.Path
	}
	// A description that is damaged tells nothing, but the mark has its digest.
	if text, err := j.Spec(); err == nil && !bytes.Equal(text, t.description) || is.Digest != "" && is.Digest != t.digest {
		return is, other
	}
	if readErr != nil {
		return is, readErr
	}
	if is.Job != t.name || is.Node != node {
		return is, fmt.Errorf("%w: %s is that of node %d of job %s", ErrOtherNode, j.Dir(), is.Node, is.Job)
	}
	if is.Owner != nil && t.owner != nil {
		same, err := t.owner.Is(*is.Owner)
		if err == nil && !same {
			err = other
		}
		return is, err
	}
	return is, nil
}

// NodeAbove returns the directory of a node that dir is, or lies in; or "".
// Its contents belong to jobs of other stores.
func NodeAbove(fsys vfs.FS, dir string) string {
	for {
		if isNode(fsys, dir) {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// isNode reports whether a directory has a job with a mark.
func isNode(fsys vfs.FS, dir string) bool {
	if _, err := image.OpenStore(fsys, dir); err != nil {
		return false
	}
	jobs := filepath.Join(dir, "jobs")
	entries, _ := fsys.ReadDir(jobs) // what cannot be read is no node that is used
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, err := fsys.Stat(filepath.Join(jobs, e.Name(), nodeFile))
		return err == nil
	})
}

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

// Manifest returns the manifest of a version as a node has it or, if that has lost it,
// another. ID is the identity of the version.
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
