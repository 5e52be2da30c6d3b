package levels

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// findLocal finds out whether the nodes have the checkpoint that ranks are to read, and
// makes sure that each node that can use its directory knows of it. Nodes without the
// manifest lost their directory. If every node lost it, findLocal fails before it tells any
// of them.
func (t *Tier) findLocal(m *image.Manifest) (lost []int, wrong []error, err error) {
	all := t.nodes.Nodes()
	for _, n := range all {
		err := t.nodes.Ready(n.ID)
		if err != nil && !nodes.Lost(err) {
			return lost, wrong, err
		}
		if err != nil {
			wrong = append(wrong, err)
		}
		j, jerr := t.nodes.Job(n.ID)
		if jerr == nil {
			if is, err := j.Manifest(m.Number); err == nil && is.ID == m.ID {
				continue
			}
		}
		lost = append(lost, n.ID)
	}
	if len(lost) == len(all) {
		return lost, wrong, fmt.Errorf("%w: checkpoint %d is %w", image.ErrCheckpointNotFound, m.Number, nodes.ErrNotHere)
	}
	for _, node := range lost {
		j, err := t.nodes.Job(node)
		if err == nil {
			err = announceTo(j, m)
		}
		if err != nil && !nodes.Lost(err) {
			return lost, wrong, err
		}
	}
	return lost, wrong, nil
}

// announceTo tells a node of a version.
func announceTo(j *image.Job, m *image.Manifest) error {
	if err := durable.Mkdir(j.FS(), j.NumberDir(m.Number)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	again := *m
	return j.Announce(&again)
}

// Find finds a checkpoint on the nodes and in the store.
func (t *Tier) Find(number int) func() (Finding, error) {
	version, scrubs := t.kept[number], t.scrubs // nil: the nodes have it not
	return func() (Finding, error) {
		var p Finding
		scrubs.end() // ranks are to look for their parts
		if version != nil {
			p.Manifest = version
			p.Lost, p.Wrong, p.Passed = t.findLocal(version)
			p.Local = p.Passed == nil
		}
		m, err := t.Job.Manifest(number)
		if err == nil && (version == nil || m.ID == version.ID) {
			p.Stored = true
			if !p.Local {
				p.Manifest = m
			}
		}
		if p.Local || p.Stored {
			return p, nil
		}
		return p, errors.Join(p.Passed, err)
	}
}

// Found takes note of where the ranks read.
func (t *Tier) Found(p Finding) {
	for _, node := range p.Lost {
		t.lost[node] = true
		t.ledger.NodeLost(node)
	}
	for _, err := range p.Wrong {
		t.warnOf(err)
	}
	if p.Passed != nil {
		t.g.Warn(fmt.Sprintf("checkpoint %d is read from the store: %v", p.Manifest.Number, p.Passed))
	}
	clear(t.sources)
	t.passed = 0
}

// warnOf says, once, what is wrong with a node.
func (t *Tier) warnOf(err error) {
	if node := (*nodes.NodeError)(nil); errors.As(err, &node) {
		if t.told[node.Node] {
			return
		}
		t.told[node.Node] = true
	}
	t.g.Warn(err.Error())
}

// toldPassed is how many of the files that ranks passed over a user is told one by one:
// with a node, thousands may be damaged.
const toldPassed = 3

// noteSource notes where a rank has found its part.
func (t *Tier) noteSource(rank int, source string, passed []string) {
	for _, p := range passed {
		if t.passed++; t.passed <= toldPassed {
			t.g.Warn(fmt.Sprintf("rank %d passes over %s", rank, p))
		}
	}
	t.sources[nodes.Source(source)]++
	all := 0
	for _, n := range t.sources {
		all += n
	}
	if all < len(t.Ranks) {
		return
	}
	if more := t.passed - toldPassed; more > 0 {
		t.g.Warn(fmt.Sprintf("ranks pass over %d more files that are damaged or missing", more))
	}
	s := t.sources
	t.g.Event(&SourcesEvent{Type: "recovered", Number: t.g.Life().Restored, Local: s[nodes.FromLocal], Copied: s[nodes.FromCopy],
		Built: s[nodes.FromParity], Stored: s["stored"]})
	t.scrub()
}

// Computing resumes what waits for the ranks to compute, and removes versions newer than the
// restored one.
func (t *Tier) Computing() {
	for n := range t.kept {
		if n > t.g.Life().Restored {
			t.remove(n)
		}
	}
	t.next()
}

// loseNodes removes the directories that failures were to take from nodes. No rank runs.
func (t *Tier) loseNodes(lose []int) {
	for _, node := range lose {
		t.ledger.NodeLost(node)
		t.lost[node] = true
		if t.ways != nil {
			t.ways.lost[node] = true // by the rank that serves it next
			continue
		}
		dir := filepath.Join(t.nodes.Nodes()[node].Dir, "jobs", t.Job.Name())
		if err := durable.RemoveAll(t.Job.FS(), dir); err != nil {
			t.g.Warn(fmt.Sprintf("node %d has not lost its directory: %v", node, err))
		}
	}
}

// Open opens the directories of the nodes of a run, the level before the next one, and takes
// over what they have; v may be nil. It returns the checkpoint to begin with, as it is to be
// read. The level is nil if the nodes have no directories.
func Open(ctx context.Context, set Setting, g Group, next Level, v *Inventory, from *image.Manifest) (*Tier, *image.Manifest, error) {
	var err error
	if v != nil {
		if from, err = v.readable(ctx, set, g, from); err != nil {
			return nil, nil, err
		}
		v.leave(set.Spec.Mapping, g.Warn)
	}
	if set.Spec.Tier == nil {
		return nil, from, nil
	}
	where := func(int) vfs.FS { return set.Job.FS() }
	var ways *nodeWays
	if set.Listen != "" {
		ways = newNodeWays(len(set.Spec.Mapping))
		where = ways.of
	}
	on, err := set.Spec.OpenTier(set.Job, where, set.Spec.Mapping)
	if err != nil {
		return nil, nil, err
	}
	t := newTier(set, g, next, on)
	if t.ways = ways; ways == nil { // else they lead nowhere yet
		err = takeDirectories(on, set.Job.Name(), func(err error) error {
			if from == nil {
				return err
			}
			return nil // the store has it, or others
		})
		if err != nil {
			on.Release()
			return nil, nil, err
		}
		for _, err := range on.Sweep(ctx, v.known()) {
			g.Warn(job.NotRemoved + err.Error())
		}
	}
	if t.had = v; v != nil && from != nil {
		t.adopt(v, from.Number)
	}
	return t, from, nil
}

// readable has a checkpoint copied into the store that was taken under another mapping than
// it is to be read.
func (v *Inventory) readable(ctx context.Context, set Setting, g Group, from *image.Manifest) (*image.Manifest, error) {
	if from == nil || !v.Has(from.Number) || job.Mapping(from.Mapping).String() == set.Spec.Mapping.String() {
		return from, nil
	}
	if err := v.StoreFirst(ctx, from, g.Library); err != nil {
		return nil, fmt.Errorf("checkpoint %d has to be in the store before it is read under another mapping: %w", from.Number, err)
	}
	return set.Job.Manifest(from.Number)
}

// takeDirectories makes the directories of the nodes, and fails with a job.RefusedError if some
// belong to another job.
func takeDirectories(on *nodes.Tier, name string, each func(error) error) error {
	on.Hold()
	for _, n := range on.Nodes() {
		err := on.Ready(n.ID)
		if nodes.Foreign(err) {
			on.Forsake()
			return &job.RefusedError{Err: otherOwner(err, n.Dir, name)}
		}
		if err != nil {
			if err = each(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// otherOwner says what to do if a directory belongs to another job.
func otherOwner(err error, dir, name string) error {
	fix := wording.Sprintf("another {job} name or another {local}; rm -r %s if nobody needs its checkpoints", filepath.Join(dir, "jobs", name))
	if errors.Is(err, image.ErrInUse) {
		fix = wording.Sprintf("another {job} name or another {local}: a job that runs uses these directories")
	}
	return &job.UsageError{Text: fmt.Sprintf("%v", err), Fix: fix}
}

// known returns the versions that the nodes are to keep.
func (v *Inventory) known() []nodes.Version {
	if v == nil {
		return nil
	}
	var list []nodes.Version
	for n, m := range v.versions {
		list = append(list, nodes.Version{Number: n, ID: m.ID, Manifest: m})
	}
	return list
}

// adopt takes the versions over that the nodes have from an earlier run.
func (t *Tier) adopt(v *Inventory, from int) {
	maps.Copy(t.told, v.told)
	for _, n := range slices.Sorted(maps.Keys(v.versions)) {
		m := v.versions[n]
		if n > from {
			t.g.Warn(fmt.Sprintf("checkpoint %d, which the nodes have, is of a future that this run leaves aside", n))
		}
		t.kept[n] = m
		t.ledger.Adopt(n, t.ID, v.isStored(m))
	}
	if v.versions[from] == nil {
		t.ledger.PassedBy(from, t.ID) // it is in the store
	}
}

// Fit adapts the setting of a job that is restarted to its nodes. It leaves out,
// with a warning, the parts that do not suit them: the job is to go on.
func Fit(s job.Spec, warn func(string)) job.Spec {
	if s.Tier == nil {
		return s
	}
	t := *s.Tier
	if len(t.Domains) > 0 && len(t.Domains) != len(s.Mapping) {
		warn(wording.Sprintf("{domains} names the failure domains of %d nodes, and the job has %d now: each node is its own", len(t.Domains), len(s.Mapping)))
		t.Domains = nil
	}
	s.Tier = &t
	if err := t.Protect.Fits(nodes.Topology{NodeOf: s.Mapping.Nodes(), Domains: t.Domains}); err != nil {
		warn(fmt.Sprintf("checkpoints go to the store at once: %v", err))
		s.Tier = nil
	}
	return s
}
