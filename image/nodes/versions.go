package nodes

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"ckpt/image"
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
)

// A Version is a checkpoint as nodes have it.
type Version struct {
	Number   int
	ID       string
	State    State // Local or Protected, as it was committed
	Nodes    []int // that have its manifest
	Manifest *image.Manifest
}

// Versions lists what the nodes that can be reached have, by number; of those of a number,
// of which all but one are stale, the newest last. The errors say which nodes or manifests
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

// manifests reads those of a node.
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
