package coordinator

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
// makes sure that each node that can use its directory knows of it. The others, and those
// that did not know of it, have lost what they had. If no node has it, it is over, and no
// node is to know it.
func (t *tier) findLocal(m *image.Manifest) (lost []int, wrong []error, err error) {
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

// find finds a checkpoint on the nodes and in the store.
func (t *tier) find(number int) func() (finding, error) {
	version, scrubs := t.kept[number], t.scrubs // nil: the nodes have it not
	return func() (finding, error) {
		var p finding
		scrubs.end() // ranks are to look for their parts
		if version != nil {
			p.m = version
			p.lost, p.wrong, p.passed = t.findLocal(version)
			p.local = p.passed == nil
		}
		m, err := t.g.job.Manifest(number)
		if err == nil && (version == nil || m.ID == version.ID) {
			p.stored = true
			if !p.local {
				p.m = m
			}
		}
		if p.local || p.stored {
			return p, nil
		}
		return p, errors.Join(p.passed, err)
	}
}

// found takes note of where the ranks read.
func (t *tier) found(p finding) {
	for _, node := range p.lost {
		t.lost[node] = true
		t.ledger.NodeLost(node)
	}
	for _, err := range p.wrong {
		t.warnOf(err)
	}
	if p.passed != nil {
		t.g.d.out.Warn(fmt.Sprintf("checkpoint %d is read from the store: %v", p.m.Number, p.passed))
	}
	clear(t.sources)
	t.passed = 0
}

// warnOf says, once, what is wrong with a node.
func (t *tier) warnOf(err error) {
	if node := (*nodes.NodeError)(nil); errors.As(err, &node) {
		if t.told[node.Node] {
			return
		}
		t.told[node.Node] = true
	}
	t.g.d.out.Warn(err.Error())
}

// toldPassed is how many of the files that ranks passed over a user is told one by one:
// with a node, thousands may be damaged.
const toldPassed = 3

// hasFound takes where a rank has found its part.
func (t *tier) hasFound(rank int, source string, passed []string) {
	for _, p := range passed {
		if t.passed++; t.passed <= toldPassed {
			t.g.d.out.Warn(fmt.Sprintf("rank %d passes over %s", rank, p))
		}
	}
	t.sources[nodes.Source(source)]++
	all := 0
	for _, n := range t.sources {
		all += n
	}
	if all < len(t.g.ranks) {
		return
	}
	if more := t.passed - toldPassed; more > 0 {
		t.g.d.out.Warn(fmt.Sprintf("ranks pass over %d more files that are damaged or missing", more))
	}
	s := t.sources
	t.g.d.event(&SourcesEvent{Type: "recovered", Number: t.g.restored.number, Local: s[nodes.FromLocal], Copied: s[nodes.FromCopy],
		Built: s[nodes.FromParity], Stored: s["stored"]})
	t.scrub()
}

// computing goes on with what waits for the ranks to compute. Versions of a future that
// this run has left aside go.
func (t *tier) computing() {
	for n := range t.kept {
		if n > t.g.restored.number {
			t.remove(n)
		}
	}
	t.next()
}

// loseNodes removes the directories that failures were to take from nodes. No rank runs.
func (t *tier) loseNodes() {
	d := t.g.d
	if d.inject == nil {
		return
	}
	for _, node := range d.inject.lost {
		t.ledger.NodeLost(node)
		t.lost[node] = true
		if t.ways != nil {
			t.ways.lost[node] = true // by the rank that serves it next
			continue
		}
		dir := filepath.Join(t.nodes.Nodes()[node].Dir, "jobs", d.job.Name())
		if err := durable.RemoveAll(d.job.FS(), dir); err != nil {
			d.out.Warn(fmt.Sprintf("node %d has not lost its directory: %v", node, err))
		}
	}
	d.inject.lost = nil
}

// openTier opens the directories of the nodes of the run, and takes over what they have. It
// returns the checkpoint to begin with, as it is to be read.
func (d *driver) openTier(ctx context.Context, from *image.Manifest) (*image.Manifest, error) {
	v := d.inventory
	if v != nil && from != nil && job.Mapping(from.Mapping).String() != d.spec.Mapping.String() && v.versions[from.Number] != nil {
		if err := v.storeFirst(ctx, from, d.groups[0].storedLibrary); err != nil {
			return nil, fmt.Errorf("checkpoint %d has to be in the store before it is read under another mapping: %w", from.Number, err)
		}
		var err error
		if from, err = d.job.Manifest(from.Number); err != nil {
			return nil, err
		}
	}
	if v != nil {
		v.leave(d.spec.Mapping, d.out)
	}
	if d.spec.Tier == nil {
		return from, nil
	}
	where := func(int) vfs.FS { return d.job.FS() }
	var ways *nodeWays
	if d.listen != "" {
		ways = newNodeWays(len(d.spec.Mapping))
		where = ways.of
	}
	nodes, err := d.spec.OpenTier(d.job, where, d.spec.Mapping)
	if err != nil {
		return nil, err
	}
	if ways != nil { // which lead nowhere yet
		newTier(d.groups[0], nodes).take(v, from).ways = ways
		return from, nil
	}
	err = takeDirectories(nodes, d.job.Name(), func(err error) error {
		if from == nil {
			return err
		}
		return nil // the store has it, or others
	})
	if err != nil {
		nodes.Release()
		return nil, err
	}
	for _, err := range nodes.Sweep(ctx, v.known()) {
		d.out.Warn(notRemoved + err.Error())
	}
	newTier(d.groups[0], nodes).take(v, from)
	return from, nil
}

// take makes the nodes the first level of their group, with what an earlier run has left.
func (t *tier) take(v *inventory, from *image.Manifest) *tier {
	t.g.level = t
	if v != nil && from != nil {
		t.adopt(v, from.Number)
	}
	return t
}

// known returns the versions that the nodes are to keep.
func (v *inventory) known() []nodes.Version {
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
func (t *tier) adopt(v *inventory, from int) {
	maps.Copy(t.told, v.told)
	for _, n := range slices.Sorted(maps.Keys(v.versions)) {
		m := v.versions[n]
		if n > from {
			t.g.d.out.Warn(fmt.Sprintf("checkpoint %d, which the nodes have, is of a future that this run leaves aside", n))
		}
		t.kept[n] = m
		t.ledger.Adopt(n, t.g.id, v.isStored(m))
	}
	if v.versions[from] == nil {
		t.ledger.PassedBy(from, t.g.id) // it is in the store
	}
}

// fitTier adapts the setting of a job that is restarted to its nodes. It leaves out,
// with a warning, the parts that do not suit them: the job is to go on.
func fitTier(s job.Spec, out Observer) job.Spec {
	if s.Tier == nil {
		return s
	}
	t := *s.Tier
	if len(t.Domains) > 0 && len(t.Domains) != len(s.Mapping) {
		out.Warn(wording.Sprintf("{domains} names the failure domains of %d nodes, and the job has %d now: each node is its own", len(t.Domains), len(s.Mapping)))
		t.Domains = nil
	}
	s.Tier = &t
	if err := t.Protect.Fits(nodes.Topology{NodeOf: s.Mapping.Nodes(), Domains: t.Domains}); err != nil {
		out.Warn(fmt.Sprintf("checkpoints go to the store at once: %v", err))
		s.Tier = nil
	}
	return s
}
