package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// Levels says which checkpoints a job has and where each is, as far as this host can see: in the
// store, on nodes, or on nodes by the record only. All commands ask it.
type Levels struct {
	// Tier is the directories of the nodes; nil for a job that keeps all in the store.
	Tier   *nodes.Tier
	Record *nodes.Record // of the job, in the store; may be nil
	Hosts  []string      // of the nodes; empty if they are not known
	// Versions are on nodes, without stale ones.
	Versions []nodes.Version
	// Stale are versions on nodes that are not the checkpoint of their number.
	Stale []nodes.Version
	// Wrong says which nodes and manifests could not be read, among them RecordErr, what is wrong
	// with the record.
	Wrong     []error
	RecordErr error

	job     *image.Job
	mapping Mapping // of ranks to the nodes
}

// ReadLevels looks for the checkpoints of a job on its nodes, as far as this host sees them. It
// changes nothing, and fails only if the description of the job cannot be read: what the record
// says is there all the same.
func ReadLevels(ctx context.Context, j *image.Job) (*Levels, error) {
	spec, err := ReadSpec(j)
	if err != nil {
		l := &Levels{job: j}
		l.readRecord()
		return l, err
	}
	return LevelsOf(ctx, j, spec)
}

// LevelsOf is ReadLevels with the description already read.
func LevelsOf(ctx context.Context, j *image.Job, spec *Resolved) (*Levels, error) {
	l := &Levels{job: j}
	if err := l.open(spec, l.fsOf); err != nil || l.Tier == nil {
		return l, err
	}
	l.look(ctx)
	if l.Record == nil && len(l.Versions) > 0 {
		l.followManifests(ctx, spec)
	}
	return l, ctx.Err()
}

// RecordedLevels takes the checkpoints of a job from its record. Its nodes are on hosts that are
// not reached yet.
func RecordedLevels(_ context.Context, j *image.Job, spec *Resolved) (*Levels, error) {
	l := &Levels{job: j}
	err := l.open(spec, func(int) vfs.FS { return nil })
	return l, err
}

// Job is the job in the store.
func (l *Levels) Job() *image.Job { return l.job }

func (l *Levels) readRecord() {
	l.Record, l.RecordErr = nodes.ReadRecord(l.job)
	if l.Record != nil {
		l.Hosts = l.Record.Hosts
	}
	l.note()
}

// note sets Wrong: what is wrong with the record, then errs.
func (l *Levels) note(errs ...error) {
	l.Wrong = errs
	if l.RecordErr != nil {
		l.Wrong = slices.Concat([]error{l.RecordErr}, errs)
	}
}

// open opens the directories of the nodes under the mapping that the job had last.
func (l *Levels) open(spec *Resolved, where func(node int) vfs.FS) (err error) {
	if spec.Tier == nil {
		return nil
	}
	l.readRecord()
	setting, mapping := *spec.Tier, spec.Mapping
	if r := l.Record; r != nil && r.Setting.Dir != setting.Dir { // one of before has no checksum
		l.RecordErr = durable.Damaged(nodes.RecordPath(l.job), 0, "the directories of the nodes are %s, it says %s", setting.Dir, r.Setting.Dir)
		l.Record, l.Hosts = nil, nil
		l.note()
	}
	if l.Record != nil {
		setting, mapping = l.Record.Setting, l.Record.Mapping
	}
	l.mapping = mapping
	l.Tier, err = OpenTier(l.job, setting, mapping, where)
	return err
}

func (l *Levels) look(ctx context.Context) {
	found, wrong := l.Tier.Versions(ctx)
	var unclear []error
	l.Versions, l.Stale, unclear = nodes.Rightful(found, l.job, l.Record)
	l.note(slices.Concat(wrong, unclear)...)
}

// followManifests looks again if the record is lost, and the manifests on the nodes name other
// nodes than the description does.
func (l *Levels) followManifests(ctx context.Context, spec *Resolved) {
	m := l.Versions[len(l.Versions)-1].Manifest
	if slices.Equal(m.Mapping, []int(spec.Mapping)) {
		return
	}
	setting := *spec.Tier
	scheme, err := nodes.Parse(m.Tier.Protect)
	if err != nil {
		return // the manifest is of a newer ckpt: what was found has to do
	}
	setting.Protect, setting.Domains = scheme, m.Tier.Domains
	if tier, err := OpenTier(l.job, setting, m.Mapping, l.fsOf); err == nil {
		l.Tier, l.mapping = tier, m.Mapping
		l.look(ctx)
	}
}

// fsOf returns the file system of a node; nil for another host.
func (l *Levels) fsOf(node int) vfs.FS {
	name, err := os.Hostname()
	if node < len(l.Hosts) && l.Hosts[node] != "" && err == nil && l.Hosts[node] != name {
		return nil
	}
	return l.job.FS()
}

// Recover writes the record again, from what the nodes have. The caller alone writes to the job.
func (l *Levels) Recover() error {
	r := &nodes.Record{Setting: l.Tier.Setting(), Mapping: l.mapping}
	for _, v := range l.Versions {
		text, err := v.Manifest.Encode()
		if err != nil {
			return err
		}
		known := nodes.KnownOf(v.Manifest, v.State)
		known.Manifest = string(text)
		r.Versions = append(r.Versions, known)
	}
	err := r.Write(l.job)
	if err == nil {
		l.Record = r
	}
	return err
}

// A Checkpoint is one of a job, with the places where it is.
type Checkpoint struct {
	Number  int
	Stored  bool           // in the store
	Version *nodes.Version // as nodes that are seen have it; nil if they have nothing of it
	Known   *nodes.Known   // as the record says that nodes have it; nil if it does not
}

// Seen reports whether the checkpoint can be reached from here.
func (c *Checkpoint) Seen() bool { return c.Stored || c.Version != nil }

// Checkpoints lists all checkpoints of the job, ascending.
func (l *Levels) Checkpoints() ([]Checkpoint, error) {
	stored, err := l.job.Checkpoints()
	if err != nil {
		return nil, err
	}
	return l.with(stored), nil
}

// with is Checkpoints, once those in the store are known.
func (l *Levels) with(stored []int) (list []Checkpoint) {
	at := func(number int) *Checkpoint {
		i, there := slices.BinarySearchFunc(list, number, func(c Checkpoint, n int) int { return c.Number - n })
		if !there {
			list = slices.Insert(list, i, Checkpoint{Number: number})
		}
		return &list[i]
	}
	for _, n := range stored {
		at(n).Stored = true
	}
	for i := range l.Versions {
		at(l.Versions[i].Number).Version = &l.Versions[i]
	}
	if l.Record != nil {
		for i := range l.Record.Versions {
			if k := &l.Record.Versions[i]; onNodes(k.Level) && !l.reclaimed(k.Number) {
				at(k.Number).Known = k
			}
		}
	}
	return list
}

// reclaimed reports whether the nodes have made room for a newer version, and the record, which
// is written later, does not say so yet: each has its directory, without this version.
func (l *Levels) reclaimed(number int) bool {
	if n := len(l.Versions); n == 0 || l.Versions[n-1].Number < number || l.Version(number) != nil {
		return false
	}
	for node := range l.Tier.Nodes() {
		if _, lost := l.missing(node, number); !lost {
			return false
		}
	}
	return true
}

// LevelsOf says where a checkpoint is, of a job that keeps checkpoints on nodes: local or
// protected on nodes, stored in the store.
func (l *Levels) LevelsOf(c *Checkpoint) (list []nodes.State) {
	switch {
	case c.Version != nil:
		list = append(list, c.Version.State)
	case !c.Stored:
		list = append(list, nodes.StateOf(l.Record.Setting.Protect))
	case l.Tier == nil:
		return nil
	}
	if c.Stored {
		list = append(list, nodes.Stored)
	}
	return list
}

// Find returns a checkpoint that can be reached from here, 0 for the newest. It fails with an
// UnseenError if only nodes that are not seen have it, and else with image.ErrCheckpointNotFound.
func (l *Levels) Find(number int) (*Checkpoint, error) {
	all, err := l.Checkpoints()
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(all) {
		if c := &all[i]; (number == 0 || c.Number == number) && c.Seen() {
			return c, nil
		}
	}
	if number > 0 {
		return nil, l.Explain(number, fmt.Errorf("%w: number %d of job %s", image.ErrCheckpointNotFound, number, l.job.Name()))
	}
	return nil, l.Explain(0, fmt.Errorf("job %s: %w: it has none", l.job.Name(), image.ErrCheckpointNotFound))
}

// Explain says why a checkpoint was not found, 0 for any, if that is the error: it is on nodes
// that are not seen, or some could not be read.
func (l *Levels) Explain(number int, err error) error {
	if l == nil || !errors.Is(err, image.ErrCheckpointNotFound) {
		return err
	}
	for _, k := range slices.Backward(l.Unseen()) {
		if number == 0 || k.Number == number {
			return l.Unreached(k.Number)
		}
	}
	if len(l.Wrong) == 0 {
		return err
	}
	return fmt.Errorf("job %s: its nodes may have checkpoints: %w", l.job.Name(), errors.Join(l.Wrong...))
}

// Version returns what the nodes have of a checkpoint, or nil.
func (l *Levels) Version(number int) *nodes.Version {
	i := slices.IndexFunc(l.Versions, func(v nodes.Version) bool { return v.Number == number })
	if i < 0 {
		return nil
	}
	return &l.Versions[i]
}

// Unseen lists the checkpoints that by the record only nodes have, and that no node seen from
// here has.
func (l *Levels) Unseen() (list []nodes.Known) {
	all, _ := l.Checkpoints() // a store that cannot be read has them, perhaps
	for _, c := range all {
		if !c.Seen() {
			list = append(list, *c.Known)
		}
	}
	return list
}

func onNodes(s nodes.State) bool {
	return s == nodes.Local || s == nodes.Protected || s == nodes.Draining || s == nodes.Stored
}
