package cached

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/coordinator/wire"
	"ckpt/image/filecache"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// RecoverOptions are the settings of Recover.
type RecoverOptions struct {
	Names []string // of files; none: all
	Lost  []int    // nodes whose directories are lost
	// Listen is an address of this host if nodes are on others; see Options.
	Listen string
}

// A Recovered is a file that was recovered, or could not be.
type Recovered struct {
	Name     string           `json:"name"`
	From     filecache.Source `json:"from,omitempty"`
	Version  uint64           `json:"file_version,omitempty"`
	Bytes    int64            `json:"bytes"`
	Replayed int              `json:"repeated_requests"`
	Dropped  int              `json:"dropped_requests"`
	Lost     []int            `json:"lost_nodes,omitempty"`
	Warnings []string         `json:"warnings,omitempty"`
	Error    string           `json:"error,omitempty"`
	err      error
}

// Err returns why the file could not be recovered.
func (r Recovered) Err() error { return r.err }

// A view is the cache as Recover sees it: each node through its daemon, or its directory.
type view struct {
	cache filecache.Cache
	peers *peers
	alive []int
	lost  []int
	locks []io.Closer
}

// look reaches every node.
func look(ctx context.Context, dir string, o RecoverOptions) (*view, error) {
	fsys := vfs.OS{}
	p := placeIn(fsys, dir)
	s, err := p.read()
	if err != nil {
		return nil, err
	}
	network, err := networkOf(o.Listen, s.Token)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(o.Lost, func(n int) bool { return n < 0 || n >= s.Nodes }); i >= 0 {
		return nil, fmt.Errorf("node %d is lost, but there are %d", o.Lost[i], s.Nodes)
	}
	v := &view{cache: filecache.Cache{Store: filecache.Store{FS: fsys, Dir: dir, Link: LinkVersion}},
		peers: newPeers(ctx, p, s, -1, wire.Self{Rank: s.Nodes, Token: s.Token, Network: network})}
	for i := range s.Nodes {
		n, err := v.node(ctx, s, i, slices.Contains(o.Lost, i))
		if err != nil {
			return nil, errors.Join(err, v.close())
		}
		v.cache.Nodes = append(v.cache.Nodes, n)
	}
	return v, nil
}

// ErrAway says that a node can be reached neither through its daemon nor as a directory.
var ErrAway = errors.New("it is not mounted, and has no directory here")

func (v *view) node(ctx context.Context, s Setting, node int, lost bool) (filecache.Node, error) {
	n := filecache.Node{FS: v.peers.fs(node), Dir: s.filesDir(node)}
	_, err := v.peers.Ask(ctx, node, filecache.Message{Verb: filecache.Greet})
	if err == nil {
		v.alive = append(v.alive, node)
		return n, nil
	}
	fsys := vfs.OS{}
	n.FS = fsys
	_, serr := fsys.Stat(n.Dir)
	switch {
	case lost && serr == nil:
		return n, fmt.Errorf("node %d counts as lost, but its directory %s is here: %w", node, s.NodeDir(node), fs.ErrExist)
	case lost:
		v.lost = append(v.lost, node)
		n.Dir = v.peers.place.withoutDir(node)
		return n, durable.MkdirAll(fsys, n.Dir)
	case serr != nil:
		return n, fmt.Errorf("node %d: %w: %w", node, ErrAway, err)
	}
	lock, err := fsys.Lock(s.lockPath(node))
	if err != nil {
		return n, fmt.Errorf("node %d, directory %s: %w", node, s.NodeDir(node), err)
	}
	v.locks = append(v.locks, lock)
	return n, nil
}

func (v *view) close() error {
	v.peers.close()
	for _, node := range v.lost {
		_ = v.cache.Store.FS.Remove(v.peers.place.withoutDir(node)) // unless a file could not be recovered
	}
	var errs []error
	for _, l := range v.locks {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// names returns all files that nodes have something of.
func (v *view) names() ([]string, error) {
	var all []string
	for _, n := range v.cache.Nodes {
		list, err := filecache.Names(n)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Recover recovers the files of a directory that uses of its cache have left unfinished, and
// stores them. Daemons that live abandon them first. It reports each file, also one that it could
// not recover, which stays as it is.
func Recover(ctx context.Context, dir string, o RecoverOptions) (list []Recovered, err error) {
	v, err := look(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("recover %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, v.close()) }()
	names := o.Names
	if len(names) == 0 {
		if names, err = v.names(); err != nil {
			return nil, fmt.Errorf("recover %s: %w", dir, err)
		}
	}
	list = []Recovered{}
	for _, name := range names {
		r := v.recover(ctx, name)
		if errors.Is(r.err, filecache.ErrNothing) && len(o.Names) == 0 {
			continue // its end, or its beginning, had been cut
		}
		list = append(list, r)
	}
	return list, nil
}

func (v *view) recover(ctx context.Context, name string) (r Recovered) {
	r.Name = name
	fail := func(err error) Recovered {
		r.err, r.Error = err, err.Error()
		return r
	}
	for _, node := range v.alive {
		if _, err := v.peers.Ask(ctx, node, filecache.Message{Verb: filecache.Abandon, Name: name}); err != nil {
			return fail(err)
		}
	}
	f, rec, err := v.cache.Recover(ctx, name, filecache.Options{Masks: filecache.Masks()})
	r.From, r.Version, r.Replayed, r.Dropped, r.Lost = rec.From, rec.Version, rec.Replayed, rec.Dropped, rec.Lost
	for _, w := range rec.Warnings {
		r.Warnings = append(r.Warnings, w.Error())
	}
	if err != nil {
		return fail(err)
	}
	r.Bytes = f.Size()
	if err := f.Close(ctx); err != nil {
		return fail(errors.Join(err, f.Abandon()))
	}
	for _, node := range v.lost {
		if err := v.peers.place.forget(node, name); err != nil {
			return fail(err)
		}
	}
	return r
}

// A Listed is a cached file: one that is unfinished, or has versions.
type Listed struct {
	Name       string                   `json:"name"`
	Unfinished bool                     `json:"unfinished,omitempty"`
	Versions   []filecache.VersionState `json:"file_versions,omitempty"`
}

// List returns the files of a directory that are unfinished or have versions, and checks these.
// Files that programs have open count as unfinished. It changes nothing.
func List(ctx context.Context, dir string, o RecoverOptions) (list []Listed, err error) {
	v, err := look(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, v.close()) }()
	unfinished, err := v.names()
	if err != nil {
		return nil, err
	}
	names := slices.Clone(unfinished)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name, ok := filecache.NameOfManifest(path); ok && !e.IsDir() {
			rel, err := filepath.Rel(dir, name)
			if err != nil {
				return err
			}
			names = append(names, rel)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	list = []Listed{}
	for _, name := range slices.Compact(names) {
		if len(o.Names) > 0 && !slices.Contains(o.Names, name) {
			continue
		}
		versions, err := v.cache.Verify(name)
		if err != nil {
			return nil, err
		}
		list = append(list, Listed{name, slices.Contains(unfinished, name), versions})
	}
	return list, nil
}
