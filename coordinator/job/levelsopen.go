package job

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// Open returns a checkpoint that can be reached from here, 0 for the newest, and the job
// through which its files are read: nodes may be all that has them. It fails as Find does.
func (l *Levels) Open(number int) (*image.Job, *image.Manifest, error) {
	c, err := l.Find(number)
	if err != nil {
		return nil, nil, err
	}
	if c.Stored {
		m, err := l.job.Manifest(c.Number)
		return l.job, m, err
	}
	return l.job.Through(&nodesFS{l.job.FS(), l}), c.Version.Manifest, nil
}

// A nodesFS shows the files of ranks that the nodes of a job have where its store would have
// them. Those of a rank are on its node, copies on others. Manifests say what the store has.
type nodesFS struct {
	vfs.FS
	l *Levels
}

// find returns where a file is.
func (f *nodesFS) find(name string) (vfs.FS, string) {
	rest, err := filepath.Rel(f.l.job.Dir(), name)
	if _, serr := f.FS.Stat(name); serr == nil || err != nil || !filepath.IsLocal(rest) || filepath.Base(rest) == container.ManifestName {
		return f.FS, name
	}
	for node := range f.l.Tier.Nodes() {
		j, err := f.l.Tier.Job(node)
		if err != nil {
			continue
		}
		if _, err := j.FS().Stat(j.FilePath(rest)); err == nil {
			return j.FS(), j.FilePath(rest)
		}
	}
	return f.FS, name
}

// Open implements vfs.FS.
func (f *nodesFS) Open(name string) (vfs.File, error) {
	fsys, name := f.find(name)
	return fsys.Open(name)
}

// Stat implements vfs.FS.
func (f *nodesFS) Stat(name string) (fs.FileInfo, error) {
	fsys, name := f.find(name)
	return fsys.Stat(name)
}

// An UnseenError says that only nodes of a job have a checkpoint, as far as is known, and that
// no directory which is seen from here has it.
type UnseenError struct {
	Job    string
	Number int
	Nodes  []UnseenNode
	Others bool // the job has checkpoints that are seen
}

// An UnseenNode is a node that has a checkpoint, or had it.
type UnseenNode struct {
	Node   int    `json:"node"`
	Host   string `json:"host,omitempty"`
	Dir    string `json:"dir"`
	Reason string `json:"reason"` // why it is not seen
	lost   bool   // its directory is there, without the checkpoint
}

// toldNodes is how many nodes an error names.
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

// Is makes the checkpoint one that was not found.
func (e *UnseenError) Is(target error) bool { return target == image.ErrCheckpointNotFound }

// Hint says how to go on.
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

// Unreached says where a checkpoint is that Unseen lists.
func (l *Levels) Unreached(number int) *UnseenError {
	e := &UnseenError{Job: l.job.Name(), Number: number}
	all, _ := l.Checkpoints() // a store that cannot be read tells of none
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

// missing says why a node is not seen to have a checkpoint.
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
