package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
)

// A State is how far a version has come.
type State string

// The states of a version, in order.
const (
	Filling   State = "filling"   // its files are being written
	Local     State = "local"     // it is durable on the nodes that made it
	Protected State = "protected" // and the loss of a node does not lose it
	Draining  State = "draining"  // it is being copied into the store
	Stored    State = "stored"    // it is in the store
	Reclaimed State = "reclaimed" // its slot on the nodes is free again
	InNext    State = "next"      // it is in a next store
)

// A Version is a checkpoint as nodes have it.
type Version struct {
	Number   int
	ID       string
	State    State // Local or Protected, as it was committed
	Nodes    []int // that have its manifest
	Manifest *image.Manifest
}

// Versions lists what the nodes that can be reached have, by number. Of several with one
// number, all but one are stale; the newest comes last. The errors say which nodes or manifests
// could not be read: there may be more versions.
func (t *Tier) Versions(ctx context.Context) ([]Version, []error) {
	var mu sync.Mutex
	var list []Version
	var errs []error
	wrong := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	for _, n := range t.nodes {
		if n.FS == nil {
			wrong(nodeError(n.ID, ErrUnreachable))
		}
	}
	t.each(func(node int) error {
		manifests, bad := t.manifests(ctx, node)
		for _, err := range bad {
			wrong(nodeError(node, err))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, m := range manifests {
			list = found(list, node, m)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b Version) int {
		if a.Number != b.Number {
			return a.Number - b.Number
		}
		return a.Manifest.Created.Compare(b.Manifest.Created)
	})
	for _, v := range list {
		slices.Sort(v.Nodes)
	}
	return list, errs
}

// found adds a manifest that a node has.
func found(list []Version, node int, m *image.Manifest) []Version {
	for i := range list {
		if list[i].Number == m.Number && list[i].ID == m.ID {
			list[i].Nodes = append(list[i].Nodes, node)
			return list
		}
	}
	v := Version{Number: m.Number, ID: m.ID, State: Local, Nodes: []int{node}, Manifest: m}
	if s, err := schemeOf(m); err == nil {
		v.State = StateOf(s)
	}
	return append(list, v)
}

// manifests reads the manifests of a node.
func (t *Tier) manifests(ctx context.Context, node int) (list []*image.Manifest, errs []error) {
	j, err := t.look(node)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{err}
	}
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, []error{err}
	}
	for _, n := range numbers {
		if err := ctx.Err(); err != nil {
			return list, append(errs, err)
		}
		m, err := j.Manifest(n)
		switch {
		case err != nil:
			errs = append(errs, err)
		case m.ID == "" || m.Tier == nil:
			errs = append(errs, durable.Damaged(j.FilePath(manifestPath(n)), 0, "it is not of a version of a tier"))
		default:
			list = append(list, m)
		}
	}
	return list, errs
}

// Rightful takes the versions apart that nodes have. Stale is one whose identity is not that
// of the checkpoint of its number in the store; of several of one number that the store does
// not have, all but the one that the record names, or else the newest. Store may be nil: it
// cannot be reached. The errors are of the store.
func Rightful(versions []Version, store *image.Job, r *Record) (right, stale []Version, errs []error) {
	for _, v := range versions {
		id, _, err := rightful(versions, v.Number, store, r)
		if err != nil {
			errs = append(errs, err)
		}
		if id == v.ID {
			right = append(right, v)
		} else {
			stale = append(stale, v)
		}
	}
	return right, stale, errs
}

// Settle removes stale versions from the nodes, as Rightful tells them, and returns the others
// and a warning for each that went.
func (t *Tier) Settle(ctx context.Context, versions []Version, store *image.Job, r *Record) (kept []Version, warnings []error) {
	kept, stale, warnings := Rightful(versions, store, r)
	for _, v := range stale {
		if err := ctx.Err(); err != nil {
			return kept, append(warnings, err)
		}
		_, where, _ := rightful(versions, v.Number, store, r)
		warnings = append(warnings, fmt.Errorf("version %d on nodes %v is stale: %s has another of this number", v.Number, v.Nodes, where))
		warnings = append(warnings, t.forget(v)...)
	}
	return kept, warnings
}

// rightful returns which identity is right for a number, and where it is from.
func rightful(versions []Version, number int, store *image.Job, r *Record) (id, where string, err error) {
	if store != nil {
		m, err := store.Manifest(number)
		if err == nil {
			return m.ID, "the store", nil
		}
		if !errors.Is(err, image.ErrCheckpointNotFound) {
			id, where, _ = rightful(versions, number, nil, r)
			return id, where, err
		}
	}
	k, known := r.Of(number)
	for _, v := range versions {
		if v.Number != number {
			continue
		}
		id, where = v.ID, "another node" // the newest is the last
		if known && v.ID == k.ID {
			return v.ID, "the record of the job", nil
		}
	}
	return id, where, nil
}

// forget removes a version from the nodes that have its manifest.
func (t *Tier) forget(v Version) (errs []error) {
	for _, node := range v.Nodes {
		j, err := t.look(node)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = nodeError(node, wipe(j, v.Number))
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Sweep removes from the nodes what does not belong to some versions: remains of a commit or
// a reclaim that did not end, and files that are not complete. It comes before the first
// version of a run is begun. A directory with a manifest that cannot be read stays: a newer
// ckpt may have written it.
func (t *Tier) Sweep(ctx context.Context, versions []Version) []error {
	known := make(map[int]bool)
	for _, v := range versions {
		known[v.Number] = true
	}
	var errs []error
	for _, err := range t.each(func(node int) error { return nodeError(node, t.sweep(ctx, node, known)) }) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (t *Tier) sweep(ctx context.Context, node int, known map[int]bool) error {
	j, err := t.look(node)
	if Lost(err) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := j.FS().ReadDir(j.Dir())
	if err != nil {
		return durable.Op("list", j.Dir(), -1, err)
	}
	for _, e := range entries {
		n, ok := container.ParseNumber(e.Name())
		if !ok || !e.IsDir() {
			if strings.HasPrefix(e.Name(), tryPrefix) {
				_ = durable.Remove(j.FS(), filepath.Join(j.Dir(), e.Name())) // a trial that was cut short
			}
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if known[n] {
			err = sweepIncomplete(j, n)
		} else if _, serr := j.FS().Stat(j.FilePath(manifestPath(n))); errors.Is(serr, fs.ErrNotExist) {
			err = wipe(j, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepIncomplete removes files of a version that were not complete.
func sweepIncomplete(j *image.Job, number int) error {
	dir := j.NumberDir(number)
	entries, err := j.FS().ReadDir(dir)
	if err != nil {
		return durable.Op("list", dir, -1, err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), durable.TempSuffix) {
			if err := durable.Remove(j.FS(), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Survey says what the nodes have of a version, as Verify does, but reads no more than
// manifests, headers and indexes: damage to the contents of a file does not show.
func (t *Tier) Survey(ctx context.Context, m *image.Manifest) []Finding {
	v := &verification{tier: t, m: m, shallow: true}
	return append(v.directories(), v.all(ctx)...)
}
