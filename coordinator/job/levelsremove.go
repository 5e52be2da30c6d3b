package job

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/image/nodes"
)

// Prune removes from the nodes the versions that are not among the newest so many
// checkpoints of the job, of which the store has some. A dry run only says which. Nobody
// else may write to the job. It returns the bytes set free. The record of l then has what
// stays on nodes.
func (l *Levels) Prune(keep int, inStore []int, dryRun bool) (removed []int, freed int64, err error) {
	if l.Tier == nil {
		return nil, 0, nil
	}
	all := slices.Clone(inStore)
	for _, v := range l.Versions {
		all = append(all, v.Number)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	kept := all[max(0, len(all)-keep):]
	for _, v := range slices.Concat(l.Versions, l.Stale) {
		if slices.Contains(kept, v.Number) || slices.Contains(removed, v.Number) {
			continue
		}
		bytes := l.bytes(v.Number)
		if !dryRun {
			if err := l.Tier.Reclaim(v.Number); err != nil {
				return removed, freed, err
			}
		}
		removed, freed = append(removed, v.Number), freed+bytes
	}
	slices.Sort(removed)
	if l.Record == nil {
		return removed, freed, nil
	}
	// Older versions leave the record, also those on nodes that are not seen.
	before := len(l.Record.Versions)
	l.Record.Versions = slices.DeleteFunc(l.Record.Versions, func(k nodes.Known) bool {
		return slices.Contains(removed, k.Number) || len(kept) == keep && (keep == 0 || k.Number < kept[0])
	})
	if dryRun || len(l.Record.Versions) == before {
		return removed, freed, nil
	}
	return removed, freed, l.Record.Write(l.job)
}

// bytes adds up what the nodes have of a version.
func (l *Levels) bytes(number int) (n int64) {
	for node := range l.Tier.Nodes() {
		j, err := l.Tier.Job(node)
		if err != nil {
			continue
		}
		entries, _ := j.FS().ReadDir(j.NumberDir(number)) // not there: none
		for _, e := range entries {
			if fi, err := j.FS().Stat(filepath.Join(j.NumberDir(number), e.Name())); err == nil {
				n += fi.Size()
			}
		}
	}
	return n
}

// Remove removes the job from all nodes that can be reached, with all its files there. Left
// are the nodes that may still have some. A dry run only says what would go.
func (l *Levels) Remove(dryRun bool) (freed int64, left []int, err error) {
	if l.Tier == nil {
		return 0, nil, nil
	}
	for node := range l.Tier.Nodes() {
		bytes, nerr := l.removeFrom(node, dryRun)
		freed += bytes
		if nerr != nil {
			left = append(left, node)
			err = errors.Join(err, nerr)
		}
	}
	return freed, left, err
}

// removeFrom removes the job from a node.
func (l *Levels) removeFrom(node int, dryRun bool) (freed int64, err error) {
	j, err := l.Tier.Job(node)
	if errors.Is(err, fs.ErrNotExist) && l.Record != nil && len(l.Record.Versions) > 0 {
		n := l.Tier.Nodes()[node]
		if _, serr := n.FS.Stat(n.Dir); errors.Is(serr, fs.ErrNotExist) {
			return 0, &nodes.NodeError{Node: node, Whole: true, Err: fmt.Errorf("%s is not there", n.Dir)}
		}
	}
	if errors.Is(err, fs.ErrNotExist) || nodes.Foreign(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if dryRun {
		return j.Size()
	}
	if err := j.Lock(); err != nil {
		return 0, err
	}
	_, freed, err = j.Remove()
	if err != nil {
		_ = j.Unlock() // the removal failed, and may be tried again
	}
	return freed, err
}
