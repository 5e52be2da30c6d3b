package nvcache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"ckpt/image"
)

// Settle removes stale versions from the nodes, and returns the others and a warning for
// each that went. Stale is one whose identity is not that of the checkpoint of its number
// in the store; of several of one number that the store does not have, all but the one
// that the record names, or else the newest. Store may be nil: it cannot be reached.
func (t *Tier) Settle(ctx context.Context, versions []Version, store *image.Job, r *Record) (kept []Version, warnings []error) {
	for i, v := range versions {
		if err := ctx.Err(); err != nil {
			return append(kept, versions[i:]...), append(warnings, err)
		}
		right, where, err := rightful(versions, v.Number, store, r)
		if err != nil {
			warnings = append(warnings, err)
		}
		if right == v.ID {
			kept = append(kept, v)
			continue
		}
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
