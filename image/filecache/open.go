package filecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/internal/durable"
)

// A File is a file that is open in the cache, for all processes together.
type File struct {
	cache     *Cache
	name      string
	opt       Options
	layout    Layout
	session   session
	half      []int    // nodes whose session does not say "open" yet
	dirs      []string // of the file on each node
	managers  []*manager
	transport Transport
	processes []*Process

	// gate is held for reading by each request, and for writing by what needs that no
	// request is under way: storing and closing.
	gate   sync.RWMutex
	closed bool
	why    error       // it is closed; nil: since it was closed
	base   uint64      // what the store has: the number of a version, or of syncs
	making uint64      // the version that was begun last
	epoch  uint64      // of the journals
	named  bool        // the name of the file in the store is durable
	stored bool        // the store has a file
	full   atomic.Bool // a journal asks for the file to be stored
	dirty  atomic.Bool // written since the store had it
	end    atomic.Int64

	meeting meeting
	// home, if not nil, stores the file where it was opened: this is one node's part of it.
	home func(context.Context) error
}

// A base is what a file was loaded from: no path stands for zeros.
type base struct {
	number  uint64
	path    string
	length  int64
	version *Version
}

// Open opens a file for all processes: it starts a manager on each node, which loads
// its fragment. It fails with ErrUnfinished if an earlier use of the file left
// something in a node directory.
func (c *Cache) Open(ctx context.Context, name string, opt Options) (f *File, err error) {
	if err := c.check(name, &opt); err != nil {
		return nil, err
	}
	end := c.Monitor.event(name, "open", fmt.Sprintf("nodes=%d", len(c.Nodes)))
	defer func() { end(err) }()
	if err := c.unused(name); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	b, err := c.locate(name, opt)
	if err == nil {
		opt.Size, err = sizeOf(opt, b)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	f = c.newFile(name, opt, session{Use: time.Now().UnixNano()})
	f.base, f.epoch, f.stored, f.named = b.number, 1, b.path != "", b.path != ""
	f.dirty.Store(b.path == "")
	if err := f.begin(ctx, b); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", name, err), f.closeManagers())
	}
	return f, nil
}

func sizeOf(opt Options, b base) (int64, error) {
	switch {
	case opt.Size == 0 && b.path == "":
		return 0, errors.New("a new file needs a size")
	case opt.Size == 0:
		return b.length, nil
	case opt.Size < b.length:
		return 0, fmt.Errorf("store has %d bytes, more than the size of %d", b.length, opt.Size)
	}
	return opt.Size, nil
}

func (c *Cache) newFile(name string, opt Options, s session) *File {
	f := &File{cache: c, name: name, opt: opt, layout: Layout{opt.Size, len(c.Nodes), opt.Unit, opt.Stripe}}
	f.session = session{Use: s.Use, Name: name, Nodes: len(c.Nodes), Size: opt.Size, Unit: opt.Unit, Stripe: opt.Stripe, Growing: opt.Growing,
		Create: opt.Create, Levels: opt.Levels, Processes: opt.Processes}
	for _, n := range c.Nodes {
		f.dirs = append(f.dirs, n.dir(name))
	}
	for i := range c.Nodes {
		m := &manager{cache: c, name: name, node: i, layout: f.layout, opt: &f.opt}
		if r := opt.Levels.Replicas; r > 0 {
			for _, k := range keepers(i, r, len(c.Nodes)) {
				m.keepers, m.dirs = append(m.keepers, c.Nodes[k]), append(m.dirs, f.dirs[k])
			}
		}
		f.managers = append(f.managers, m)
	}
	return f
}

// unused sees to it that the node directories have nothing of an earlier use.
func (c *Cache) unused(name string) error {
	var rec Recovery
	sessions, err := c.sessions(name, &rec)
	if err = errors.Join(append(rec.Warnings, err)...); err != nil {
		return err
	}
	for i, s := range sessions {
		if s.Use != 0 && s.State != closed {
			return fmt.Errorf("node %d: %w", i, ErrUnfinished)
		}
	}
	return c.clear(name)
}

// locate finds what to load.
func (c *Cache) locate(name string, opt Options) (base, error) {
	if opt.Levels.Versions {
		numbers, err := c.Versions(name)
		if err != nil {
			return base{}, err
		}
		if len(numbers) > 0 {
			return c.versionBase(name, numbers[len(numbers)-1])
		}
	}
	return c.plainBase(name, opt.Create)
}

func (c *Cache) versionBase(name string, number uint64) (base, error) {
	v, err := c.readVersion(name, number)
	return base{number, c.Store.versionPath(name, number), v.Bytes, &v}, err
}

func (c *Cache) plainBase(name string, create bool) (base, error) {
	path := c.Store.path(name)
	fi, err := c.Store.FS.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && create {
		return base{}, nil
	}
	if err != nil {
		return base{}, durable.Op("open", path, -1, err)
	}
	return base{path: path, length: fi.Size()}, nil
}

// begin makes the node directories, starts the managers and loads the file. The first
// node has the state "open" when all have everything.
func (f *File) begin(ctx context.Context, b base) error {
	if err := f.cache.each(f.prepare); err != nil {
		return err
	}
	if err := f.beginJournals(nil); err != nil {
		return err
	}
	if err := f.start(); err != nil {
		return err
	}
	if err := f.load(ctx, b); err != nil {
		return err
	}
	return f.mark(open)
}

// prepare makes the directory of a node with the fragment and the records of its
// processes.
func (f *File) prepare(node int) error {
	n, dir := f.cache.Nodes[node], f.dirs[node]
	if err := durable.MkdirAll(n.FS, dir); err != nil {
		return err
	}
	s := f.session
	s.Node, s.State = node, opening
	if err := s.write(n, dir); err != nil {
		return err
	}
	return f.prepareFiles(node)
}

func (f *File) prepareFiles(node int) error {
	n, dir := f.cache.Nodes[node], f.dirs[node]
	if f.opt.Levels.Records {
		for p, of := range f.opt.Processes {
			if of != node {
				continue
			}
			if err := createRecord(n, dir, p); err != nil {
				return err
			}
		}
	}
	return f.prepareFragment(node)
}

// prepareFragment makes a fragment of zeros.
func (f *File) prepareFragment(node int) (err error) {
	n, dir, m := f.cache.Nodes[node], f.dirs[node], f.managers[node]
	if m.frag, err = openFragment(n, dir, true); err != nil {
		return err
	}
	return durable.Op("sync", dir, -1, n.FS.SyncDir(dir))
}

// beginJournals begins a journal for each fragment, with the frames that carried adds.
func (f *File) beginJournals(carried func(node int, add func(frame, []byte) error) error) error {
	if f.opt.Levels.Replicas == 0 {
		return nil
	}
	return f.cache.each(func(i int) (err error) {
		m := f.managers[i]
		head := journalHead{use: f.session.Use, epoch: f.epoch, base: f.base, owner: i}
		var with func(add func(frame, []byte) error) error
		if carried != nil {
			with = func(add func(frame, []byte) error) error { return carried(i, add) }
		}
		m.journal, err = createJournal(m.keepers, m.dirs, head, f.opt.Levels.JournalBytes, with)
		return err
	})
}

// start starts the managers and opens the records of processes.
func (f *File) start() error {
	if f.cache.daemon != nil {
		return f.spread(f.cache.daemon)
	}
	if err := f.openProcesses(func(*Process) bool { return true }); err != nil {
		return err
	}
	f.transport = inProcess(len(f.managers), func(node int) func(Request) (Reply, error) { return f.managers[node].serve })
	return nil
}

// openProcesses makes the processes that are of this process of the machine.
func (f *File) openProcesses(ours func(*Process) bool) error {
	f.processes = make([]*Process, len(f.opt.Processes))
	for i, node := range f.opt.Processes {
		p := &Process{file: f, rank: i, node: node}
		if !ours(p) {
			continue
		}
		f.processes[i] = p
		if f.opt.Levels.Records {
			var err error
			if p.record, err = openRecord(f.cache.Nodes[node], f.dirs[node], i); err != nil {
				return err
			}
		}
	}
	return nil
}

// reason says why a closed file cannot be used.
func (f *File) reason() error {
	if f.why != nil {
		return f.why
	}
	return ErrClosed
}

// load has each manager load its fragment, and checks a version.
func (f *File) load(ctx context.Context, b base) error {
	if b.path == "" {
		return nil // new fragments are zeros
	}
	sums := make([]uint32, len(f.managers))
	err := f.cache.each(func(i int) error {
		reply, err := f.call(ctx, i, Request{Kind: Load, Process: -1, Source: -1, Path: b.path, Length: b.length})
		sums[i] = reply.Sum
		return err
	})
	if err != nil {
		return err
	}
	f.reach(b.length)
	return f.checkLoaded(b, sums)
}

func (f *File) checkLoaded(b base, sums []uint32) error {
	if b.version == nil {
		return nil
	}
	for i, s := range b.version.Fragments {
		part := f.layout.Of(i)
		if len(b.version.Fragments) != len(sums) || b.version.Stripe != f.layout.Stripe || s.Node != i || s.Off != part.Off || s.N != f.layout.bytes(i, b.length) {
			return f.cache.verifyVersion(*b.version) // it was stored by other nodes
		}
		if s.CRC32C != sums[i] {
			return durable.Damaged(b.path, s.Off, "checksum of the fragment of node %d does not match", i)
		}
	}
	return nil
}

// mark gives the session of all nodes a state.
func (f *File) mark(state string) error {
	return f.cache.each(func(i int) error { return f.markNode(i, state) })
}

func (f *File) markNode(node int, state string) error {
	s := f.session
	s.Node, s.State = node, state
	return s.write(f.cache.Nodes[node], f.dirs[node])
}

// call sends a request to a manager.
func (f *File) call(ctx context.Context, node int, r Request) (Reply, error) {
	r.arrived = f.cache.Monitor.now()
	if f.transport == nil { // while the file is being recovered
		return f.managers[node].serve(r)
	}
	return f.transport.Call(ctx, node, r)
}

// reach notes that a byte before end has been written.
func (f *File) reach(end int64) {
	for {
		was := f.end.Load()
		if end <= was || f.end.CompareAndSwap(was, end) {
			return
		}
	}
}

// Size returns the length of the file.
func (f *File) Size() int64 {
	if f.opt.Growing {
		return f.end.Load()
	}
	return f.opt.Size
}

// Name returns the name of the file in the store.
func (f *File) Name() string { return f.name }

// Layout returns which node has which bytes.
func (f *File) Layout() Layout { return f.layout }

// Process returns the file as a process uses it.
func (f *File) Process(rank int) *Process { return f.processes[rank] }

// storeDir makes the directory of the file in the store.
func (f *File) storeDir() (string, error) {
	dir := filepath.Dir(f.cache.Store.path(f.name))
	return dir, durable.MkdirAll(f.cache.Store.FS, dir)
}
