package bench

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"ckpt/image/nodes"
	"ckpt/internal/durable"
)

// dirs lists the directories of the nodes and that of the store.
func (b *bench) dirs() []string {
	var list []string
	for n := range b.o.Nodes {
		list = append(list, b.nodeDir(n))
	}
	return append(list, b.storeDir())
}

// nodeDir returns a directory of its own below that of a node.
func (b *bench) nodeDir(node int) string {
	return filepath.Join(b.setting.NodeDir(node), "ckpt-"+b.job)
}

func (b *bench) storeDir() string { return filepath.Join(b.o.Store, "ckpt-"+b.job) }

// enter makes the directories, and notes those above them that were not there.
func (b *bench) enter() error {
	for _, dir := range b.dirs() {
		for at := dir; ; at = filepath.Dir(at) {
			if _, err := b.o.FS.Stat(at); err == nil || filepath.Dir(at) == at {
				break
			}
			if !slices.Contains(b.made, at) {
				b.made = append(b.made, at)
			}
		}
		if err := durable.MkdirAll(b.o.FS, dir); err != nil {
			return err
		}
	}
	return nil
}

// leave removes all that was written, and the directories that were made.
func (b *bench) leave() (err error) {
	for _, dir := range b.dirs() {
		err = errors.Join(err, durable.RemoveAll(b.o.FS, dir))
	}
	slices.SortFunc(b.made, func(x, y string) int { return len(y) - len(x) })
	for _, dir := range b.made {
		err = errors.Join(err, durable.Remove(b.o.FS, dir))
	}
	return err
}

// slack is what headers, indexes and directories of a rank's file take.
const slack = 64 << 10

// space checks that the way that takes most has space. On which disks the directories are
// is not asked: each must have what is put on it, and all together, if they have the same
// space free, are taken to be on one.
func (b *bench) space(ways []*way) error {
	const unit = 64 << 20 // others write meanwhile
	free := make(map[int64][]string)
	for _, dir := range b.dirs() {
		n, err := b.o.FS.Free(dir)
		if err != nil {
			return err
		}
		free[n/unit] = append(free[n/unit], dir)
	}
	for n, dirs := range free {
		need, of := int64(0), ""
		for _, w := range ways {
			if bytes := b.takes(w, dirs); bytes > need {
				need, of = bytes, w.name
			}
		}
		if have := n * unit; have < need {
			return fmt.Errorf("%w: %s takes %d MiB in %s, where %d MiB are free", durable.ErrStorageFull, of, need>>20, dirs[0], have>>20)
		}
	}
	return nil
}

// takes returns the bytes that a way puts into some directories.
func (b *bench) takes(w *way, dirs []string) (n int64) {
	perNode := float64(w.bytes+slack) * float64(b.o.Ranks) / float64(b.o.Nodes)
	switch {
	case w.store && slices.Contains(dirs, b.storeDir()):
		return int64(perNode * float64(b.o.Nodes))
	case w.store:
		return 0
	case w.twice:
		perNode *= 2
	default:
		perNode *= 1 + overhead(w.scheme)
	}
	nodes := len(dirs)
	if slices.Contains(dirs, b.storeDir()) {
		nodes--
	}
	// A node whose files are recovered has some of them twice for a while.
	return int64(perNode * float64(nodes) * 1.1)
}

// overhead returns the redundancy of a scheme, in bytes for each byte that is protected.
func overhead(s nodes.Scheme) float64 {
	switch {
	case s.Kind() == nodes.None:
		return 0
	case !s.Coded():
		return float64(s.Strength())
	}
	return float64(s.Strength()) / float64(s.Nodes()-s.Strength())
}
