package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"ckpt/image"
)

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
