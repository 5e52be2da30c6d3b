package filecache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"ckpt/internal/durable"
)

// ErrAbandoned says that a file was abandoned while programs used it: a daemon was lost, or the file
// was recovered.
var ErrAbandoned = errors.New("its cache was abandoned: recover the file, and open it again")

// A member is a file on one node of several, whose managers live in daemons of their own: the
// manager of the node's fragment, and the node's processes.
type member struct {
	file *File
	idle chan *Process // those without a request under way

	asking sync.RWMutex // held for reading while the manager is asked
	local  Transport    // to the manager
	ended  bool

	mu     sync.Mutex
	paused bool        // the gate is the home's
	forget func() bool // that the home may be lost meanwhile
}

// join starts a node's part of a file that its home has prepared.
func (d *Daemon) join(s session) (m *member, err error) {
	c, node := &d.cache, d.node
	o := s.options(Masks())
	if err := c.check(s.Name, &o); err != nil {
		return nil, err
	}
	f := c.newFile(s.Name, o, s)
	m = &member{file: f}
	if d.peers != nil { // for the journals
		if err := d.peers.Reach(context.Background()); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.end(nil))
		}
	}()
	own := f.managers[node]
	f.managers = []*manager{own}
	if own.frag, err = openFragment(c.Nodes[node], f.dirs[node], false); err != nil {
		return nil, err
	}
	n, err := own.frag.length()
	if err != nil {
		return nil, err
	}
	own.reach(f.layout.end(node, min(n, own.bytes())))
	if o.Levels.Replicas > 0 {
		if own.journal, err = openJournal(own.keepers, own.dirs, node, s.Use, o.Levels.JournalBytes); err != nil {
			return nil, err
		}
	}
	m.idle = make(chan *Process, len(o.Processes))
	if err := f.openProcesses(func(p *Process) bool { return p.node == node }); err != nil {
		return nil, err
	}
	for _, p := range f.processes {
		if p != nil {
			m.idle <- p
		}
	}
	m.local = inProcess(1, func(int) func(Request) (Reply, error) { return own.serve })
	f.transport = &ways{d, m}
	f.home = func(ctx context.Context) error {
		_, err := d.ask(ctx, d.home(s.Name), Message{Verb: Settle, Name: s.Name})
		return err
	}
	return m, nil
}

// openJournal opens the newest journal of a fragment, whose copies are equally long.
func openJournal(nodes []Node, dirs []string, owner int, use, limit int64) (*journal, error) {
	all, err := findJournals(nodes[0], dirs[0], use)
	defer closeFound(all)
	if err != nil {
		return nil, err
	}
	var last *found
	for _, f := range all {
		if f.head.owner == owner && (last == nil || f.compare(last) > 0) {
			last = f
		}
	}
	if last == nil {
		return nil, fmt.Errorf("no journal of node %d in %s", owner, dirs[0])
	}
	j := &journal{head: last.head, size: last.end, limit: limit}
	for i, n := range nodes {
		c := journalCopy{node: n, path: journalPath(dirs[i], owner, last.head.epoch)}
		if c.file, err = n.FS.OpenWrite(c.path); err != nil {
			return nil, errors.Join(durable.Op("open", c.path, -1, err), j.close())
		}
		j.copies = append(j.copies, c)
	}
	return j, nil
}

// serve has the manager answer a request of any node.
func (m *member) serve(ctx context.Context, r Request) (Reply, error) {
	m.asking.RLock()
	defer m.asking.RUnlock()
	if m.ended {
		return Reply{}, ErrAbandoned
	}
	return m.local.Call(ctx, 0, r)
}

// pause waits until no request of this node is under way, and holds the next ones until the
// home says Resume. If the home is lost first, which ends ctx, the file is abandoned.
func (m *member) pause(ctx context.Context) (Answer, error) {
	f := m.file
	f.gate.Lock()
	if f.closed {
		f.gate.Unlock()
		return Answer{}, f.reason()
	}
	m.mu.Lock()
	m.paused = true
	m.forget = context.AfterFunc(ctx, func() {
		if m.take() {
			f.closed, f.why = true, ErrAbandoned
			f.gate.Unlock()
		}
	})
	m.mu.Unlock()
	return Answer{Dirty: f.dirty.Load()}, nil
}

// take ends a pause for a caller that then has the gate, and reports whether there was one.
func (m *member) take() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.paused
	if was {
		m.forget()
	}
	m.paused = false
	return was
}

// goOn ends a pause. A length of 0 or more is what the file has now, and the store as well.
func (m *member) goOn(length int64) {
	if !m.take() {
		return
	}
	f := m.file
	if length >= 0 {
		f.end.Store(length)
		f.dirty.Store(false)
		f.full.Store(false)
	}
	f.gate.Unlock()
}

// end stops the part of a node, for a reason or since the file is closed. Its directory stays.
func (m *member) end(why error) error {
	f := m.file
	if !m.take() {
		f.gate.Lock()
	}
	defer f.gate.Unlock()
	if f.why == nil {
		f.why = why
	}
	f.closed = true
	m.asking.Lock()
	defer m.asking.Unlock()
	if m.ended {
		return nil
	}
	m.ended = true
	if m.local != nil {
		m.local.Close()
	}
	err := f.closeManagers()
	if why != nil {
		return nil // all that was acknowledged is durable, and others may be gone
	}
	return err
}

// ways carry requests to the managers: to the node's own through a channel.
type ways struct {
	daemon *Daemon
	member *member
}

func (w *ways) Call(ctx context.Context, node int, r Request) (Reply, error) {
	if node == w.daemon.node {
		return w.member.serve(ctx, r)
	}
	a, err := w.daemon.ask(ctx, node, Message{Verb: Serve, Name: w.member.file.name, Request: &r})
	return a.Reply, err
}

func (w *ways) Close() error { return nil }

// size returns where the file ends, after asking all managers.
func (f *File) size(ctx context.Context) (int64, error) {
	ends := make([]int64, f.layout.Nodes)
	err := each(len(ends), func(i int) error {
		reply, err := f.call(ctx, i, Request{Kind: End, Process: -1, Source: -1})
		ends[i] = reply.End
		return err
	})
	f.reach(slices.Max(ends))
	return f.end.Load(), err
}

func (s session) options(masks [][]byte) Options {
	return Options{Create: s.Create, Size: s.Size, Growing: s.Growing, Unit: s.Unit, Stripe: s.Stripe, Levels: s.Levels,
		Processes: s.Processes, Masks: masks}
}

// Masks are those of daemons, one byte each: a cell is free if no bit of mask i is set in any of its bytes.
func Masks() [][]byte {
	list := make([][]byte, 256)
	for i := range list {
		list[i] = []byte{byte(i)}
	}
	return list
}

// spread hands the managers of a file over to the daemons of their nodes.
func (f *File) spread(d *Daemon) error {
	for _, m := range f.managers {
		if err := m.close(); err != nil {
			return err
		}
		m.frag, m.journal = nil, nil
	}
	f.transport = &fromHome{d, f.name}
	return f.cache.each(func(i int) error {
		s := f.session
		_, err := d.ask(context.Background(), i, Message{Verb: Join, Name: f.name, Session: &s})
		return err
	})
}

// fromHome carries the requests of a file's home.
type fromHome struct {
	daemon *Daemon
	name   string
}

func (h *fromHome) Call(ctx context.Context, node int, r Request) (Reply, error) {
	a, err := h.daemon.ask(ctx, node, Message{Verb: Serve, Name: h.name, Request: &r})
	return a.Reply, err
}

// Close has the managers of all nodes end.
func (h *fromHome) Close() error {
	return h.daemon.cache.each(func(i int) error {
		_, err := h.daemon.ask(context.Background(), i, Message{Verb: Drop, Name: h.name})
		return err
	})
}
