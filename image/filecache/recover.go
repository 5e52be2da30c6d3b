package filecache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"ckpt/internal/durable"
)

// Source is where a file was recovered from.
type Source string

// The sources.
const (
	FromCache   Source = "cache"   // the fragments, with unfinished requests repeated
	FromJournal Source = "journal" // the store and the journals of requests since
	FromVersion Source = "version" // the store alone
)

// A Recovery says what Recover found.
type Recovery struct {
	From     Source
	Version  uint64 // of FromVersion; 0: what the file was opened with
	Lost     []int  // nodes whose directories had nothing of this use of the file
	Replayed int    // requests that were repeated from records or journals
	Dropped  int    // requests that were under way, and of which nothing counts
	Warnings []error
}

// Recover opens a file as a failure left it. The settings are those that it was opened
// with; of opt only Masks count. A node that was lost has an empty
// directory, or what it had before. The store is not written: Sync does that.
//
// Without anything to recover the error is ErrNothing, and Open works; with
// acknowledged writes that no level kept it is ErrLost.
func (c *Cache) Recover(ctx context.Context, name string, opt Options) (f *File, rec Recovery, err error) {
	end := c.Monitor.event(name, "recover", "")
	defer func() { end(err) }()
	s, half, err := c.survey(name, &rec)
	if err != nil {
		return nil, rec, fmt.Errorf("recover %s: %w", name, err)
	}
	o := Options{Create: s.Create, Size: s.Size, Growing: s.Growing, Unit: s.Unit, Stripe: s.Stripe, Levels: s.Levels, Processes: s.Processes,
		Masks: opt.Masks}
	if err := c.check(name, &o); err != nil {
		return nil, rec, fmt.Errorf("recover %s: %w", name, err)
	}
	f = c.newFile(name, o, s)
	f.half = half
	if err := f.recover(ctx, &rec); err != nil {
		return nil, rec, errors.Join(fmt.Errorf("recover %s: %w", name, err), f.closeManagers())
	}
	return f, rec, nil
}

// survey reads the sessions of all nodes and returns the one to recover, and the nodes
// that do not say "open".
func (c *Cache) survey(name string, rec *Recovery) (newest session, half []int, err error) {
	sessions, err := c.sessions(name, rec)
	if err != nil {
		return newest, nil, err
	}
	newest = newestOf(sessions)
	if slices.ContainsFunc(sessions, func(s session) bool { return s.same(newest) && s.State == closed }) {
		return newest, nil, errors.Join(ErrNothing, c.finish(name, sessions, newest))
	}
	accepted := false
	for i, s := range sessions {
		switch {
		case !s.same(newest):
			rec.Lost = append(rec.Lost, i)
		case s.State == open:
			accepted = true
		}
		if s.State != open || !s.same(newest) {
			half = append(half, i)
		}
	}
	switch {
	case !accepted && len(rec.Warnings) > 0:
		return newest, nil, errors.Join(rec.Warnings...)
	case !accepted:
		return newest, nil, errors.Join(ErrNothing, c.clear(name))
	case newest.Nodes != len(c.Nodes):
		return newest, nil, fmt.Errorf("%w: %d nodes, not %d", ErrOther, newest.Nodes, len(c.Nodes))
	}
	return newest, half, nil
}

func newestOf(sessions []session) (newest session) {
	for _, s := range sessions {
		if s.Use > newest.Use {
			newest = s
		}
	}
	return newest
}

// finish ends a use of a file whose end had begun. No node may say "open" when the one
// that says "closed" is cleared.
func (c *Cache) finish(name string, sessions []session, newest session) error {
	err := c.each(func(i int) error {
		s, n := sessions[i], c.Nodes[i]
		if s.Use == 0 || !s.same(newest) || s.State == closed {
			return nil
		}
		s.State = closed
		return s.write(n, n.dir(name))
	})
	if err != nil {
		return err
	}
	return c.clear(name)
}

// sessions reads the session of each node. A damaged one counts as missing, with a warning.
func (c *Cache) sessions(name string, rec *Recovery) ([]session, error) {
	list := make([]session, len(c.Nodes))
	for i, n := range c.Nodes {
		if n.FS == nil {
			return nil, fmt.Errorf("node %d cannot be reached", i)
		}
		s, _, err := readSession(n, n.dir(name))
		if damage := (*durable.DamageError)(nil); errors.As(err, &damage) {
			rec.Warnings = append(rec.Warnings, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if s.Node == i {
			list[i] = s
		}
	}
	return list, nil
}

// recover takes the best source that the levels left.
func (f *File) recover(ctx context.Context, rec *Recovery) error {
	l := f.opt.Levels
	var err error
	switch {
	case l.Replicas > 0:
		err = f.fromJournals(ctx, rec)
	case l.Versions && !l.Records:
		return f.fromVersion(ctx, rec)
	case len(rec.Lost) > 0:
		err = fmt.Errorf("%w: nodes %v were lost, and there is no journal", ErrLost, rec.Lost)
	default:
		return f.fromCache(rec)
	}
	damage := (*durable.DamageError)(nil)
	if err == nil || !l.Versions || !errors.Is(err, ErrLost) && !errors.As(err, &damage) {
		return err
	}
	rec.Warnings = append(rec.Warnings, err)
	return f.fromVersion(ctx, rec)
}

// A request is one that a record has: it was under way.
type request struct {
	frame
	payload []byte
}

// records returns the requests that were under way, in the order of their numbers.
func (f *File) records() ([]request, error) {
	var list []request
	if !f.opt.Levels.Records {
		return nil, nil
	}
	for p, node := range f.opt.Processes {
		err := readRecord(f.cache.Nodes[node], f.dirs[node], p, f.session.Use, func(h frame, payload []byte) error {
			if h.mask >= len(f.opt.Masks) {
				return fmt.Errorf("%w: mask %d of %d", ErrOther, h.mask, len(f.opt.Masks))
			}
			list = append(list, request{h, payload})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b request) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.process, b.process)) })
	return list, nil
}

// removeRecords deletes all records, durably.
func (f *File) removeRecords() error {
	if !f.opt.Levels.Records {
		return nil
	}
	return each(len(f.opt.Processes), func(p int) error {
		n, dir := f.cache.Nodes[f.opt.Processes[p]], f.dirs[f.opt.Processes[p]]
		r, err := openRecord(n, dir, p)
		if missing(err) {
			return nil // on a node that was lost
		}
		if err != nil {
			return err
		}
		return errors.Join(r.remove(), r.close())
	})
}

// openFragments opens those that are there.
func (f *File) openFragments() error {
	return f.cache.each(func(i int) (err error) {
		m := f.managers[i]
		m.frag, err = openFragment(f.cache.Nodes[i], f.dirs[i], false)
		return err
	})
}

// fromCache repeats the requests that were under way. A crash on the way does no harm:
// they may be repeated twice.
func (f *File) fromCache(rec *Recovery) error {
	rec.From = FromCache
	if err := f.openFragments(); err != nil {
		return err
	}
	list, err := f.records()
	if err != nil {
		return err
	}
	last := make(map[int]uint64)
	for _, r := range list {
		last[r.process] = r.seq
		rec.Replayed++
		for i := range f.managers {
			err := f.repeat(i, r, func(m *manager, h frame, p []byte) error {
				off := m.layout.local(h.off)
				return errors.Join(m.frag.writeAt(p, off), m.frag.persist())
			})
			if err != nil {
				return err
			}
		}
	}
	if err := errors.Join(f.removeRecords(), f.findEnd()); err != nil {
		return err
	}
	f.stored = f.inStore()
	return f.rejoin(last)
}

// repeat does the part of a node in a request once more, if its condition still holds.
func (f *File) repeat(node int, r request, do func(m *manager, h frame, p []byte) error) error {
	m := f.managers[node]
	parts := f.layout.Split(r.off, r.n)
	for i, part := range parts {
		if part.Node != node {
			continue
		}
		if r.mask >= 0 {
			free, err := isFree(m.frag, m.layout.local(r.off), len(r.payload), f.opt.Masks[r.mask])
			if err != nil || !free {
				return err
			}
		}
		h := r.frame
		h.part, h.parts, h.mask, h.off, h.n = i, len(parts), -1, part.Off, part.N
		if err := do(m, h, r.payload[part.Off-r.off:][:part.N]); err != nil {
			return err
		}
	}
	return nil
}

// findEnd finds the end of a growing file: fragments are as long as what was written.
func (f *File) findEnd() error {
	for _, m := range f.managers {
		n, err := m.frag.length()
		if err != nil {
			return err
		}
		if n > 0 {
			f.reach(min(m.layout.end(m.node, n), f.opt.Size))
		}
	}
	return nil
}

// inStore reports whether the store has a file of this name that is ours.
func (f *File) inStore() bool {
	_, err := f.cache.Store.FS.Stat(f.cache.Store.path(f.name))
	return err == nil
}

// rejoin has all nodes say "open", starts the managers, and has processes count on.
func (f *File) rejoin(last map[int]uint64) error {
	// A node that was lost counts again from here on. The others must know that writes
	// have been accepted, should it be lost once more.
	if err := each(len(f.half), func(i int) error { return f.markNode(f.half[i], open) }); err != nil {
		return err
	}
	if err := f.start(); err != nil {
		return err
	}
	f.dirty.Store(true)
	for i, p := range f.processes {
		p.seq = last[i]
	}
	return nil
}

func (r request) id() requestID { return requestID{r.process, r.seq} }

// Names returns the files that a node has something of.
func Names(n Node) ([]string, error) {
	list, err := n.FS.ReadDir(n.Dir)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, durable.Op("read", n.Dir, -1, err)
	}
	var names []string
	for _, e := range list {
		if name, err := url.PathUnescape(e.Name()); err == nil && e.IsDir() {
			names = append(names, name)
		}
	}
	return names, nil
}
