package cached

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/image/filecache"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A Setting is what all daemons of a cache agree on. It is in the directory that they cache, and
// with it the token that opens their connections.
type Setting struct {
	Nodes  int              `json:"nodes"`
	Dirs   string           `json:"dirs"` // of the nodes: {node} stands for the number
	Levels filecache.Levels `json:"levels"`
	Stripe int64            `json:"stripe"`
	Token  string           `json:"token"`
}

// NodeVariable stands for the number of a node in Setting.Dirs.
const NodeVariable = "{node}"

// NodeDir returns the directory of a node.
func (s Setting) NodeDir(node int) string {
	return strings.ReplaceAll(s.Dirs, NodeVariable, strconv.Itoa(node))
}

func (s Setting) filesDir(node int) string { return filepath.Join(s.NodeDir(node), "files") }
func (s Setting) lockPath(node int) string { return filepath.Join(s.NodeDir(node), "lock") }

const (
	// DirName is where daemons meet, in the directory that they cache.
	DirName      = ".ckpt-cache"
	settingName  = "setting"
	lockName     = "lock"
	maxSetting   = 64 << 10
	maxForgotten = 64 << 20
)

// ErrSetting says that daemons of a directory do not agree.
var ErrSetting = errors.New("it is cached with other settings")

// ErrNoCache says that a directory has never been cached.
var ErrNoCache = errors.New("no cache of it is known")

// A place is the directory in the storage where daemons meet.
type place struct {
	fs  vfs.FS
	dir string
}

func placeIn(fsys vfs.FS, dir string) place { return place{fsys, filepath.Join(dir, DirName)} }

func (p place) nodePath(node int) string { return filepath.Join(p.dir, fmt.Sprintf("node-%d", node)) }

func (p place) lostPath(node int) string { return filepath.Join(p.dir, fmt.Sprintf("lost-%d", node)) }

// withoutDir takes the place of a lost node's directory while files are recovered.
func (p place) withoutDir(node int) string {
	return filepath.Join(p.dir, fmt.Sprintf("without-%d", node))
}

// forget notes that a file was recovered without a node. Should its directory turn up again, what
// that has of the file is older.
func (p place) forget(node int, name string) error {
	list, err := p.forgotten(node)
	if err != nil || slices.Contains(list, name) {
		return err
	}
	return durable.ReplaceSealed(p.fs, p.lostPath(node), append(list, name))
}

func (p place) forgotten(node int) (list []string, err error) {
	err = durable.ReadSealed(p.fs, p.lostPath(node), maxForgotten, &list)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return list, err
}

// clear removes from the directory of a node what is forgotten.
func (p place) clear(node int, dir string) error {
	list, err := p.forgotten(node)
	if err != nil || len(list) == 0 {
		return err
	}
	for _, name := range list {
		if err := durable.RemoveAll(p.fs, filepath.Join(dir, url.PathEscape(name))); err != nil {
			return err
		}
	}
	return durable.Remove(p.fs, p.lostPath(node))
}

// A seat is where a daemon listens.
type seat struct {
	Address string `json:"address"`
	Host    string `json:"host"`
}

func (p place) read() (s Setting, err error) {
	err = durable.ReadSealed(p.fs, filepath.Join(p.dir, settingName), maxSetting, &s)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", filepath.Dir(p.dir), ErrNoCache)
	}
	return s, err
}

// agree returns the setting of all daemons, which the first one makes. While no daemon is there,
// a new setting takes the place of an old one.
func (p place) agree(want Setting) (Setting, error) {
	if err := durable.MkdirAll(p.fs, p.dir); err != nil {
		return want, err
	}
	lock, err := p.lock()
	if err != nil {
		return want, err
	}
	defer lock.Close()
	now, err := p.read()
	if err != nil && !errors.Is(err, ErrNoCache) {
		return want, err
	}
	want.Token = now.Token
	if err == nil && now == want {
		return now, nil
	}
	if err == nil {
		if others := p.seats(now.Nodes); len(others) > 0 {
			return want, fmt.Errorf("%w by nodes %v: %v, not %v", ErrSetting, others, now, want)
		}
	}
	want.Token = rand.Text()
	return want, durable.ReplaceSealed(p.fs, filepath.Join(p.dir, settingName), want)
}

func (s Setting) String() string {
	levels, _ := json.Marshal(s.Levels)
	return fmt.Sprintf("%d nodes at %s, levels %s", s.Nodes, s.Dirs, levels)
}

// lock waits its turn: another daemon holds the lock for a moment.
func (p place) lock() (lock io.Closer, err error) {
	for range 500 {
		lock, err = p.fs.Lock(filepath.Join(p.dir, lockName))
		if !errors.Is(err, vfs.ErrLocked) {
			break
		}
		pause()
	}
	return lock, err
}

// seats returns the nodes whose daemons listen, or were killed.
func (p place) seats(nodes int) (list []int) {
	for i := range nodes {
		if _, err := p.fs.Stat(p.nodePath(i)); err == nil {
			list = append(list, i)
		}
	}
	return list
}

func (p place) find(node int) (s seat, err error) {
	err = durable.ReadSealed(p.fs, p.nodePath(node), maxSetting, &s)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("node %d is not mounted: %w", node, err)
	}
	return s, err
}
