// Package filecache caches files of a parallel job in directories of its nodes, as the
// distributed NVRAM cache of A. Malinowski does (PhD thesis, Gdańsk): files that
// processes write into by request, small, scattered and often.
//
// # Use
//
//	c := &filecache.Cache{Nodes: nodes, Store: filecache.Store{FS: vfs.OS{}, Dir: "/store"}}
//	f, err := c.Open(ctx, "map", filecache.Options{Create: true, Size: 1 << 30, Processes: nodeOfProcess})
//	p := f.Process(rank)
//	p.ReadAt(b, off); p.WriteAt(b, off); p.WriteIf(cell, off, mask)
//	p.Sync(ctx)  // all processes
//	p.Close(ctx) // all processes
//	f, recovery, err := c.Recover(ctx, "map", filecache.Options{}) // after a failure
//
// Programs use it through a Daemon on each node, behind a mount (ckpt storage mount --cache):
//
//	d, err := filecache.NewDaemon(c, node, peers, filecache.DaemonOptions{Levels: levels})
//	h, err := d.Open(ctx, "map") // reads, writes, Sync, Truncate; Flush ends its use
//
// A file of n nodes is cut into n contiguous fragments of ceil(size/n) bytes. One
// manager per node and file has a fragment and serves the requests to it one by one, as
// they arrive. The owner of a byte follows from its offset. A request over several
// fragments is split. Each manager loads its whole fragment when the file is opened, and
// stores all of it when the file is synced, or closed after a write, with large
// contiguous reads and writes. So there are no blocks, misses or evictions, and the
// managers act on their own. A file that grows is dealt out in stripes instead, since its
// end is not known when it is opened (Options.Stripe).
//
// # Promises
//
// Without any level, a request that a failure cuts may be torn, and the rest is there
// if all node directories are.
//
//   - A write is visible to all processes when it returns.
//   - With level 1 (Levels.Records) a request is in its writer's own node directory
//     before it is sent, until it has been served. After the death of processes or a
//     loss of power, all acknowledged writes are there, and all or nothing of each
//     request that was under way.
//   - With level 2 (Levels.Replicas) a request is in journals on its node and on the
//     next ones before it is served. The same holds then, and also after the loss of as
//     many nodes, with their directories, as there are replicas. A journal begins again
//     when the store has the file, and a long one asks for that.
//   - With level 3 (Levels.Versions) each Sync makes a new version of the file. It
//     exists when all its bytes and its manifest are durable. Alone, recovery is exactly
//     the newest version; with the others it is what is left if they lost too much.
//   - Where writes to the same bytes overlap in time, those bytes are of one of them.
//   - A write that fails may be there in part, until Recover.
//   - Recover does not change the store. It returns ErrLost if no level kept enough.
//
// # Files
//
// NAME is escaped as in a URL. A node has, in DIR/NAME:
//
//	session      what the file was opened with, and how far opening or closing got
//	fragment     the node's part of the file
//	record-P     level 1: the request of process P that is under way
//	journal-K-E  level 2: the requests to the fragment of node K, epoch E
//
// The store has NAME or, with level 3, NAME.vNNNN and NAME.vNNNN.manifest.
//
// # Monitoring
//
// A Monitor writes CSV. Times count from its first event; wait is from the sending of a
// request until its manager begins with it, service from there to the answer.
//
//	global      time_s, event (open, store, recover, close), phase (begin, end), file,
//	            seconds (at the end), detail, error
//	manager     time_s, event (read, write, write-if, load, store, rotate; receive and
//	            answer at level Detail), process, source (its node; −1 as in process: the
//	            file as a whole), sequence, part, offset, bytes, wait_s, service_s, error
//	statistics  from_s, to_s, file, request, source, target (nodes), requests, bytes,
//	            wait_s, service_s (sums), longest_s (the longest of both together)
package filecache

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/internal/vfs"
)

// A Cache is the nodes that cache files, and the store behind them.
type Cache struct {
	Nodes []Node
	Store Store
	// Monitor, if not nil, records what happens.
	Monitor *Monitor

	daemon *Daemon // if not nil, managers are in the daemons of their nodes
}

// A Node is the directory of a node. Files below it are in DIR/NAME.
type Node struct {
	FS  vfs.FS
	Dir string
}

// A Store is the directory that files are loaded from and stored to.
type Store struct {
	FS  vfs.FS
	Dir string
	// Link, if not nil, has the name of a file be that of its newest version: both are paths.
	Link func(version, name string) error
}

// Levels are the fail-safe levels, each by itself. Without any, an acknowledged write
// is in the owner's directory, and a request that a failure cuts may be torn.
type Levels struct {
	// Records (level 1) keeps each request in its writer's own node directory until all
	// owners have served it. It outlives everything but the loss of a directory.
	Records bool `json:"records,omitempty"`
	// Replicas (level 2) is how many neighbours keep a journal of the requests of each
	// node, besides the node itself; 0 keeps no journal.
	Replicas int `json:"replicas,omitempty"`
	// JournalBytes is the length of a journal from which on the file is stored, which
	// empties the journals; 0 is 64 MiB.
	JournalBytes int64 `json:"journal_bytes,omitempty"`
	// Versions (level 3) makes each Sync a new version of the file.
	Versions bool `json:"versions,omitempty"`
	// Keep is how many versions stay; 0 is 2.
	Keep int `json:"keep,omitempty"`
	// Volatile acknowledges writes before they are durable on the node: for node
	// directories in memory. It excludes Records.
	Volatile bool `json:"volatile,omitempty"`
}

// persists reports whether writes are durable in the fragment when they are
// acknowledged. With a journal they are durable there.
func (l Levels) persists() bool { return l.Replicas == 0 && !l.Volatile }

const (
	defaultJournal = 64 << 20
	defaultKeep    = 2
)

// Options say how a file is cached. All processes agree on them.
type Options struct {
	// Create allows a file that the store does not have; nothing is loaded then.
	Create bool
	// Size is the length of the file; 0 takes it from the store. It may be
	// larger, never smaller.
	Size int64
	// Growing makes Size a limit: the file ends behind its last byte that was written.
	Growing bool
	Unit    int64 // see Layout
	Stripe  int64 // see Layout
	Levels  Levels
	// Processes are those that use the file, by their nodes.
	Processes []int
	// Masks say which cells are free, for Process.WriteIf: those in which all bits of
	// the mask are zero. A mask is repeated over the cell.
	Masks [][]byte
}

func (c *Cache) check(name string, o *Options) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("open %s: %s", name, fmt.Sprintf(format, args...))
	}
	switch {
	case name == "" || name == "." || name != filepath.Clean(name) || strings.HasPrefix(name, ".."):
		return bad("not a name in the store")
	case len(c.Nodes) == 0:
		return bad("no nodes")
	case len(o.Processes) == 0:
		return bad("no processes")
	case o.Size < 0 || o.Unit < 0 || o.Stripe < 0 || o.Levels.JournalBytes < 0 || o.Levels.Keep < 0:
		return bad("negative size")
	case o.Levels.Replicas < 0 || o.Levels.Replicas >= len(c.Nodes):
		return bad("%d replicas of a journal need %d nodes, there are %d", o.Levels.Replicas, o.Levels.Replicas+1, len(c.Nodes))
	case o.Levels.Volatile && o.Levels.Records:
		return bad("records need writes that are durable on the node")
	case slices.ContainsFunc(o.Masks, func(m []byte) bool { return len(m) == 0 }):
		return bad("empty mask")
	}
	for i, n := range c.Nodes {
		if n.FS == nil {
			return bad("node %d cannot be reached", i)
		}
	}
	for i, n := range o.Processes {
		if n < 0 || n >= len(c.Nodes) {
			return bad("process %d is on node %d of %d", i, n, len(c.Nodes))
		}
	}
	if o.Levels.JournalBytes == 0 {
		o.Levels.JournalBytes = defaultJournal
	}
	if o.Levels.Keep == 0 {
		o.Levels.Keep = defaultKeep
	}
	return nil
}

// dir returns the directory of a file on a node.
func (n Node) dir(name string) string { return filepath.Join(n.Dir, url.PathEscape(name)) }

func (s Store) path(name string) string { return filepath.Join(s.Dir, name) }

// each calls do for all nodes at the same time and returns all errors.
func (c *Cache) each(do func(node int) error) error { return each(len(c.Nodes), do) }

func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	done := make(chan struct{}, n)
	for i := range n {
		go func() {
			errs[i] = do(i)
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	return errors.Join(errs...)
}

// The errors of a cached file. The text of an error names the file; these only name
// the case.
var (
	// ErrUnfinished says that the node directories have what an earlier use of the
	// file left there, which Recover has to see first.
	ErrUnfinished = errors.New("an earlier use of the file did not end: recover it first")
	// ErrNothing says that there is nothing to recover: no write has been accepted
	// since the file was last stored.
	ErrNothing = errors.New("nothing to recover")
	// ErrLost says that nodes were lost with acknowledged writes that no level kept.
	ErrLost = errors.New("acknowledged writes are lost")
	// ErrBeyond says that a request lies beyond the size that the file was opened with.
	ErrBeyond = errors.New("beyond the end of the file")
	// ErrSpans says that a conditional write lies on two nodes: see Layout.Unit.
	ErrSpans = errors.New("conditional write lies on two nodes")
	// ErrClosed says that the file is closed.
	ErrClosed = errors.New("file is closed")
	// ErrJournalFull says that the journal of a node is full, since the file could not
	// be stored.
	ErrJournalFull = errors.New("journal is full")
	// ErrOther says that the node directories belong to another use of the file.
	ErrOther = errors.New("settings differ from those that the file was opened with")
)
