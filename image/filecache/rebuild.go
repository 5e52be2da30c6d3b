package filecache

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ckpt/internal/durable"
)

// fromJournals loads what the store has and repeats all requests since. New journals,
// with the same requests, take the place of the old ones before anything of those is
// removed, so that a crash on the way does no harm.
func (f *File) fromJournals(ctx context.Context, rec *Recovery) (err error) {
	rec.From = FromJournal
	all, err := f.allJournals()
	defer func() { err = errors.Join(err, closeFound(all)) }()
	if err != nil {
		return err
	}
	best, number := newest(all, len(f.managers))
	if i := slices.Index(best, nil); i >= 0 {
		return fmt.Errorf("%w: nodes %v were lost, and with them the journal of node %d", ErrLost, rec.Lost, i)
	}
	b, err := f.baseOf(number)
	if err != nil {
		return err
	}
	f.base = number
	for _, j := range all {
		f.epoch = max(f.epoch, j.head.epoch+1)
	}
	if err := f.loadFresh(ctx, b, rec.Lost); err != nil {
		return err
	}
	last, err := f.replay(best, rec)
	if err != nil {
		return err
	}
	if err := f.dropOld(func(_ int, epoch uint64) bool { return epoch < f.epoch }); err != nil {
		return err
	}
	f.stored = f.inStore()
	return f.rejoin(last)
}

func (f *File) allJournals() (all []*found, err error) {
	for i, n := range f.cache.Nodes {
		list, err := findJournals(n, f.dirs[i], f.session.Use)
		all = append(all, list...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// baseOf returns what journals of a base build on.
func (f *File) baseOf(number uint64) (base, error) {
	if f.opt.Levels.Versions && number > 0 {
		return f.cache.versionBase(f.name, number)
	}
	b, err := f.cache.plainBase(f.name, true)
	b.number = number
	return b, err
}

// loadFresh fills new fragments, on all nodes. The directories of nodes that were lost
// are made. Records stay.
func (f *File) loadFresh(ctx context.Context, b base, lost []int) error {
	if b.length > f.opt.Size {
		return durable.Damaged(b.path, f.opt.Size, "file is %d bytes long, more than %d", b.length, f.opt.Size)
	}
	err := f.cache.each(func(i int) error {
		n, m := f.cache.Nodes[i], f.managers[i]
		if m.frag != nil { // of an attempt that failed
			if err := m.frag.close(); err != nil {
				return err
			}
			m.frag = nil
		}
		if slices.Contains(lost, i) {
			if err := durable.MkdirAll(n.FS, f.dirs[i]); err != nil {
				return err
			}
			return f.prepareFiles(i)
		}
		return f.prepareFragment(i)
	})
	if err != nil {
		return err
	}
	f.end.Store(0)
	return f.load(ctx, b)
}

// replay repeats the requests of the journals and those that were under way, into the
// fragments and into new journals. It returns the last number of each process.
func (f *File) replay(best []*found, rec *Recovery) (map[int]uint64, error) {
	records, err := f.records()
	if err != nil {
		return nil, err
	}
	cut, counted := unfinished(best)
	// A request that the journals have whole must not be repeated from its record: a
	// later one may have written to the same bytes.
	records = slices.DeleteFunc(records, func(r request) bool { return counted[r.id()] })
	last := make(map[int]uint64)
	for p := range f.opt.Processes {
		last[p] = lastSeq(best, p)
	}
	for _, r := range records {
		last[r.process] = max(last[r.process], r.seq)
		delete(cut, r.id())
	}
	rec.Replayed, rec.Dropped = len(counted)+len(records), len(cut)
	return last, f.beginJournals(func(node int, add func(frame, []byte) error) error {
		m := f.managers[node]
		apply := func(m *manager, h frame, p []byte) error {
			f.reach(h.off + h.n)
			return errors.Join(m.frag.writeAt(p, m.layout.local(h.off)), add(h, p))
		}
		for _, h := range best[node].frames {
			if !counted[requestID{h.process, h.seq}] {
				continue
			}
			p := make([]byte, h.n)
			if err := durable.ReadAt(best[node].file, best[node].path, p, h.at); err != nil {
				return err
			}
			if err := apply(m, h, p); err != nil {
				return err
			}
		}
		for _, r := range records {
			if err := f.repeat(node, r, apply); err != nil {
				return err
			}
		}
		return nil
	})
}

// dropOld removes journals and records, durably.
func (f *File) dropOld(drop func(owner int, epoch uint64) bool) error {
	err := f.cache.each(func(i int) error {
		err := removeJournals(f.cache.Nodes[i], f.dirs[i], drop)
		if missing(err) {
			return nil
		}
		return err
	})
	return errors.Join(err, f.removeRecords())
}

// fromVersion loads the newest sound version, or what the file was opened with if
// there is no version yet. Journals and records go first: they build on something else.
func (f *File) fromVersion(ctx context.Context, rec *Recovery) error {
	rec.From, rec.Replayed, rec.Dropped = FromVersion, 0, 0
	for _, m := range f.managers {
		if m.journal == nil {
			continue
		}
		if err := m.journal.close(); err != nil {
			return err
		}
		m.journal = nil
	}
	if err := f.dropOld(func(int, uint64) bool { return true }); err != nil {
		return err
	}
	b, err := f.soundVersion(ctx, rec)
	if err != nil {
		return err
	}
	f.base, f.epoch, rec.Version = b.number, 1, b.number
	f.stored = b.path != ""
	if err := f.beginJournals(nil); err != nil {
		return err
	}
	return f.rejoin(nil)
}

// soundVersion loads the newest version whose bytes are right.
func (f *File) soundVersion(ctx context.Context, rec *Recovery) (base, error) {
	numbers, err := f.cache.Versions(f.name)
	if err != nil {
		return base{}, err
	}
	if len(numbers) == 0 {
		b, err := f.baseOf(0)
		if err == nil {
			err = f.loadFresh(ctx, b, rec.Lost)
		}
		return b, err
	}
	for _, n := range slices.Backward(numbers) {
		b, err := f.cache.versionBase(f.name, n)
		if err == nil {
			err = f.loadFresh(ctx, b, rec.Lost)
		}
		damage := (*durable.DamageError)(nil)
		if !errors.As(err, &damage) {
			return b, err
		}
		rec.Warnings = append(rec.Warnings, err)
	}
	return base{}, fmt.Errorf("%w: no version of %s is sound", ErrLost, f.name)
}
