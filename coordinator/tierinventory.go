package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
)

// An inventory is what the nodes of a stored job have.
type inventory struct {
	spec     *job.Resolved // as the job was described, or as it ran last
	job      *image.Job
	levels   *job.Levels
	nodes    *nodes.Tier
	apart    bool // they are on several hosts
	newest   bool // the nodes may have a newer checkpoint than the record says
	versions map[int]*image.Manifest
	next     int
	told     map[int]bool // nodes of which a warning says what is wrong with them

	unseenTold bool // a warning names a newer checkpoint that is not seen
}

// takeInventory looks into the directories of the nodes of a stored job, or nil.
// If they are on several hosts, apart, they cannot be reached yet: the record says what they
// had.
func takeInventory(ctx context.Context, spec *job.Resolved, j *image.Job, apart bool, out Observer) (*inventory, error) {
	if spec.Tier == nil {
		return nil, nil
	}
	read := job.LevelsOf
	if apart {
		read = job.RecordedLevels
	}
	l, err := read(ctx, j, spec)
	if err != nil {
		return nil, err
	}
	v := &inventory{spec: spec, job: j, levels: l, nodes: l.Tier, apart: apart, versions: map[int]*image.Manifest{}, told: map[int]bool{}}
	wrong, found := l.Wrong, slices.Concat(l.Stale, l.Versions)
	if apart {
		wrong = append(wrong, v.remember(l.Record)...)
	} else {
		kept, warnings := v.nodes.Settle(ctx, found, j, l.Record)
		if len(wrong) == 0 { // else there may be more versions
			warnings = append(warnings, v.nodes.Sweep(ctx, kept)...)
		}
		wrong = slices.Concat(wrong, warnings)
		if l.RecordErr != nil && len(kept) > 0 {
			wrong = append(wrong, l.Recover()) // the next who looks finds them by it
		}
		for _, k := range kept {
			v.versions[k.Number] = k.Manifest
		}
	}
	for _, err := range wrong {
		if err == nil {
			continue
		}
		if node := (*nodes.NodeError)(nil); errors.As(err, &node) {
			v.told[node.Node] = true
		}
		out.Warn(err.Error())
	}
	v.next, err = nodes.Next(j, l.Record, found)
	return v, err
}

// remember takes over what the record says that the nodes had.
func (v *inventory) remember(record *nodes.Record) (warnings []error) {
	if record == nil {
		return nil
	}
	for _, k := range record.Versions {
		if k.Manifest == "" {
			continue
		}
		m, err := image.DecodeManifest(nodes.RecordPath(v.job), []byte(k.Manifest))
		if err == nil && (m.Number != k.Number || m.ID != k.ID) {
			err = durable.Damaged(nodes.RecordPath(v.job), 0, "it has the manifest of checkpoint %d for that of checkpoint %d", m.Number, k.Number)
		}
		if err != nil {
			warnings = append(warnings, err)
			continue
		}
		if is, err := v.job.Manifest(k.Number); err == nil && is.ID != m.ID {
			continue // stale
		}
		v.versions[k.Number] = m
	}
	return warnings
}

// choose returns checkpoint n, 0 for the newest, wherever it is.
func (v *inventory) choose(n int) (*image.Manifest, error) {
	if v == nil || n > 0 && v.versions[n] == nil {
		return nil, nil
	}
	newest, err := v.job.Latest()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		for number := range v.versions {
			n = max(n, number)
		}
		if n < newest {
			return nil, nil
		}
	}
	m := v.versions[n]
	if m == nil {
		return nil, nil
	}
	return m, v.spec.CheckTaken(v.job, m)
}

// warnUnseen names a checkpoint that is newer than the one to continue from, and on nodes that
// are not seen.
func (v *inventory) warnUnseen(from *image.Manifest, out Observer) {
	if v.apart || v.unseenTold || from == nil {
		return
	}
	unseen := v.levels.Unseen()
	if n := len(unseen); n > 0 && unseen[n-1].Number > from.Number {
		v.unseenTold = true
		out.Warn(fmt.Sprintf("%v: the job continues from checkpoint %d", v.levels.Explain(unseen[n-1].Number, image.ErrCheckpointNotFound), from.Number))
	}
}

// isStored reports whether the store has a version.
func (v *inventory) isStored(m *image.Manifest) bool {
	is, err := v.job.Manifest(m.Number)
	return err == nil && is.ID == m.ID
}

// storeFirst copies a version into the store before a run on other nodes reads it there.
func (v *inventory) storeFirst(ctx context.Context, m *image.Manifest, library func(number int) (*container.File, error)) error {
	if v.isStored(m) {
		return nil
	}
	client := turnsClient(v.spec, v.job)
	defer client.Close()
	_, err := storeVersion(ctx, client, v.job, v.nodes, m, library)
	return err
}

// leave takes the versions from the nodes that were written under another mapping.
func (v *inventory) leave(mapping job.Mapping, out Observer) {
	for n, m := range v.versions {
		if job.Mapping(m.Mapping).String() == mapping.String() {
			continue
		}
		if !v.apart { // else they go when others take their place
			if err := v.nodes.Reclaim(n); err != nil {
				out.Warn(notRemoved + err.Error())
			}
		}
		delete(v.versions, n)
	}
}

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
