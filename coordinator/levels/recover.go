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
	t.shareLoss(p.Lost)
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
	t.Leave(t.g.Life().Restored)
	t.next()
}

// Leave leaves the versions after a number aside: the group has gone back behind them.
func (t *Tier) Leave(after int) {
	if c := t.copying; c != nil && c.number > after {
		t.ranksGone()
		if c.over != nil && t.Spec.Several() {
			<-c.over // it would come into the store after what is removed there
		}
	}
	for n := range t.kept {
		if n > after {
			t.ledger.Leave(n)
			delete(t.kept, n)
		}
	}
}

// Reads returns the job through which a version is read: from the store or else from nodes,
// where what is lost is made again.
func (t *Tier) Reads(number int) (*image.Job, *image.Manifest, error) {
	m, err := t.Job.Manifest(number)
	if is := t.kept[number]; err != nil && is != nil {
		return job.ReadNodes(t.Job, t.nodes, is), is, nil
	}
	return t.Job, m, err
}

// loseNodes removes the directories that failures were to take from nodes. No rank runs.
func (t *Tier) loseNodes(lose []int) {
	for _, node := range lose {
		for _, of := range t.tiers {
			of.ledger.NodeLost(node)
			of.lost[node] = true
		}
		if t.ways != nil {
			t.ways.lost[node] = true // by the rank that serves it next
			continue
		}
		if err := t.loseDirectory(node); err != nil {
			t.g.Warn(fmt.Sprintf("node %d has not lost its directory: %v", node, err))
		}
	}
}

// loseTries is how often a directory is removed that other groups write into.
const loseTries = 100

func (t *Tier) loseDirectory(node int) (err error) {
	dir := filepath.Join(t.nodes.Nodes()[node].Dir, "jobs", t.Job.Name())
	for range loseTries {
		if err = durable.RemoveAll(t.Job.FS(), dir); err == nil || len(t.tiers) == 1 {
			break
		}
	}
	return err
}

// Open opens the directories of the nodes of a run; v, what they have, may be nil. It returns
// the checkpoint to begin with, as it is to be read. The directories are nil if the nodes have
// none. The group g speaks for all.
func Open(ctx context.Context, set Setting, g Group, v *Inventory, from *image.Manifest) (*Directories, *image.Manifest, error) {
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
	if ways == nil { // else they lead nowhere yet
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
	return newDirectories(on, set.Job, ways, v), from, nil
}

// Tier makes the directories the level of a group before the next one. The group begins with
// checkpoint from, 0 if that is not known yet.
func (d *Directories) Tier(set Setting, g Group, next Level, from int) *Tier {
	t := newTier(set, g, next, d)
	if d.had != nil {
		t.adopt(d.had, from)
	}
	return t
}

// readable has a checkpoint copied into the store that was taken under another mapping than
// it is to be read.
func (v *Inventory) readable(ctx context.Context, set Setting, g Group, from *image.Manifest) (*image.Manifest, error) {
	moves := func(m *image.Manifest) bool { return job.Mapping(m.Mapping).String() != set.Spec.Mapping.String() }
	store := func(m *image.Manifest) error {
		if err := v.StoreFirst(ctx, m, g.Library); err != nil {
			return fmt.Errorf("checkpoint %d has to be in the store before it is read under another mapping: %w", m.Number, err)
		}
		return nil
	}
	if from == nil || !v.Has(from.Number) || !moves(from) {
		return from, nil
	}
	if err := store(from); err != nil {
		return nil, err
	}
	for _, m := range v.versions { // each group may begin with one of its own
		if set.Spec.Several() && moves(m) {
			if err := store(m); err != nil {
				return nil, err
			}
		}
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
		if m.Group != t.ID {
			continue
		}
		if from > 0 && n > from {
			t.g.Warn(fmt.Sprintf("checkpoint %d, which the nodes have, is of a future that this run leaves aside", n))
		}
		t.kept[n] = m
		t.ledger.Adopt(n, t.ID, v.isStored(m))
	}
	if from > 0 && v.versions[from] == nil {
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
