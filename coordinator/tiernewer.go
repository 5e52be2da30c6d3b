package coordinator

import (
	"context"
	"errors"
	"fmt"

	"ckpt/image"
)

// A newerError says that the nodes of a job, which are on several hosts, have a newer
// checkpoint than the record in the store: the run begins with that instead.
type newerError struct{ m *image.Manifest }

func (e *newerError) Error() string {
	return fmt.Sprintf("checkpoint %d, which the nodes have, is newer than what the store knows of", e.m.Number)
}

// beginWith has the ranks read the checkpoint that they are to begin with, now that the
// nodes can be reached.
func (t *tier) beginWith(number int) {
	g := t.g
	v := g.d.inventory
	if v == nil || !v.newest {
		g.examine(number)
		return
	}
	v.newest = false // the next incarnations know what there is
	incarnation := g.incarnation
	g.d.helpers.Go(func() {
		newer := t.newerThan(number)
		g.d.post(func() {
			switch {
			case incarnation != g.incarnation || g.d.over():
			case newer != nil:
				g.d.fail(&newerError{newer})
			default:
				g.examine(number)
			}
		})
	})
}

// newerThan returns the newest version that a node has and that is newer than a checkpoint;
// nil if there is none.
func (t *tier) newerThan(number int) *image.Manifest {
	var newest *image.Manifest
	found, _ := t.nodes.Versions(context.Background()) // a node that cannot be read is found out later
	for _, v := range found {
		m, err := t.g.job.Manifest(v.Number)
		if v.Number <= number || err == nil && m.ID != v.ID {
			continue // older, or stale
		}
		if newest == nil || v.Number >= newest.Number {
			newest = v.Manifest
		}
	}
	return newest
}

// resumeNewest resumes a job whose nodes are reached only when its ranks run: twice, if they
// have a newer checkpoint than was known.
func (o RestartOptions) resumeNewest(run func(RestartOptions) (*Result, error)) (*Result, error) {
	v := o.inventory
	if v != nil {
		v.newest = v.apart && o.Checkpoint == 0
	}
	r, err := run(o)
	var newer *newerError
	if !errors.As(err, &newer) {
		return r, err
	}
	v.versions[newer.m.Number] = newer.m
	v.next = max(v.next, newer.m.Number+1)
	return run(o)
}
