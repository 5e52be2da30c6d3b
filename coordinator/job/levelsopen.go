package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// Open returns a checkpoint that can be reached from here, 0 for the newest, and the job through
// which its files are read, perhaps from nodes. It fails as Find does.
func (l *Levels) Open(number int) (*image.Job, *image.Manifest, error) {
	c, err := l.Find(number)
	if err != nil {
		return nil, nil, err
	}
	if c.Stored {
		m, err := l.job.Manifest(c.Number)
		return l.job, m, err
	}
	return throughNodes(l.job, l.Tier, c.Version.Manifest, false), c.Version.Manifest, nil
}

// A Source reads checkpoints wherever they are.
type Source interface {
	// Reads returns the job through which a checkpoint is read.
	Reads(number int) (*image.Job, *image.Manifest, error)
}

// Reads reads a checkpoint from the store, or else from nodes.
func (l *Levels) Reads(number int) (*image.Job, *image.Manifest, error) {
	m, err := l.job.Manifest(number)
	if v := l.Version(number); err != nil && v != nil {
		return throughNodes(l.job, l.Tier, v.Manifest, false), v.Manifest, nil
	}
	return l.job, m, err
}

// ReadNodes returns the job through which a version on nodes is read. Files that are lost are
// made again first: the caller alone writes to the nodes of the version.
func ReadNodes(j *image.Job, on *nodes.Tier, version *image.Manifest) *image.Job {
	return throughNodes(j, on, version, true)
}

func throughNodes(j *image.Job, on *nodes.Tier, version *image.Manifest, repair bool) *image.Job {
	return j.Through(&nodesFS{Buffered: vfs.Through(j.FS()), job: j, on: on, version: version, repair: repair, made: map[string]*madeFile{}})
}

// A nodesFS shows the files that ranks have on nodes where the store would have them. A rank's
// are on its node, copies on others. Manifests say what the store has.
type nodesFS struct {
	vfs.Buffered
	job     *image.Job
	on      *nodes.Tier
	version *image.Manifest
	repair  bool // files that are lost are made again on the nodes, else in made

	mu   sync.Mutex
	made map[string]*madeFile // by path in the job
}

// A madeFile is made again for this process: it has no name any more, and stays open.
type madeFile struct {
	vfs.File
	info fs.FileInfo
}

func (*madeFile) Close() error { return nil }

func (f *nodesFS) find(name string) (vfs.FS, string) {
	rest, err := filepath.Rel(f.job.Dir(), name)
	if _, serr := f.FS.Stat(name); serr == nil || err != nil || !filepath.IsLocal(rest) || filepath.Base(rest) == container.ManifestName {
		return f.FS, name
	}
	for node := range f.on.Nodes() {
		j, err := f.on.Job(node)
		if err != nil {
			continue
		}
		if _, err := j.FS().Stat(j.FilePath(rest)); err == nil {
			return j.FS(), j.FilePath(rest)
		}
	}
	i := slices.IndexFunc(f.version.Ranks, func(r image.Rank) bool { return r.File == filepath.ToSlash(rest) })
	if i < 0 {
		return f.FS, name
	}
	if !f.repair {
		f.make(f.version.Ranks[i].Rank, name)
	} else if from, err := f.on.Recover(context.Background(), f.version, f.version.Ranks[i].Rank); err == nil {
		return from.Job.FS(), from.Job.FilePath(rest)
	}
	return f.FS, name
}

// make makes the file of a rank again, for this process, once, if enough of its set is left.
func (f *nodesFS) make(rank int, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, tried := f.made[name]; tried {
		return
	}
	f.made[name] = nil
	temp := filepath.Join(os.TempDir(), "ckpt-"+image.NewID())
	file, err := vfs.OS{}.Create(temp)
	if err != nil {
		return
	}
	err = f.on.Rebuilt(context.Background(), f.version, rank, file)
	info, serr := vfs.OS{}.Stat(temp)
	if err = errors.Join(err, serr, vfs.OS{}.Remove(temp)); err != nil {
		file.Close()
		return
	}
	f.made[name] = &madeFile{file, info}
}

// again returns the file that was made again for a name; nil: there is none.
func (f *nodesFS) again(name string) *madeFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made[name]
}

func (f *nodesFS) Open(name string) (vfs.File, error) {
	fsys, at := f.find(name)
	if made := f.again(name); made != nil {
		return made, nil
	}
	return fsys.Open(at)
}

func (f *nodesFS) Stat(name string) (fs.FileInfo, error) {
	fsys, at := f.find(name)
	if made := f.again(name); made != nil {
		return made.info, nil
	}
	return fsys.Stat(at)
}

// An UnseenError says that only nodes have a checkpoint, and that no directory seen from here has
// it.
type UnseenError struct {
	Job    string
	Number int
	Nodes  []UnseenNode
	Others bool // the job has checkpoints that are seen
}

type UnseenNode struct {
	Node   int    `json:"node"`
	Host   string `json:"host,omitempty"`
	Dir    string `json:"dir"`
	Reason string `json:"reason"` // why it is not seen
	lost   bool   // its directory is there, without the checkpoint
}

const toldNodes = 4

func (e *UnseenError) Error() string {
	fate := "lost, or on nodes that are not seen from here"
	if e.Lost() {
		fate = "lost with its nodes"
	}
	var nodes []string
	for i, n := range e.Nodes {
		if i == toldNodes && len(e.Nodes) > toldNodes+1 {
			nodes = append(nodes, fmt.Sprintf("and %d more", len(e.Nodes)-i))
			break
		}
		where := n.Dir
		if n.Host != "" {
			where = n.Host + ":" + n.Dir
		}
		nodes = append(nodes, fmt.Sprintf("node %d: %s: %s", n.Node, where, n.Reason))
	}
	return fmt.Sprintf("checkpoint %d of job %s is %s (%s)", e.Number, e.Job, fate, strings.Join(nodes, "; "))
}

// Lost reports whether the directories of all nodes are there, without the checkpoint.
func (e *UnseenError) Lost() bool {
	return !slices.ContainsFunc(e.Nodes, func(n UnseenNode) bool { return !n.lost })
}

func (e *UnseenError) Is(target error) bool { return target == image.ErrCheckpointNotFound }

func (e *UnseenError) Hint() string {
	hint := "make the directories of the nodes visible under their names, or run ckpt where they are"
	if e.Lost() {
		hint = "put the directories of the nodes back from a copy, if there is one"
	}
	if e.Others {
		return hint + wording.Sprintf("; {list %s} shows the other checkpoints", e.Job)
	}
	return hint
}

// Unreached says where a checkpoint of Unseen is.
func (l *Levels) Unreached(number int) *UnseenError {
	e := &UnseenError{Job: l.job.Name(), Number: number}
	all, _ := l.Checkpoints() // a store that cannot be read shows nothing
	e.Others = slices.ContainsFunc(all, func(c Checkpoint) bool { return c.Seen() })
	for node := range l.Record.Mapping {
		n := UnseenNode{Node: node, Dir: l.Record.Setting.NodeDir(node)}
		if node < len(l.Hosts) {
			n.Host = l.Hosts[node]
		}
		n.Reason, n.lost = l.missing(node, number)
		e.Nodes = append(e.Nodes, n)
	}
	return e
}

// missing says why a node does not show a checkpoint.
func (l *Levels) missing(node, number int) (reason string, lost bool) {
	if l.Tier == nil {
		return "the description of the job cannot be read", false
	}
	n := l.Tier.Nodes()[node]
	if n.FS == nil {
		return "it cannot be reached from here", false
	}
	j, err := l.Tier.Job(node)
	if err == nil {
		_, err = j.Manifest(number)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := n.FS.Stat(n.Dir); errors.Is(err, fs.ErrNotExist) {
			return "there is no such directory", false
		}
		return "the directory has nothing of the job", true
	case err == nil, errors.Is(err, image.ErrCheckpointNotFound):
		return "the directory does not have this checkpoint", true
	}
	if of := (*nodes.NodeError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	return err.Error(), false
}

// Prune removes from the nodes all but the newest so many checkpoints of the job, of which the
// store has some. A dry run only says which. The caller alone writes to the job. It returns the
// bytes set free. The record of l then has what stays on nodes.
func (l *Levels) Prune(keep int, inStore []int, dryRun bool) (removed []int, freed int64, err error) {
	if l.Tier == nil {
		return nil, 0, nil
	}
	all := slices.Clone(inStore)
	for _, v := range l.Versions {
		all = append(all, v.Number)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	kept := all[max(0, len(all)-keep):]
	for _, v := range slices.Concat(l.Versions, l.Stale) {
		if slices.Contains(kept, v.Number) || slices.Contains(removed, v.Number) {
			continue
		}
		bytes := l.bytes(v.Number)
		if !dryRun {
			if err := l.Tier.Reclaim(v.Number); err != nil {
				return removed, freed, err
			}
		}
		removed, freed = append(removed, v.Number), freed+bytes
	}
	slices.Sort(removed)
	if l.Record == nil {
		return removed, freed, nil
	}
	// Older versions leave the record, also those on nodes that are not seen.
	before := len(l.Record.Versions)
	l.Record.Versions = slices.DeleteFunc(l.Record.Versions, func(k nodes.Known) bool {
		return slices.Contains(removed, k.Number) || len(kept) == keep && (keep == 0 || k.Number < kept[0])
	})
	if dryRun || len(l.Record.Versions) == before {
		return removed, freed, nil
	}
	return removed, freed, l.Record.Write(l.job)
}

func (l *Levels) bytes(number int) (n int64) {
	for node := range l.Tier.Nodes() {
		j, err := l.Tier.Job(node)
		if err != nil {
			continue
		}
		entries, _ := j.FS().ReadDir(j.NumberDir(number)) // missing: no entries
		for _, e := range entries {
			if fi, err := j.FS().Stat(filepath.Join(j.NumberDir(number), e.Name())); err == nil {
				n += fi.Size()
			}
		}
	}
	return n
}

// Remove removes the job from all nodes that can be reached. Left are the nodes that may still
// have files of it. A dry run only says what would go.
func (l *Levels) Remove(dryRun bool) (freed int64, left []int, err error) {
	if l.Tier == nil {
		return 0, nil, nil
	}
	for node := range l.Tier.Nodes() {
		bytes, nerr := l.removeFrom(node, dryRun)
		freed += bytes
		if nerr != nil {
			left = append(left, node)
			err = errors.Join(err, nerr)
		}
	}
	return freed, left, err
}

func (l *Levels) removeFrom(node int, dryRun bool) (freed int64, err error) {
	j, err := l.Tier.Job(node)
	if errors.Is(err, fs.ErrNotExist) && l.Record != nil && len(l.Record.Versions) > 0 {
		n := l.Tier.Nodes()[node]
		if _, serr := n.FS.Stat(n.Dir); errors.Is(serr, fs.ErrNotExist) {
			return 0, &nodes.NodeError{Node: node, Whole: true, Err: fmt.Errorf("%s is not there", n.Dir)}
		}
	}
	if errors.Is(err, fs.ErrNotExist) || nodes.Foreign(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if dryRun {
		return j.Size()
	}
	if err := j.Lock(); err != nil {
		return 0, err
	}
	_, freed, err = j.Remove()
	if err != nil {
		_ = j.Unlock() // the removal failed, and may be tried again
	}
	return freed, err
}
