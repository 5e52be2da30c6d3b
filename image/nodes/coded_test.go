package nodes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

// encoders are by set and position.
type encoders map[int]map[int]*Encoder

// encoders makes the encoders of all sets.
func (w *world) encoders(number int) (encoders, error) {
	all := make(encoders)
	for _, set := range w.tier.Sets(nil) {
		all[set.ID] = make(map[int]*Encoder)
		for i := range set.Nodes {
			e, err := w.tier.Encoder(number, set, i)
			if err != nil {
				all.abort(err)
				return nil, err
			}
			all[set.ID][i] = e
		}
	}
	return all, nil
}

func (all encoders) abort(err error) {
	for _, set := range all {
		for _, e := range set {
			e.Abort(err)
		}
	}
}

// contribution returns what a rank gives to the holders of its set; nil without parity.
func (w *world) contribution(all encoders, rank int) (*Contribution, error) {
	set, member, ok := SetOf(w.tier.Sets(nil), rank)
	if !ok {
		return nil, nil
	}
	holders := make(map[int]Contributor)
	for i, e := range all[set.ID] {
		holders[i] = e.Contributor(member)
	}
	return Coded(set, member, holders)
}

// writeRanks has all ranks write at once.
func (w *world) writeRanks(ctx context.Context, m *image.Manifest, iteration int) error {
	all, err := w.encoders(m.Number)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	// A rank may hear that another aborted before that one says why.
	errs := make([]error, len(w.nodeOf))
	var wg sync.WaitGroup
	for rank, node := range w.nodeOf {
		write := func() error {
			var sinks []Sink
			c, err := w.contribution(all, rank)
			if c != nil {
				sinks = append(sinks, c)
			}
			var f = image.Rank{Rank: rank, Node: node}
			if err == nil {
				file, werr := w.writeRank(ctx, m.Number, iteration, rank, sinks)
				mu.Lock()
				m.Files, f.File, err = append(m.Files, file), file.Path, werr
				mu.Unlock()
			}
			if err != nil {
				all.abort(err)
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			m.Ranks = append(m.Ranks, f)
			if c != nil {
				w.noteParity(m, rank, c)
			}
			return nil
		}
		wg.Go(func() { errs[rank] = write() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// noteParity adds what protects a rank to the manifest.
func (w *world) noteParity(m *image.Manifest, rank int, c *Contribution) {
	set, _, _ := SetOf(w.tier.Sets(nil), rank)
	for _, info := range c.Files() {
		if p := ParityOf(m.Number, set, info); !slices.Contains(m.Tier.Parities, p) {
			m.Tier.Parities = append(m.Tier.Parities, p)
		}
	}
}

// TestRebuild loses as many nodes as each code allows, in every combination, and one more:
// what is restored is what was written, scrubbing makes all of it whole, and beyond the
// code's strength the error says that nothing is left here.
func TestRebuild(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		protection string
		nodes      int
	}{{"xor:2", 2}, {"xor:3", 4}, {"rs:2+2", 4}, {"rs:2+1", 3}} {
		w := newWorld(t, c.protection, c.nodes, 2)
		m := w.version(t, 1)
		sound := slices.Clone(w.disks)
		for lost := 1; lost < 1<<c.nodes; lost++ {
			copy(w.disks, sound)
			n := 0
			for node := range c.nodes {
				if w.disks[node] = sound[node].(*memfs.FS).CrashClone(memfs.Crash{Mode: memfs.Kept}); lost>>node&1 > 0 {
					w.disks[node] = memfs.New()
					n++
				}
			}
			w.reopen(t)
			err := w.whole(ctx, m)
			if within := n <= w.setting.Protect.Strength(); within != (err == nil) {
				t.Errorf("%s: nodes %b of %d lost: %v", c.protection, lost, c.nodes, err)
			}
		}
	}
}

// TestRebuildFromDamage loses the file of a rank, and damages a member that shares
// rows with it, or parity: a code that is strong enough restores it, and no code gives wrong
// bytes.
func TestRebuildFromDamage(t *testing.T) {
	ctx := context.Background()
	for protection, c := range map[string]struct {
		nodes int
		left  int // damaged files with which the code still restores
	}{"xor:3": {3, 0}, "rs:2+2": {4, 1}} {
		w := newWorld(t, protection, c.nodes, 1)
		m := w.versionAt(t, 1, large)
		sound := slices.Clone(w.disks)
		wrong := 0 // restored after an attempt that gave wrong bytes, or not at all
		for at := int64(8192); at < 4*UnitBytes; at += UnitBytes / 2 {
			for _, name := range []string{w.file(1, 1, 1), w.setting.NodeDir(1) + "/jobs/" + testJob + "/" + ParityFile(1, 0, 1)} {
				for node, disk := range sound {
					w.disks[node] = disk.(*memfs.FS).CrashClone(memfs.Crash{Mode: memfs.Kept})
				}
				if fi, err := w.disks[1].Stat(name); err != nil || fi.Size() <= at {
					continue
				}
				spoil(t, w.disks[1], name, at)
				w.disks[0] = memfs.New()
				w.reopen(t)
				_, err := w.tier.Recover(ctx, m, 0)
				if errors.Is(err, ErrNotHere) && c.left < 1 {
					wrong++
					continue
				}
				j, jerr := w.tier.Job(0)
				if err == nil && jerr == nil {
					err = check(ctx, j, m, 0)
				}
				if err != nil {
					t.Errorf("%s, damage at %d of %s: %v", protection, at, name, err)
				}
			}
		}
		if wrong == 0 && c.left < 1 {
			t.Errorf("%s: no damage mattered", protection)
		}
	}
}

// TestOtherParity has a parity file of another version of the same number: it is damaged.
func TestOtherParity(t *testing.T) {
	ctx := context.Background()
	w, other := newWorld(t, "xor:2", 2, 1), newWorld(t, "xor:2", 2, 1)
	m := w.version(t, 1)
	stale, err := other.write(ctx, 1, 7777)
	if err == nil {
		err = other.tier.Commit(ctx, stale)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := w.setting.NodeDir(1) + "/jobs/" + testJob + "/" + ParityFile(1, 0, 1)
	b, err := durable.ReadFile(other.disks[1], name, 1<<20)
	if err == nil {
		err = durable.Replace(w.disks[1], name, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := w.tier.Scrub(ctx, m, nil)
	if err != nil || !soundOn(list) || !slices.ContainsFunc(list, func(f Finding) bool { return f.Role == RoleParity && f.Condition == Damaged && f.Restored }) {
		t.Errorf("scrubbed: %+v, %v", list, err)
	}
}

// whole has all ranks recover a version, and all that protects it restored.
func (w *world) whole(ctx context.Context, m *image.Manifest) error {
	if _, err := w.recovered(ctx, m); err != nil {
		return err
	}
	if _, err := w.tier.Scrub(ctx, m, nil); err != nil {
		return err
	}
	list, err := w.tier.Verify(ctx, m, nil)
	for _, f := range list {
		if err == nil && f.Err != nil {
			err = f.Err
		}
	}
	return err
}
