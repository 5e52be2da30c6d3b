package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/cached"
	"ckpt/coordinator/wire"
	"ckpt/image/filecache"
	"ckpt/image/mount"
)

// cacheFlags say where a mount keeps open files on the nodes, and what a lost node may cost.
type cacheFlags struct {
	dirs, listen, monitor   string
	nodes, node, neighbours int
	records, versions       bool
}

func (f *cacheFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.dirs, "cache", "", "keep open files in these directories of the nodes, like '/nvme/{node}'")
	flags.IntVar(&f.nodes, "nodes", 1, "nodes of the cache, each with a mount")
	flags.IntVar(&f.node, "number", 0, "number of this node, from 0")
	flags.StringVar(&f.listen, "listen", "", "HOST or HOST:PORT of this machine for mounts on other hosts, over TLS")
	flags.BoolVar(&f.records, "records", false, "level 1: keep each request on its own node until it is served")
	flags.IntVar(&f.neighbours, "neighbours", 0, "level 2: that many next nodes keep a journal of the requests of each")
	flags.BoolVar(&f.versions, "versions", false, "level 3: each fsync, and the last close, makes a version of a file")
	flags.StringVar(&f.monitor, "monitor", "", "directory for CSV of what the cache does; of several nodes like 'monitor/{node}'")
}

// files starts the cache of a mount. The function that it returns ends it.
func (f *cacheFlags) files(cmd *cobra.Command, g *ui.Globals, dir string, o *mount.StorageOptions) (end func() error, err error) {
	none := func() error { return nil }
	if f.dirs == "" {
		for _, name := range []string{"nodes", "number", "records", "neighbours", "versions", "monitor"} {
			if cmd.Flags().Changed(name) {
				return none, ui.BadUsage("--"+name+" is of a cache, and there is no --cache", "add --cache '/nvme/{node}'")
			}
		}
		if f.listen != "" && cmd.Flag("policy").Value.String() == noPolicy {
			return none, ui.BadUsage("--listen is of a cache or a policy, and there is neither", "add --cache '/nvme/{node}' or --policy mlf")
		}
		return none, nil
	}
	if err := f.check(o.ReadOnly); err != nil {
		return none, err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return none, err
	}
	dirs, err := filepath.Abs(f.dirs)
	if err != nil {
		return none, err
	}
	monitor, closeMonitor, err := monitorIn(strings.ReplaceAll(f.monitor, cached.NodeVariable, strconv.Itoa(f.node)))
	if err != nil {
		return none, err
	}
	l := filecache.Levels{Records: f.records, Replicas: f.neighbours, Versions: f.versions}
	l.Volatile = l.Versions && !l.Records && l.Replicas == 0 // a version is all that is promised
	s, err := cached.Start(cached.Options{Dir: dir, Dirs: dirs, Nodes: f.nodes, Node: f.node, Levels: l, Listen: f.listen,
		Monitor: monitor, Link: cached.LinkVersion})
	if err != nil {
		return none, errors.Join(cacheHint(err, dir), closeMonitor())
	}
	end = func() error { return errors.Join(s.Close(), closeMonitor()) }
	left, err := s.Unfinished()
	if err != nil {
		return none, errors.Join(err, end())
	}
	if len(left) > 0 {
		g.Warn("%s has files that are unfinished (%s): those of lost programs need ckpt storage recover %s", s.NodeDir(), some(left), dir)
	}
	// With versions a name is another file after each fsync: what is open before and after has its
	// own pages in the kernel.
	o.Files, o.Shared = &cacheFiles{s: s, g: g, named: f.nodes > 1 && !f.versions}, f.nodes > 1 || f.versions
	return end, nil
}

func some(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

func (f *cacheFlags) check(readOnly bool) error {
	switch {
	case readOnly:
		return ui.BadUsage("--cache with --read-only: a cache is for files that are written", "leave out one of them")
	case f.nodes < 1:
		return ui.BadUsage(fmt.Sprintf("--nodes %d: want 1 or more", f.nodes), "")
	case f.node < 0 || f.node >= f.nodes:
		return ui.BadUsage(fmt.Sprintf("--number %d: the nodes are 0 to %d", f.node, f.nodes-1), "count them with --nodes")
	case f.nodes > 1 && !strings.Contains(f.dirs, cached.NodeVariable):
		return ui.BadUsage(fmt.Sprintf("--cache %s: %d nodes need a directory each", f.dirs, f.nodes), "put {node} into it, like '/nvme/{node}'")
	case f.nodes > 1 && f.monitor != "" && !strings.Contains(f.monitor, cached.NodeVariable):
		return ui.BadUsage(fmt.Sprintf("--monitor %s: %d nodes need a directory each", f.monitor, f.nodes), "put {node} into it, like 'monitor/{node}'")
	case f.neighbours < 0 || f.neighbours >= f.nodes:
		return ui.BadUsage(fmt.Sprintf("--neighbours %d: each node has %d other", f.neighbours, f.nodes-1), "count the mounts with --nodes")
	}
	return nil
}

func cacheHint(err error, dir string) error {
	if errors.Is(err, cached.ErrSetting) {
		return ui.WithHint(err, "mount all nodes with the same flags; where these nodes have died, ckpt storage recover "+dir+" and remove "+filepath.Join(dir, cached.DirName, "node-*"))
	}
	return err
}

// cacheFiles are the files of a mount that are open in the cache.
type cacheFiles struct {
	s     *cached.Service
	g     *ui.Globals
	named bool // nodes know a file by its name, so that it may have one only
}

// report tells of an error that programs see as a number only.
func (c *cacheFiles) report(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, filecache.ErrUnfinished), errors.Is(err, filecache.ErrAbandoned):
		c.g.Warn("%v (ckpt storage recover)", err)
	case errors.Is(err, filecache.ErrBeyond):
		return syscall.EFBIG
	case errors.Is(err, filecache.ErrSpans):
		return syscall.EINVAL
	case errors.Is(err, wire.ErrGone):
		c.g.Warn("%v", err)
		return syscall.EIO
	default:
		c.g.Warn("%v", err)
	}
	return err
}

func (c *cacheFiles) Open(name string, flags int, disk *os.File) (mount.File, error) {
	if cached.Hidden(name) {
		return nil, nil
	}
	if c.named && flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		var st syscall.Stat_t
		if err := syscall.Fstat(int(disk.Fd()), &st); err != nil {
			return nil, err
		}
		if st.Nlink > 1 {
			c.g.Warn("%s has %d names: several nodes would each keep its bytes under their own", name, st.Nlink)
			return nil, syscall.EMLINK
		}
	}
	h, err := c.s.Open(context.Background(), name)
	if err != nil {
		return nil, c.report(err)
	}
	return &cachedFile{c, h}, disk.Close()
}

func (c *cacheFiles) Size(name string) (int64, bool) {
	if cached.Hidden(name) {
		return 0, false
	}
	n, open, err := c.s.Look(context.Background(), name)
	return n, open && c.report(err) == nil
}

func (c *cacheFiles) Truncate(name string, size int64) (bool, error) {
	if cached.Hidden(name) {
		return false, nil
	}
	_, open, err := c.s.Look(context.Background(), name)
	if err != nil {
		return false, c.report(err)
	}
	if !open { // the name is one of the newest version, which must not change
		list, err := c.s.Versions(name)
		if err != nil || len(list) == 0 {
			return false, c.report(err)
		}
	}
	h, err := c.s.Open(context.Background(), name)
	if err == nil {
		err = errors.Join(h.Truncate(context.Background(), size), h.Flush(context.Background()))
	}
	return true, c.report(err)
}

// Renaming refuses what is open: its bytes would go to the old name. The versions of both names go
// first: each name then is a file that no version shares.
func (c *cacheFiles) Renaming(from, to string) error {
	for _, name := range []string{from, to} {
		if err := c.idle(name); err != nil {
			return err
		}
		if err := c.s.RemoveVersions(name); err != nil {
			return c.report(err)
		}
	}
	return nil
}

// Linking refuses what is open, too: the new name would not have its bytes.
func (c *cacheFiles) Linking(name string) error { return c.idle(name) }

func (c *cacheFiles) idle(name string) error {
	if name == "" || cached.Hidden(name) {
		return nil
	}
	idle, err := c.s.Idle(context.Background(), name)
	if err == nil && !idle {
		err = syscall.EBUSY
	}
	return err
}

func (c *cacheFiles) Removing(name string) error {
	if cached.Hidden(name) {
		return nil
	}
	if err := c.idle(name); err != nil {
		return err
	}
	return c.report(c.s.RemoveVersions(name))
}

// A cachedFile is one that a program has open.
type cachedFile struct {
	of *cacheFiles
	*filecache.Handle
}

func (f *cachedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.Handle.ReadAt(b, off)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, f.of.report(err)
}

func (f *cachedFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.Handle.WriteAt(b, off)
	return n, f.of.report(err)
}

// WriteIf implements mount.ConditionalFile.
func (f *cachedFile) WriteIf(b []byte, off int64, mask byte) (bool, error) {
	written, err := f.Handle.WriteIf(b, off, mask)
	return written, f.of.report(err)
}

func (f *cachedFile) Truncate(size int64) error {
	return f.of.report(f.Handle.Truncate(context.Background(), size))
}

func (f *cachedFile) Size() (int64, error) {
	n, err := f.Handle.Size(context.Background())
	return n, f.of.report(err)
}

func (f *cachedFile) Flush() error { return f.of.report(f.Handle.Flush(context.Background())) }
func (f *cachedFile) Sync() error  { return f.of.report(f.Handle.Sync(context.Background())) }
func (f *cachedFile) Close() error { return f.Flush() }

// statisticsInterval is the time of a line of statistics.
const statisticsInterval = 10 * time.Second

// monitorIn returns a monitor that writes into a directory: global.csv, statistics.csv and
// manager-FILE.csv.
func monitorIn(dir string) (*filecache.Monitor, func() error, error) {
	nothing := func() error { return nil }
	if dir == "" {
		return nil, nothing, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, nothing, err
	}
	m := &monitorFiles{dir: dir, files: map[string]*os.File{}}
	monitor := &filecache.Monitor{Level: filecache.Info, Interval: statisticsInterval, Global: m.file("global"), Statistics: m.file("statistics"),
		Manager: func(file string, _ int) io.Writer { return m.file("manager-" + url.PathEscape(file)) }}
	return monitor, func() error { return errors.Join(monitor.Flush(), m.close()) }, m.err
}

// monitorFiles are the open CSV files of a monitor. It writes to one at a time.
type monitorFiles struct {
	dir   string
	files map[string]*os.File
	err   error // the first
}

func (m *monitorFiles) file(name string) io.Writer {
	f := m.files[name]
	if f != nil {
		return f
	}
	f, err := os.Create(filepath.Join(m.dir, name+".csv"))
	if err != nil {
		m.err = cmp.Or(m.err, err)
		return nil
	}
	m.files[name] = f
	return f
}

func (m *monitorFiles) close() error {
	errs := []error{m.err}
	for _, f := range m.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
