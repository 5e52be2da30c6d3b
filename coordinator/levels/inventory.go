package levels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"ckpt/coordinator/job"
	"ckpt/coordinator/turns"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
)

// An Inventory is what the nodes of a stored job have.
type Inventory struct {
	spec     *job.Resolved // as the job was described, or as it ran last
	job      *image.Job
	Levels   *job.Levels
	nodes    *nodes.Tier
	apart    bool // they are on several hosts
	newest   bool // the nodes may have a newer checkpoint than the record says
	versions map[int]*image.Manifest
	damaged  map[int]error // of manifests that some node cannot read, by checkpoint
	next     int
	told     map[int]bool // nodes of which a warning says what is wrong with them
}

// TakeInventory looks into the directories of the nodes of a stored job, or nil.
// If they are on several hosts, apart, they cannot be reached yet: the record says what they
// had.
func TakeInventory(ctx context.Context, spec *job.Resolved, j *image.Job, apart bool, warn func(string)) (*Inventory, error) {
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
	v := &Inventory{spec: spec, job: j, Levels: l, nodes: l.Tier, apart: apart, versions: map[int]*image.Manifest{}, damaged: map[int]error{}, told: map[int]bool{}}
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
		if damage := (*durable.DamageError)(nil); errors.As(err, &damage) {
			if n, ok := container.PathNumber(container.JobPath(damage.File)); ok {
				v.damaged[n] = err
			}
		}
		warn(err.Error())
	}
	v.next, err = nodes.Next(j, l.Record, found)
	return v, err
}

// remember takes over what the record says that the nodes had.
func (v *Inventory) remember(record *nodes.Record) (warnings []error) {
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

// Choose returns checkpoint n, wherever it is, nil if only the store can tell. For 0 it is the
// newest or, with passed, the newest sound one; passed is told why newer ones are passed over.
func (v *Inventory) Choose(n int, passed func(error)) (*image.Manifest, error) {
	if v == nil || n > 0 && v.versions[n] == nil {
		return nil, nil
	}
	if n > 0 {
		return v.sound(n)
	}
	numbers, err := v.job.Checkpoints()
	if err != nil {
		return nil, err
	}
	numbers = slices.AppendSeq(slices.AppendSeq(numbers, maps.Keys(v.versions)), maps.Keys(v.damaged))
	slices.Sort(numbers)
	type skip struct {
		number int
		err    error
	}
	var skipped []skip
	for _, n := range slices.Backward(slices.Compact(v.spec.Later(numbers))) {
		m, err := v.sound(n)
		if err != nil && job.Unrestorable(err) && passed != nil {
			skipped = append(skipped, skip{n, err})
			continue
		}
		if err == nil {
			for _, s := range skipped {
				passed(fmt.Errorf("checkpoint %d is passed over: %w", s.number, s.err))
			}
		}
		return m, err
	}
	if len(skipped) > 0 {
		return nil, skipped[0].err
	}
	return nil, nil
}

// sound returns a checkpoint that can be read on nodes, or else in the store.
func (v *Inventory) sound(n int) (*image.Manifest, error) {
	m, err := v.versions[n], v.damaged[n]
	if m != nil {
		if err = v.spec.CheckTaken(v.job, m); err == nil {
			return m, nil
		}
	}
	stored, serr := v.job.Manifest(n)
	if serr == nil {
		if serr = v.spec.CheckTaken(v.job, stored); serr == nil {
			return stored, nil
		}
	}
	if err == nil || errors.Is(err, image.ErrCheckpointNotFound) {
		err = serr
	}
	return nil, err
}

// Unseen names a checkpoint that is newer than the one to continue from, and on nodes that are not
// seen; nil if there is none.
func (v *Inventory) Unseen(from *image.Manifest) error {
	if v == nil || v.apart || from == nil {
		return nil
	}
	unseen := v.Levels.Unseen()
	if n := len(unseen); n > 0 && unseen[n-1].Number > from.Number {
		return v.Levels.Explain(unseen[n-1].Number, image.ErrCheckpointNotFound)
	}
	return nil
}

// isStored reports whether the store has a version.
func (v *Inventory) isStored(m *image.Manifest) bool {
	is, err := v.job.Manifest(m.Number)
	return err == nil && is.ID == m.ID
}

// StoreFirst copies a version into the store before a run on other nodes reads it there.
func (v *Inventory) StoreFirst(ctx context.Context, m *image.Manifest, library func(number int) (*container.File, error)) error {
	if v.isStored(m) {
		return nil
	}
	client := turns.OfJob(v.spec, v.job)
	defer client.Close()
	s := &storing{client: client, spec: v.spec, job: v.job, nodes: v.nodes}
	_, _, err := s.store(ctx, m, library)
	return err
}

// leave takes the versions from the nodes that were written under another mapping.
func (v *Inventory) leave(mapping job.Mapping, warn func(string)) {
	v.Leave(func(m *image.Manifest) bool { return job.Mapping(m.Mapping).String() != mapping.String() }, warn)
}

// Leave takes versions from the nodes that the job has no use for.
func (v *Inventory) Leave(which func(*image.Manifest) bool, warn func(string)) {
	for n, m := range v.versions {
		if !which(m) {
			continue
		}
		if !v.apart { // else they go when others take their place
			if err := v.nodes.Reclaim(n); err != nil {
				warn(job.NotRemoved + err.Error())
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
func (t *Tier) beginWith(number int) {
	v := t.had
	if v == nil || !v.newest {
		t.g.Examine(number)
		return
	}
	v.newest = false // the next incarnations know what there is
	incarnation := t.g.Life().Incarnation
	t.g.Go(func() {
		newer := t.newerThan(number)
		t.g.Post(func() {
			switch {
			case incarnation != t.g.Life().Incarnation || t.g.Over():
			case newer != nil:
				t.g.Fail(&newerError{newer})
			default:
				t.g.Examine(number)
			}
		})
	})
}

// newerThan returns the newest version that a node has and that is newer than a checkpoint;
// nil if there is none.
func (t *Tier) newerThan(number int) *image.Manifest {
	var newest *image.Manifest
	found, _ := t.nodes.Versions(context.Background()) // a node that cannot be read is found out later
	for _, v := range found {
		m, err := t.Job.Manifest(v.Number)
		if v.Number <= number || err == nil && m.ID != v.ID {
			continue // older, or stale
		}
		if newest == nil || v.Number >= newest.Number {
			newest = v.Manifest
		}
	}
	return newest
}

// Has reports whether the nodes have a checkpoint.
func (v *Inventory) Has(number int) bool { return v != nil && v.versions[number] != nil }

// Next returns the number that the next checkpoint may have; 0: any that the store lacks.
func (v *Inventory) Next() int {
	if v == nil {
		return 0
	}
	return v.next
}

// WithNewest runs a job that begins with checkpoint n, 0 for the newest. If its nodes are
// reached only when its ranks run, it runs twice where they have a newer checkpoint than was
// known.
func (v *Inventory) WithNewest(n int, run func() error) error {
	if v != nil {
		v.newest = v.apart && n == 0
	}
	err := run()
	var newer *newerError
	if !errors.As(err, &newer) {
		return err
	}
	v.versions[newer.m.Number] = newer.m
	v.next = max(v.next, newer.m.Number+1)
	return run()
}

// Foreign returns why the directories of the nodes belong to another job by now, as in a
// copied store, and hold nothing of this one; nil if they can be this job's.
func (v *Inventory) Foreign() error {
	if v == nil || v.apart || len(v.versions) > 0 {
		return nil
	}
	for _, n := range v.nodes.Nodes() {
		if _, err := v.nodes.Job(n.ID); nodes.Foreign(err) {
			return err
		}
	}
	return nil
}

// describe returns the record of what the nodes have of all groups.
func (t *Tier) describe() *nodes.Record {
	r := &nodes.Record{Setting: t.nodes.Setting(), Mapping: slices.Clone(t.Spec.Mapping)}
	for _, of := range t.tiers {
		for _, e := range of.ledger.Entries() {
			m := of.kept[e.Number]
			if m == nil {
				continue
			}
			known := nodes.KnownOf(m, e.State)
			if b, err := m.Encode(); err == nil && t.ways != nil {
				known.Manifest = string(b)
			}
			r.Versions = append(r.Versions, known)
		}
	}
	slices.SortFunc(r.Versions, func(a, b nodes.Known) int { return a.Number - b.Number })
	return r
}

// A recordKeeper keeps the record of what the nodes have, in the store, beside the loop: a
// store that does not answer holds nothing up. Only the newest record counts.
type recordKeeper struct {
	job  *image.Job
	mu   sync.Mutex
	next *nodes.Record
	busy bool
	idle *sync.Cond // not a WaitGroup: records come while somebody waits
}

func newRecordKeeper(j *image.Job) *recordKeeper {
	k := &recordKeeper{job: j}
	k.idle = sync.NewCond(&k.mu)
	return k
}

// keep has a record written soon.
func (k *recordKeeper) keep(r *nodes.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = r
	if !k.busy {
		k.busy = true
		go k.write()
	}
}

func (k *recordKeeper) write() {
	for {
		k.mu.Lock()
		r := k.next
		k.next = nil
		if r == nil {
			k.busy = false
			k.idle.Broadcast()
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		_ = r.Write(k.job) // the manifests on the nodes decide
	}
}

// wait waits until the last record is written.
func (k *recordKeeper) wait() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.busy {
		k.idle.Wait()
	}
}
