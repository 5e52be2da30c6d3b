package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

var (
	// ErrNotHere says that no node has what is needed: the store may.
	ErrNotHere = errors.New("not on the nodes")
	// ErrUnreachable says that the directory of a node cannot be reached.
	ErrUnreachable = errors.New("node cannot be reached")
	// ErrOtherNode says that a directory belongs to another node of the job.
	ErrOtherNode = errors.New("directory belongs to another node")
)

// A Node is a node of the job, and how its directory is reached.
type Node struct {
	ID  int
	FS  vfs.FS // nil if it cannot be reached
	Dir string
}

// A Tier is the directories of all nodes of a job. Its methods may be called from several
// goroutines, for different versions.
type Tier struct {
	name        string
	description []byte
	digest      string       // of the description
	owner       *image.Store // of the job; nil: directories may belong to any store
	holds       bool         // directories are locked
	setting     Setting
	topology    Topology
	nodes       []Node

	opened []opened // by node
}

// opened is the job in the directory of a node, once it has been opened.
type opened struct {
	mu    sync.Mutex
	job   *image.Job
	whole bool       // the directory was made, or found to be whole
	held  *image.Job // that is locked
}

// Open returns the tier of a job. NodesOfRanks has the node of each rank. Description
// describes the job, as its store does. The directories of the nodes are made as they are
// needed.
func Open(job string, description []byte, setting Setting, nodesOfRanks []int, nodes []Node) (*Tier, error) {
	if err := image.CheckJobName(job); err != nil {
		return nil, err
	}
	if err := setting.Check(len(nodes)); err != nil {
		return nil, err
	}
	for i, n := range nodes {
		if n.ID != i {
			return nil, fmt.Errorf("node %d of the tier is given in place %d", n.ID, i)
		}
	}
	for r, n := range nodesOfRanks {
		if n < 0 || n >= len(nodes) {
			return nil, fmt.Errorf("rank %d is on node %d of %d", r, n, len(nodes))
		}
	}
	t := &Tier{name: job, description: bytes.Clone(description), digest: image.DigestOf(description), setting: setting, nodes: slices.Clone(nodes), opened: make([]opened, len(nodes))}
	t.topology = Topology{NodeOf: slices.Clone(nodesOfRanks), Domains: setting.domains(len(nodes))}
	return t, nil
}

// domains returns the failure domain of each node.
func (s Setting) domains(nodes int) []int {
	if len(s.Domains) > 0 {
		return slices.Clone(s.Domains)
	}
	list := make([]int, nodes)
	for i := range list {
		list[i] = i
	}
	return list
}

// Setting returns how the tier is set.
func (t *Tier) Setting() Setting { return t.setting }

// Topology returns which rank is on which node, and the failure domains of these.
func (t *Tier) Topology() Topology { return t.topology }

// Nodes returns the nodes of the tier.
func (t *Tier) Nodes() []Node { return slices.Clone(t.nodes) }

// A NodeError says which node an error is of.
type NodeError struct {
	Node  int
	Whole bool // the directory cannot be used, and not only a file in it
	Err   error
}

func (e *NodeError) Error() string { return fmt.Sprintf("node %d: %v", e.Node, e.Err) }
func (e *NodeError) Unwrap() error { return e.Err }

// nodeError says which node an error is of, unless the error says so itself.
func nodeError(node int, err error) error {
	if of, ok := err.(*NodeError); err == nil || ok && of.Node == node {
		return err
	}
	return &NodeError{Node: node, Err: err}
}

// place returns the job in the directory of a node. It makes the directory, or the part of
// it that is damaged.
func (t *Tier) place(node int) (*image.Job, error) {
	return t.job(node, true, func(n Node) (*image.Job, error) {
		store, err := image.CreateNodeStore(n.FS, n.Dir)
		if err != nil {
			return nil, err
		}
		j, err := store.PlaceJob(t.name, t.description)
		if errors.Is(err, image.ErrJobExists) {
			if other, oerr := store.Job(t.name); oerr == nil {
				if _, oerr = t.owned(other, node); oerr != nil {
					return nil, oerr
				}
			}
		}
		if err == nil {
			err = t.hold(j, node)
		}
		if err == nil {
			if err = t.claim(j, node); err != nil {
				t.opened[node].release()
			}
		}
		return j, err
	})
}

// look returns the job in the directory of a node, for reading. It fails with fs.ErrNotExist
// if it is not there. The marks of the directory may be damaged: digests tell whether its
// files are ours.
func (t *Tier) look(node int) (*image.Job, error) {
	return t.job(node, false, func(n Node) (*image.Job, error) {
		store, err := image.OpenNodeStore(n.FS, n.Dir)
		if err != nil {
			return nil, err
		}
		j, err := store.Job(t.name)
		if errors.Is(err, image.ErrJobNotFound) {
			return nil, &fs.PathError{Op: "open", Path: filepath.Join(n.Dir, "jobs", t.name), Err: fs.ErrNotExist}
		}
		if err != nil {
			return nil, err
		}
		_, err = t.owned(j, node)
		if unknown(err) {
			err = nil
		}
		return j, err
	})
}

// job returns the job of a node that was opened before, or opens it. Whole says that its
// directory has to be whole.
func (t *Tier) job(node int, whole bool, open func(Node) (*image.Job, error)) (*image.Job, error) {
	if node < 0 || node >= len(t.nodes) {
		return nil, fmt.Errorf("node %d of %d does not exist", node, len(t.nodes))
	}
	n := t.nodes[node]
	if n.FS == nil {
		return nil, nodeError(node, ErrUnreachable)
	}
	o := &t.opened[node]
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.job != nil && (o.whole || !whole) {
		if _, err := n.FS.Stat(o.job.SpecPath()); err == nil {
			return o.job, nil
		}
	}
	o.job = nil // the directory was lost
	j, err := open(n)
	if err != nil {
		return nil, &NodeError{Node: node, Whole: true, Err: err}
	}
	o.job, o.whole = j, whole
	return j, nil
}

// Prepare makes what a node needs before its ranks write version number: the directory,
// empty. The remains of an attempt that did not come to an end are removed.
func (t *Tier) Prepare(node, number int) error {
	j, err := t.place(node)
	if err != nil {
		return err
	}
	if number < 1 {
		return fmt.Errorf("version %d: versions count from 1", number)
	}
	if err := wipe(j, number); err != nil {
		return nodeError(node, err)
	}
	return nodeError(node, durable.Op("prepare", j.NumberDir(number), -1, durable.Mkdir(j.FS(), j.NumberDir(number))))
}

// makeDir makes the directory of a version, if it is not there.
func makeDir(j *image.Job, number int) error {
	dir := j.NumberDir(number)
	if err := durable.Mkdir(j.FS(), dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return durable.Op("create", dir, -1, err)
	}
	return nil
}

// wipe removes all that a node has of a version, its manifest first.
func wipe(j *image.Job, number int) error {
	dir := j.NumberDir(number)
	entries, err := j.FS().ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return durable.Op("reclaim", dir, -1, err)
	}
	if err := j.Withdraw(number); err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != container.ManifestName {
			errs = append(errs, durable.Remove(j.FS(), filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return durable.Op("reclaim", dir, -1, errors.Join(j.FS().Remove(dir), j.FS().SyncDir(j.Dir())))
}

// each calls do for each node that can be reached, at once, and returns what they return.
func (t *Tier) each(do func(node int) error) []error {
	errs := make([]error, len(t.nodes))
	var g errgroup.Group
	for i, n := range t.nodes {
		if n.FS != nil {
			g.Go(func() error { errs[i] = do(i); return nil })
		}
	}
	_ = g.Wait() // the errors are in errs
	return errs
}

// A Writer takes the file of a rank: onto the rank's own node, and to what protects it.
type Writer struct {
	job  *image.Job
	path string
	tee  *Teed
}

// Writer returns one for a rank's file of version number, whose directory Prepare has
// made. All that is written goes to the sinks as well.
func (t *Tier) Writer(ctx context.Context, number, rank int, sinks ...Sink) (*Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j, err := t.look(t.topology.NodeOf[rank])
	if err != nil {
		return nil, err
	}
	path := j.FilePath(RankFile(number, rank))
	return &Writer{job: j, path: path, tee: Tee(j.FS(), path, sinks...)}, nil
}

// Copies returns the sinks that make the copies of a rank's file on its partners, as its
// protection asks for.
func (t *Tier) Copies(number, rank int) ([]Sink, error) {
	var sinks []Sink
	for _, n := range copiesOf(t.setting.Protect, t.topology, rank) {
		j, err := t.look(n)
		if err != nil {
			return nil, err
		}
		sinks = append(sinks, Copy(j.FS(), j.FilePath(RankFile(number, rank))))
	}
	return sinks, nil
}

// FS returns the file system to write the file to.
func (w *Writer) FS() vfs.FS { return w.tee }

// Path returns where the file belongs.
func (w *Writer) Path() string { return w.path }

// Finish waits until the file and what protects it are durable. It comes after the file
// has been written.
func (w *Writer) Finish(ctx context.Context) error {
	if err := w.tee.Wait(ctx); err != nil {
		return err
	}
	dir := filepath.Dir(w.path)
	return durable.Op("sync", dir, -1, w.job.FS().SyncDir(dir))
}

// Abort removes the file, as far as it is there, and ends the sinks that have not ended.
func (w *Writer) Abort() error {
	w.tee.Abort()
	return durable.Remove(w.job.FS(), w.path)
}

// RankFile returns the path of the container of a rank, as manifests have it.
func RankFile(number, rank int) string {
	return path.Join(container.FormatNumber(number), fmt.Sprintf("rank-%d.img", rank))
}

// ParityFile returns the path of a parity of a set.
func ParityFile(number, set, index int) string {
	return path.Join(container.FormatNumber(number), fmt.Sprintf("parity-%d-%d.par", set, index))
}

// manifestPath returns the path of a manifest within the job.
func manifestPath(number int) string {
	return container.FormatNumber(number) + "/" + container.ManifestName
}

// eachJob calls do for each node that can be reached and has the job, at once.
func (t *Tier) eachJob(do func(node int, j *image.Job) error) []error {
	return t.each(func(node int) error {
		j, err := t.look(node)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = do(node, j)
		}
		return nodeError(node, err)
	})
}
