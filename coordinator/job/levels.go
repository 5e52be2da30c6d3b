package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"ckpt/image"
	"ckpt/image/nvcache"
	"ckpt/internal/vfs"
)

// Levels says where the checkpoints of a job live, as far as this host can see.
type Levels struct {
	// Tier is the directories of the nodes; nil if the job has none.
	Tier   *nvcache.Tier
	Record *nvcache.Record // that the job keeps in the store; nil if there is none
	Hosts  []string        // of the nodes; empty if they are not known
	// Versions are those that nodes have, without stale ones.
	Versions []nvcache.Version
	// Stale are versions on nodes that are not the checkpoint of their number.
	Stale []nvcache.Version
	// Wrong says which nodes and manifests could not be read.
	Wrong []error

	job *image.Job
}

// ReadLevels looks for the checkpoints of a job on its nodes. Those of other hosts cannot
// be seen. It changes nothing, and fails only if the description of the job cannot be read.
func ReadLevels(ctx context.Context, j *image.Job) (*Levels, error) {
	l, err := openLevels(j)
	if err != nil || l.Tier == nil {
		return l, err
	}
	versions, wrong := l.Tier.Versions(ctx)
	l.Wrong = append(l.Wrong, wrong...)
	for _, v := range versions {
		if stale, err := l.stale(j, v); err != nil {
			l.Wrong = append(l.Wrong, err)
		} else if stale {
			l.Stale = append(l.Stale, v)
			continue
		}
		l.Versions = append(l.Versions, v)
	}
	return l, ctx.Err()
}

// openLevels opens the directories of the nodes under the mapping that the job had last.
func openLevels(j *image.Job) (*Levels, error) {
	l := &Levels{job: j}
	spec, err := ReadSpec(j)
	if err != nil || spec.Tier == nil {
		return l, err
	}
	setting, mapping := *spec.Tier, spec.Mapping
	record, err := nvcache.ReadRecord(j)
	if err != nil {
		l.Wrong = append(l.Wrong, err)
	} else if record != nil {
		l.Record, setting, mapping, l.Hosts = record, record.Setting, record.Mapping, record.Hosts
	}
	l.Tier, err = OpenTier(j, setting, mapping, func(node int) vfs.FS { return l.fsOf(node, j.FS()) })
	return l, err
}

// fsOf returns the file system of a node; nil if that is another host.
func (l *Levels) fsOf(node int, here vfs.FS) vfs.FS {
	name, err := os.Hostname()
	if node < len(l.Hosts) && l.Hosts[node] != "" && err == nil && l.Hosts[node] != name {
		return nil
	}
	return here
}

// stale reports whether a version is not the checkpoint of its number. The store decides,
// and where it does not have one, the record.
func (l *Levels) stale(j *image.Job, v nvcache.Version) (bool, error) {
	m, err := j.Manifest(v.Number)
	if err == nil {
		return m.ID != v.ID, nil
	}
	if !errors.Is(err, image.ErrCheckpointNotFound) {
		return false, fmt.Errorf("checkpoint %d: %w", v.Number, err)
	}
	k, known := l.Record.Of(v.Number)
	return known && k.ID != v.ID, nil
}

// Version returns what the nodes have of a checkpoint; nil if they have nothing.
func (l *Levels) Version(number int) *nvcache.Version {
	i := slices.IndexFunc(l.Versions, func(v nvcache.Version) bool { return v.Number == number })
	if i < 0 {
		return nil
	}
	return &l.Versions[i]
}

// Unseen lists the checkpoints that are on nodes according to the record, and that no node
// seen from here has.
func (l *Levels) Unseen() (list []nvcache.Known) {
	if l.Record == nil {
		return nil
	}
	for _, k := range l.Record.Versions {
		if onNodes(k.Level) && l.Version(k.Number) == nil {
			list = append(list, k)
		}
	}
	return list
}

func onNodes(s nvcache.State) bool {
	return s == nvcache.Local || s == nvcache.Protected || s == nvcache.Draining || s == nvcache.Stored
}
