package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
)

// Source is where the file of a rank was found.
type Source string

// The sources of a file, nearest first.
const (
	FromLocal  Source = "local"  // it was in place
	FromCopy   Source = "copy"   // another node had it whole
	FromParity Source = "parity" // it was rebuilt
)

// From says where Recover has found the file of a rank.
type From struct {
	Source Source
	Nodes  []int      // that it came from
	Job    *image.Job // that has it, in the directory of a node
	// Passed is what was wrong with what is nearer.
	Passed []error
}

// Recover puts the file of a rank in place, in the directory of the node that the rank is
// on now, and says where it was found. Where that node cannot take it, another does that
// knows of the version. Each byte has been checked. It fails with ErrNotHere if the nodes
// that can be reached do not have enough to make it; the error says why.
//
// Several may recover ranks of one node at a time once Ready was called for it.
func (t *Tier) Recover(ctx context.Context, m *image.Manifest, rank int) (From, error) {
	f, ok := fileOf(m, rank)
	if !ok {
		return From{}, fmt.Errorf("version %d: %w %d with a file on the nodes", m.Number, image.ErrRankNotFound, rank)
	}
	if rank >= len(t.topology.NodeOf) {
		return From{}, fmt.Errorf("version %d: rank %d is on no node", m.Number, rank)
	}
	own := t.topology.NodeOf[rank]
	from, err := t.recover(ctx, m, f, own)
	passed := from.Passed
	for _, node := range t.placesOf(m, f.Path) {
		if err == nil || !Lost(err) || errors.Is(err, ErrNotHere) {
			break
		}
		if node == own || !t.has(node, m) {
			continue
		}
		passed = append(passed, err)
		if from, err = t.recover(ctx, m, f, node); from.Source == FromLocal {
			from.Source = FromCopy // of this rank's node
		}
		passed = append(passed, from.Passed...)
	}
	from.Passed = passed
	if Lost(err) && !errors.Is(err, ErrNotHere) {
		err = fmt.Errorf("file %s of version %d is %w where it can be read: %w", f.Path, m.Number, ErrNotHere, errors.Join(append(passed, err)...))
	}
	return from, err
}

// has reports whether a node knows of a version.
func (t *Tier) has(node int, m *image.Manifest) bool {
	j, err := t.look(node)
	if err == nil {
		_, err = manifestOf(j, m.Number, m.ID)
	}
	return err == nil
}

// recover puts a file in place on a node.
func (t *Tier) recover(ctx context.Context, m *image.Manifest, f container.File, node int) (From, error) {
	r := &recovery{tier: t, m: m, file: f, node: node}
	var err error
	if r.own, err = t.place(r.node); err != nil {
		return From{}, err
	}
	r.from.Job = r.own
	for _, attempt := range []func(context.Context) (bool, error){r.local, r.copy, r.rebuild} {
		done, err := attempt(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if done || err != nil {
			return r.from, nodeError(node, err)
		}
	}
	return r.from, fmt.Errorf("file %s of version %d is %w: %w", f.Path, m.Number, ErrNotHere, errors.Join(r.from.Passed...))
}

// Ready makes the directory of a node, if it is not there. One process at a time may call
// it for a node.
func (t *Tier) Ready(node int) error {
	_, err := t.place(node)
	return err
}

// A recovery looks for the file of a rank.
type recovery struct {
	tier *Tier
	m    *image.Manifest
	file container.File
	node int        // that it is to be on
	own  *image.Job // in the directory of that
	from From
}

// passed notes why a place does not do.
func (r *recovery) passed(node int, err error) {
	r.from.Passed = append(r.from.Passed, nodeError(node, err))
}

// found says where the file came from.
func (r *recovery) found(source Source, nodes ...int) (bool, error) {
	r.from.Source, r.from.Nodes = source, nodes
	return true, nil
}

// local checks the file that is in place.
func (r *recovery) local(ctx context.Context) (bool, error) {
	err := r.own.Place().Same(ctx, r.file, nil)
	if err == nil {
		return r.found(FromLocal, r.node)
	}
	r.passed(r.node, err)
	return false, nil
}

// copy takes the file from a node that has it.
func (r *recovery) copy(ctx context.Context) (bool, error) {
	for _, node := range r.tier.placesOf(r.m, r.file.Path) {
		if node == r.node {
			continue
		}
		j, err := r.tier.look(node)
		if err != nil {
			r.passed(node, err)
			continue
		}
		if _, err := j.FS().Stat(j.FilePath(r.file.Path)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err = r.replace(func(tmp string) error {
			return j.Place().Copy(ctx, r.file, r.own.FS(), tmp, container.CopyOptions{})
		})
		if target := (*targetError)(nil); errors.As(err, &target) {
			return false, err
		}
		if err == nil {
			return r.found(FromCopy, node)
		}
		r.passed(node, err)
	}
	return false, nil
}

// placesOf lists the nodes that may have a file of a version: the one that wrote it, those
// with copies of it, and the rest, which may have it after ranks have moved.
func (t *Tier) placesOf(m *image.Manifest, path string) []int {
	var list []int
	add := func(node int) {
		if node >= 0 && node < len(t.nodes) && !slices.Contains(list, node) {
			list = append(list, node)
		}
	}
	for _, p := range partsOf(m) {
		if p.path() == path {
			add(p.node)
		}
	}
	for node := range t.nodes {
		add(node)
	}
	return list
}

// A targetError says that the file could not be put in place, wherever it came from.
type targetError struct{ error }

func (e *targetError) Unwrap() error { return e.error }

// replace has write make the file under another name, and puts it in place, durably.
func (r *recovery) replace(write func(tmp string) error) error {
	return replaceFile(r.own, r.file.Path, write)
}

// trialBytes is the length of the file that Regain writes.
const trialBytes = 1 << 20

// tryPrefix begins the name of that file.
const tryPrefix = "try-"

// Regain makes the directories of all nodes again, after one of them failed, and finds out
// whether each takes a version of the size of another one, which may be nil. It removes the
// versions that are not to be kept: they were reclaimed or discarded while the node did not
// work. Nothing is written to others meanwhile.
func (t *Tier) Regain(like *image.Manifest, keep map[int]bool) error {
	return errors.Join(t.each(func(node int) error { return nodeError(node, t.regain(node, like, keep)) })...)
}

func (t *Tier) regain(node int, like *image.Manifest, keep map[int]bool) error {
	if err := t.mend(node); err != nil {
		return err
	}
	j, err := t.place(node)
	if err != nil {
		return err
	}
	numbers, err := j.Checkpoints()
	for _, n := range numbers {
		if err == nil && !keep[n] {
			err = wipe(j, n)
		}
	}
	if err != nil {
		return err
	}
	if err := try(j, trialBytes); err != nil {
		return err
	}
	free, err := j.FS().Free(j.Dir())
	if need := bytesOn(like, node); err == nil && free < need {
		return fmt.Errorf("%w: a checkpoint takes %d bytes in %s, %d are free", durable.ErrStorageFull, need, j.Dir(), free)
	}
	return nil // room that cannot be told is found out by writing
}

// try writes a file of so many bytes in the directory of a node, and removes it.
func try(j *image.Job, bytes int) error {
	name := filepath.Join(j.Dir(), tryPrefix+image.NewID()+durable.TempSuffix)
	f, err := j.FS().Create(name)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err
		}
		return durable.Op("write to", j.Dir(), -1, err)
	}
	err = durable.WriteAt(f, name, make([]byte, bytes), 0)
	if err == nil {
		err = durable.Op("sync", name, -1, f.Sync())
	}
	return errors.Join(err, f.Close(), durable.Remove(j.FS(), name))
}

// bytesOn adds up the files that a node has of a version.
func bytesOn(m *image.Manifest, node int) (n int64) {
	if m == nil {
		return 0
	}
	for _, p := range partsOf(m) {
		if p.node == node {
			n += p.file.Bytes + p.parity.Bytes
		}
	}
	return n
}
