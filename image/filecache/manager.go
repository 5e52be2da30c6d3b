package filecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// Kind is a kind of request to a manager.
type Kind uint8

// The kinds of requests.
const (
	Read Kind = iota
	Write
	WriteIf
	Load   // the fragment from a file of the store
	Put    // the fragment into a file of the store
	Rotate // the journal: begin an empty one
	End    // where the last byte ends that was written
	Cut    // the file: drop what is behind Length
)

var kindNames = [...]string{"read", "write", "write-if", "load", "store", "rotate", "end", "cut"}

func (k Kind) String() string { return kindNames[k] }

// A Request is what a manager is asked to do. Requests of all processes to a manager
// are served one by one, as they arrive.
type Request struct {
	Kind    Kind
	Process int    // that asks; -1 for the file as a whole
	Source  int    // its node
	Seq     uint64 // counts the requests of a process that write, from 1
	Part    int    // of those that the request was split into
	Parts   int
	Off     int64  // in the file, of Data
	Data    []byte `json:"-"` // to write, or to fill
	Mask    int    // of WriteIf

	Path   string // of Load and Put
	Length int64  // of the file, for Load, Put and Cut
	Epoch  uint64 // of Rotate
	Base   uint64 // of Rotate: what the store has

	arrived time.Time
}

// A Reply is a manager's answer.
type Reply struct {
	Written bool   // WriteIf: the cell was free
	Full    bool   // Write: the journal asks for a Sync
	Sum     uint32 // Load, Put: CRC-32C of the fragment
	End     int64  // End: where the last byte of the fragment ends in the file
}

// A Transport carries requests to the managers of a file.
type Transport interface {
	// Call returns when the manager has answered. A process has one call to a manager
	// under way at a time.
	Call(ctx context.Context, node int, r Request) (Reply, error)
	// Close ends the transport. No call is under way.
	Close() error
}

// channels is the transport within a process: a channel for each manager.
type channels struct {
	queues []chan call
	served sync.WaitGroup
}

type call struct {
	request Request
	answer  chan<- answer
}

type answer struct {
	reply Reply
	err   error
}

// inProcess starts a goroutine for each manager.
func inProcess(nodes int, manager func(node int) func(Request) (Reply, error)) Transport {
	t := &channels{queues: make([]chan call, nodes)}
	for i := range t.queues {
		t.queues[i] = make(chan call, 16)
		t.served.Go(func() {
			serve := manager(i)
			for c := range t.queues[i] {
				reply, err := serve(c.request)
				c.answer <- answer{reply, err}
			}
		})
	}
	return t
}

func (t *channels) Call(_ context.Context, node int, r Request) (Reply, error) {
	done := make(chan answer, 1)
	t.queues[node] <- call{r, done}
	a := <-done
	return a.reply, a.err
}

func (t *channels) Close() error {
	for _, q := range t.queues {
		close(q)
	}
	t.served.Wait()
	return nil
}

// A manager has the fragment of a node and serves the requests to it, one by one, as
// they arrive. It answers a write when the bytes are as durable as the levels ask.
type manager struct {
	cache   *Cache
	name    string
	node    int
	layout  Layout
	opt     *Options
	frag    *fragment
	journal *journal // nil without level 2
	dirs    []string // of the nodes that keep the journal
	keepers []Node
	end     int64 // of the last byte that was written, in the file
	// err is the first error of making something durable. It is unknown then which bytes
	// the disk has, and a later sync says nothing about them: the manager refuses all
	// writes, until Recover.
	err error
}

// serve serves a request. It runs on one goroutine.
func (m *manager) serve(r Request) (Reply, error) {
	began := m.cache.Monitor.now()
	if r.arrived.IsZero() {
		r.arrived = began
	}
	reply, err := m.handle(&r)
	m.cache.Monitor.served(m.name, m.node, &r, began, err)
	if err != nil {
		err = fmt.Errorf("%s of %s on node %d: %w", r.Kind, m.name, m.node, err)
	}
	return reply, err
}

func (m *manager) handle(r *Request) (Reply, error) {
	if r.Kind <= WriteIf && !m.owns(r.Off, int64(len(r.Data))) {
		return Reply{}, ErrBeyond
	}
	switch r.Kind {
	case Read:
		return Reply{}, m.frag.readAt(r.Data, m.layout.local(r.Off))
	case Write:
		return m.write(r)
	case WriteIf:
		return m.writeIf(r)
	case Load:
		return m.load(r)
	case Put:
		return m.put(r)
	case Rotate:
		return Reply{}, m.rotate(r)
	case End:
		return Reply{End: m.end}, nil
	case Cut:
		return Reply{}, m.cut(r)
	}
	return Reply{}, errors.ErrUnsupported
}

// write writes ahead: a request that is in the journal may be torn in the fragment.
func (m *manager) write(r *Request) (Reply, error) {
	if m.err != nil {
		return Reply{}, m.err
	}
	reply := Reply{Written: true}
	if j := m.journal; j != nil {
		h := frame{use: j.head.use, seq: r.Seq, off: r.Off, process: r.Process, part: r.Part, parts: r.Parts, mask: -1}
		if m.err = j.append(h, r.Data); m.err != nil {
			return Reply{}, m.err
		}
		reply.Full = j.size >= j.limit
	}
	off := m.layout.local(r.Off)
	if m.err = m.frag.writeAt(r.Data, off); m.err != nil {
		return Reply{}, m.err
	}
	if m.opt.Levels.persists() {
		m.err = m.frag.persist()
	}
	m.reach(r.Off + int64(len(r.Data)))
	return reply, m.err
}

// writeIf writes if the cell is free.
func (m *manager) writeIf(r *Request) (Reply, error) {
	free, err := isFree(m.frag, m.layout.local(r.Off), len(r.Data), m.opt.Masks[r.Mask])
	if err != nil || !free {
		return Reply{}, err
	}
	return m.write(r)
}

func isFree(f *fragment, off int64, n int, mask []byte) (bool, error) {
	cell := make([]byte, n)
	if err := f.readAt(cell, off); err != nil {
		return false, err
	}
	for i, b := range cell {
		if b&mask[i%len(mask)] != 0 {
			return false, nil
		}
	}
	return true, nil
}

// owns reports whether n bytes lie together in the fragment.
func (m *manager) owns(off, n int64) bool {
	l := m.layout
	return off >= 0 && off+n <= l.Size && l.Owner(off) == m.node && off%l.Fragment()+n <= l.Fragment()
}

// bytes returns the length of the fragment.
func (m *manager) bytes() int64 { return m.layout.bytes(m.node, m.layout.Size) }

// reach notes that a byte before end has been written.
func (m *manager) reach(end int64) { m.end = max(m.end, end) }

// load fills the fragment from a file of the store, with large contiguous reads. No path
// stands for zeros.
func (m *manager) load(r *Request) (reply Reply, err error) {
	if r.Path != "" && m.layout.bytes(m.node, r.Length) > 0 {
		f, err := m.cache.Store.FS.Open(r.Path)
		if err != nil {
			return reply, durable.Op("open", r.Path, -1, err)
		}
		defer f.Close()
		for part := range m.layout.parts(m.node, r.Length) {
			at := m.layout.local(part.Off)
			err := pieces(f, r.Path, part.Off, part.N, func(off int64, p []byte) error {
				reply.Sum = durable.AddSum(reply.Sum, p)
				return m.frag.writeAt(p, at+off)
			})
			if err != nil {
				return reply, err
			}
			m.reach(part.Off + part.N)
		}
	}
	if !m.opt.Levels.persists() || m.bytes() == 0 {
		return reply, nil
	}
	return reply, m.frag.persist()
}

// put writes the whole fragment into a file of the store: nothing says which bytes
// changed.
func (m *manager) put(r *Request) (reply Reply, err error) {
	if m.err != nil {
		return reply, m.err
	}
	if m.layout.bytes(m.node, r.Length) == 0 {
		return reply, nil
	}
	f, err := m.cache.Store.FS.OpenWrite(r.Path)
	if err != nil {
		return reply, durable.Op("open", r.Path, -1, err)
	}
	buf := make([]byte, min(m.layout.Fragment(), pieceSize))
	for part := range m.layout.parts(m.node, r.Length) {
		if err = m.putPart(f, r.Path, part, buf, &reply.Sum); err != nil {
			break
		}
	}
	if err == nil {
		err = durable.Op("sync", r.Path, -1, f.Sync())
	}
	if cerr := f.Close(); err == nil {
		err = durable.Op("close", r.Path, -1, cerr)
	}
	return reply, err
}

func (m *manager) putPart(f vfs.File, path string, part Part, buf []byte, sum *uint32) error {
	from := m.layout.local(part.Off)
	for at := int64(0); at < part.N; at += int64(len(buf)) {
		p := buf[:min(part.N-at, int64(len(buf)))]
		if err := m.frag.readAt(p, from+at); err != nil {
			return err
		}
		*sum = durable.AddSum(*sum, p)
		if err := durable.WriteAt(f, path, p, part.Off+at); err != nil {
			return err
		}
	}
	return nil
}

// cut drops what the fragment has behind the end of the file.
func (m *manager) cut(r *Request) error {
	if m.err == nil {
		m.err = m.frag.cut(m.layout.bytes(m.node, r.Length))
	}
	m.end = min(m.end, r.Length)
	return m.err
}

// rotate begins a journal that builds on what the store has now.
func (m *manager) rotate(r *Request) error {
	head := journalHead{use: m.journal.head.use, owner: m.node, epoch: r.Epoch, base: r.Base}
	next, err := createJournal(m.keepers, m.dirs, head, m.journal.limit, nil)
	if err != nil {
		// The old one must not take requests any more: other journals may have begun
		// again, and then it does not count.
		m.err = err
		return err
	}
	old := m.journal
	m.journal = next
	err = old.close()
	for i, n := range m.keepers {
		rerr := removeJournals(n, m.dirs[i], func(owner int, epoch uint64) bool { return owner == m.node && epoch < r.Epoch })
		err = errors.Join(err, rerr)
	}
	return err
}

func (m *manager) close() error {
	var errs []error
	if m.journal != nil {
		errs = append(errs, m.journal.close())
	}
	if m.frag != nil {
		errs = append(errs, m.frag.close())
	}
	return errors.Join(errs...)
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
