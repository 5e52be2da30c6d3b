package filecache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// A Daemon is the cache as programs of one node use it: its manager of each file that programs
// of any node have open. Files are opened without a size, and grow.
//
// A file has one home among the daemons, which follows from its name. The home opens the file on
// all nodes for the first program, and closes it after the last one. Reads and writes go to the
// owners at once, and not through the home.
type Daemon struct {
	cache Cache
	node  int
	peers Peers
	opt   Options

	mu      sync.Mutex
	held    map[string]*held
	members map[string]*member
	uses    map[string]*use
}

// DaemonOptions say how a daemon caches files. All daemons of a cache agree on them.
type DaemonOptions struct {
	Levels Levels
	Stripe int64 // bytes that lie together on a node; 0 is 1 MiB
	// Writers is how many requests of a node write at the same time; 0 is 8.
	Writers int
}

// DefaultStripe is the most that a program's request to a mount has.
const DefaultStripe = 1 << 20

// sizeLimit is more than any file gets.
const sizeLimit = 1 << 60

// NewDaemon returns the daemon of a node. Peers may be nil with one node.
func NewDaemon(c Cache, node int, peers Peers, o DaemonOptions) (*Daemon, error) {
	if o.Stripe == 0 {
		o.Stripe = DefaultStripe
	}
	if o.Writers == 0 {
		o.Writers = 8
	}
	if node < 0 || node >= len(c.Nodes) {
		return nil, fmt.Errorf("node %d of %d", node, len(c.Nodes))
	}
	d := &Daemon{cache: c, node: node, peers: peers, held: make(map[string]*held), members: make(map[string]*member), uses: make(map[string]*use)}
	d.opt = Options{Size: sizeLimit, Growing: true, Stripe: o.Stripe, Levels: o.Levels, Masks: Masks()}
	for i := range c.Nodes {
		for range o.Writers {
			d.opt.Processes = append(d.opt.Processes, i)
		}
	}
	opt := d.opt
	if err := c.check("file", &opt); err != nil {
		return nil, err
	}
	d.cache.daemon = d
	return d, nil
}

// ask sends a message to a daemon, which may be this one.
func (d *Daemon) ask(ctx context.Context, node int, m Message) (a Answer, err error) {
	m.From = d.node
	if node == d.node {
		a, err = d.Answer(ctx, m)
	} else {
		a, err = d.peers.Ask(ctx, node, m)
	}
	if err != nil {
		return a, fmt.Errorf("%v %s at node %d: %w", m.Verb, m.Name, node, err)
	}
	return a, nil
}

// Answer answers a message. Its context ends when the daemon that sent it is lost.
func (d *Daemon) Answer(ctx context.Context, m Message) (a Answer, err error) {
	if m.Verb.Lane() == ToHome {
		ctx = context.WithoutCancel(ctx) // what has begun on all nodes is brought to its end
	}
	switch m.Verb {
	case Greet:
		return Answer{}, nil
	case Look:
		return d.look(ctx, m.Name)
	case Enter:
		return d.enter(ctx, m)
	case Leave:
		return d.leave(ctx, m)
	case Settle:
		return d.settle(ctx, m)
	case Resize:
		return d.resize(ctx, m)
	case Join:
		return Answer{}, d.begin(m)
	case Abandon:
		return Answer{}, d.abandon(m.Name)
	case Drop:
		if member := d.takeMember(m.Name); member != nil {
			return Answer{}, member.end(nil)
		}
		return Answer{}, nil
	}
	member := d.member(m.Name)
	if member == nil {
		if m.Verb == Resume { // it was closed
			return a, nil
		}
		return a, ErrAbandoned
	}
	switch m.Verb {
	case Serve:
		r := m.Request
		if r == nil || r.Kind >= Kind(len(kindNames)) || r.Kind == WriteIf && (r.Mask < 0 || r.Mask >= len(d.opt.Masks)) {
			return a, errors.ErrUnsupported
		}
		r.arrived = d.cache.Monitor.now()
		a.Reply, err = member.serve(ctx, *m.Request)
		return a, err
	case Pause:
		return member.pause(ctx)
	case Resume:
		member.goOn(m.Length)
		return a, nil
	}
	return a, errors.ErrUnsupported
}

func (d *Daemon) begin(m Message) error {
	if m.Session == nil || m.Session.Name != m.Name {
		return errors.ErrUnsupported
	}
	if old := d.takeMember(m.Name); old != nil { // of a home that was lost
		if err := old.end(ErrAbandoned); err != nil {
			return err
		}
	}
	member, err := d.join(*m.Session)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.members[m.Name] = member
	return nil
}

func (d *Daemon) member(name string) *member {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.members[name]
}

func (d *Daemon) takeMember(name string) *member {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.members[name]
	delete(d.members, name)
	return m
}

// A use is a file that programs of this node have open.
type use struct {
	mu     sync.Mutex
	count  int
	member *member
}

// A Handle is a file as a program has it open.
type Handle struct {
	daemon *Daemon
	name   string

	mu  sync.Mutex
	use *use // nil after Flush, until it is used again
}

// Open opens a file of the store, which has it already.
func (d *Daemon) Open(ctx context.Context, name string) (*Handle, error) {
	h := &Handle{daemon: d, name: name}
	_, err := h.begin(ctx)
	return h, err
}

// begin has the handle use its file.
func (h *Handle) begin(ctx context.Context) (*member, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.use != nil {
		return h.use.member, nil
	}
	d := h.daemon
	for {
		d.mu.Lock()
		u := d.uses[h.name]
		if u == nil {
			u = &use{}
			d.uses[h.name] = u
		}
		d.mu.Unlock()
		if ok, err := u.enter(ctx, d, h.name); err != nil {
			return nil, err
		} else if ok {
			h.use = u
			return u.member, nil
		}
	}
}

// enter counts a handle. It reports false for a use of a file that was abandoned.
func (u *use) enter(ctx context.Context, d *Daemon, name string) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count > 0 && d.member(name) != u.member {
		d.forget(name, u)
		return false, nil
	}
	if u.count == 0 {
		if _, err := d.ask(ctx, d.home(name), Message{Verb: Enter, Name: name}); err != nil {
			return false, err
		}
		if u.member = d.member(name); u.member == nil {
			return false, fmt.Errorf("open %s: %w", name, ErrAbandoned)
		}
	}
	u.count++
	return true, nil
}

func (d *Daemon) forget(name string, u *use) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uses[name] == u {
		delete(d.uses, name)
	}
}

// Flush ends the use of the file by this handle, which may begin again. After the last one the
// file is stored, and its error is returned.
func (h *Handle) Flush(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	u, d := h.use, h.daemon
	if u == nil {
		return nil
	}
	h.use = nil
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
	if d.member(h.name) != u.member {
		return fmt.Errorf("close %s: %w", h.name, ErrAbandoned)
	}
	if u.count > 0 {
		return nil
	}
	_, err := d.ask(ctx, d.home(h.name), Message{Verb: Leave, Name: h.name})
	return err
}

// with uses the file, and once more if it was closed meanwhile.
func (h *Handle) with(do func(m *member) error) error {
	var err error
	for range 3 {
		var m *member
		if m, err = h.begin(context.Background()); err != nil {
			return err
		}
		if err = do(m); !errors.Is(err, ErrClosed) {
			return err
		}
	}
	return err
}

// ReadAt implements io.ReaderAt.
func (h *Handle) ReadAt(b []byte, off int64) (n int, err error) {
	err = h.with(func(m *member) error {
		n, err = m.any().ReadAt(b, off)
		if err == io.EOF {
			return nil
		}
		return err
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// any returns a process of the node, to read with.
func (m *member) any() *Process {
	for _, p := range m.file.processes {
		if p != nil {
			return p
		}
	}
	return nil
}

// writer has do write with a process that has no request under way.
func (m *member) writer(do func(p *Process) error) error {
	p := <-m.idle
	defer func() { m.idle <- p }()
	return do(p)
}

// WriteAt implements io.WriterAt.
func (h *Handle) WriteAt(b []byte, off int64) (n int, err error) {
	err = h.with(func(m *member) error {
		return m.writer(func(p *Process) error {
			n, err = p.WriteAt(b, off)
			return err
		})
	})
	return n, err
}

// WriteIf writes b if the cell at off is free: if no bit of mask is set in any of its bytes.
func (h *Handle) WriteIf(b []byte, off int64, mask byte) (written bool, err error) {
	err = h.with(func(m *member) error {
		return m.writer(func(p *Process) error {
			written, err = p.WriteIf(b, off, int(mask))
			return err
		})
	})
	return written, err
}

// Sync stores the file, for all.
func (h *Handle) Sync(ctx context.Context) error {
	return h.with(func(m *member) error { return m.file.home(ctx) })
}

// Size returns the length of the file.
func (h *Handle) Size(ctx context.Context) (n int64, err error) {
	err = h.with(func(m *member) error {
		m.file.gate.RLock()
		defer m.file.gate.RUnlock()
		if m.file.closed {
			return m.file.reason()
		}
		n, err = m.file.size(ctx)
		return err
	})
	return n, err
}

// Truncate makes the file so long.
func (h *Handle) Truncate(ctx context.Context, length int64) error {
	n, err := h.Size(ctx)
	switch {
	case err != nil:
		return err
	case length > n: // the last byte is zero unless others write it at the same time
		_, err = h.WriteIf([]byte{0}, length-1, 0xff)
		return err
	case length == n:
		return nil
	}
	_, err = h.daemon.ask(ctx, h.daemon.home(h.name), Message{Verb: Resize, Name: h.name, Length: length})
	return err
}

// look says whether programs have a file open, and where it ends. A name that ends with a slash
// stands for all files below it that this daemon is the home of.
func (d *Daemon) look(ctx context.Context, name string) (a Answer, err error) {
	d.mu.Lock()
	var list []*held
	for n, h := range d.held {
		if n == name || strings.HasSuffix(name, "/") && strings.HasPrefix(n, name) {
			list = append(list, h)
		}
	}
	d.mu.Unlock()
	for _, h := range list {
		if a.Open, a.Reply.End, err = h.look(ctx); a.Open || err != nil {
			break
		}
	}
	return a, err
}

func (h *held) look(ctx context.Context) (open bool, end int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil {
		return false, 0, nil
	}
	end, err = h.file.size(ctx)
	return true, end, err
}

// Look reports whether programs of any node have a file open, and its length then.
func (d *Daemon) Look(ctx context.Context, name string) (size int64, open bool, err error) {
	a, err := d.ask(ctx, d.home(name), Message{Verb: Look, Name: name})
	return a.Reply.End, a.Open, err
}

// LookBelow reports whether programs of any node have a file of a directory open.
func (d *Daemon) LookBelow(ctx context.Context, dir string) (open bool, err error) {
	for i := range d.cache.Nodes {
		a, err := d.ask(ctx, i, Message{Verb: Look, Name: dir + "/"})
		if err != nil || a.Open {
			return a.Open, err
		}
	}
	return false, nil
}

// Close ends the daemon. Files that are open on this node are abandoned, and stay in the
// directories of the nodes.
func (d *Daemon) Close() error {
	d.mu.Lock()
	var names []string
	for name := range d.members {
		names = append(names, name)
	}
	d.mu.Unlock()
	var errs []error
	for _, name := range names {
		if m := d.takeMember(name); m != nil {
			errs = append(errs, m.end(ErrAbandoned))
		}
	}
	return errors.Join(errs...)
}

// RemoveVersions removes all versions of a file that no program has open.
func (d *Daemon) RemoveVersions(name string) error {
	numbers, err := d.cache.Versions(name)
	if err != nil {
		return err
	}
	return d.cache.removeVersions(name, numbers)
}

// Versions lists the complete versions of a file, oldest first.
func (d *Daemon) Versions(name string) ([]uint64, error) { return d.cache.Versions(name) }
