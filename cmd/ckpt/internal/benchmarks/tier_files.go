package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/filecache"
	"ckpt/image/filecache/workload"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// tierFiles runs a workload on real files, in the cache and in the store.
type tierFiles struct {
	ranks, nodes int
	bytes        int64    // of a rank
	dirs         []string // of the nodes, and of the store
	made         []string // directories above them that were not there
	runs         int      // so far
	table        tierTable
	lines        any // as --json has them
}

// fileWay is how ranks reach a file. A durable write is on the disk when it returns.
type fileWay struct {
	name    string
	plain   bool
	durable bool
	levels  filecache.Levels
}

var fileWays = []fileWay{
	{name: "file", plain: true},
	{name: "cache", levels: filecache.Levels{Volatile: true}},
	{name: "file, durable", plain: true, durable: true},
	{name: "cache, durable", durable: true},
	{name: "with records", levels: filecache.Levels{Records: true}},
	{name: "with a journal", levels: filecache.Levels{Replicas: 1}},
	{name: "with versions", levels: filecache.Levels{Versions: true}},
	{name: "with all three", levels: filecache.Levels{Records: true, Replicas: 1, Versions: true}},
}

// fileRuns are the workloads that run on files.
var fileRuns = map[string]func(m *tierFiles, ctx context.Context) error{
	"blocks":      (*tierFiles).blocks,
	"random-walk": (*tierFiles).walk,
}

func runTierFiles(ctx context.Context, g *ui.Globals, o *tierOptions) (err error) {
	run := fileRuns[o.workload]
	if _, err := workloadIndex(o.workload); err != nil {
		return err
	}
	if run == nil {
		return ui.BadUsage(fmt.Sprintf("--workload %q: it runs on a described machine only", o.workload), "add --model lap06")
	}
	b, err := o.options()
	if err != nil {
		return err
	}
	m := &tierFiles{ranks: o.ranks, nodes: o.nodes, bytes: b.Bytes}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	defer func() { err = errors.Join(err, m.leave()) }()
	if err := m.enter(b.Local, b.Store); err != nil {
		return err
	}
	if err := run(m, ctx); err != nil {
		return err
	}
	return g.Show(m.report(o.workload), func() error {
		g.Printf("%s on %s, files of this host\n\n", ui.Count(m.ranks, "rank"), ui.Count(m.nodes, "node"))
		return g.Table(m.table.header, m.table.rows)
	})
}

// filesReport is a workload on files, as --json prints it.
type filesReport struct {
	Workload string `json:"tier_workload"`
	Ranks    int    `json:"ranks"`
	Nodes    int    `json:"nodes"`
	Bytes    int64  `json:"each_rank_bytes"`
	Lines    any    `json:"files_list"`
}

func (m *tierFiles) report(name string) filesReport {
	return filesReport{name, m.ranks, m.nodes, m.bytes, m.lines}
}

// enter makes a directory of its own below that of each node and that of the store.
func (m *tierFiles) enter(local, store string) error {
	setting := nodes.Setting{Dir: local}
	for node := range m.nodes {
		if err := m.below(setting.NodeDir(node)); err != nil {
			return err
		}
	}
	return m.below(store)
}

func (m *tierFiles) below(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		m.made = append(m.made, at)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	own, err := os.MkdirTemp(dir, "ckpt-bench-")
	if err == nil {
		m.dirs = append(m.dirs, own)
	}
	return err
}

// leave removes what is there.
func (m *tierFiles) leave() (err error) {
	for _, dir := range m.dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	slices.SortFunc(m.made, func(x, y string) int { return len(y) - len(x) })
	for _, dir := range m.made {
		if gone := os.Remove(dir); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// target returns a way to reach a file in directories that have nothing yet.
func (m *tierFiles) target(name string) (workload.Target, error) {
	way := fileWays[slices.IndexFunc(fileWays, func(w fileWay) bool { return w.name == name })]
	m.runs++
	c := &filecache.Cache{}
	for i, dir := range m.dirs {
		dir = filepath.Join(dir, fmt.Sprint(m.runs))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return workload.Target{}, err
		}
		if i == m.nodes {
			c.Store = filecache.Store{FS: vfs.OS{}, Dir: dir}
		} else {
			c.Nodes = append(c.Nodes, filecache.Node{FS: vfs.OS{}, Dir: dir})
		}
	}
	if way.plain {
		return workload.Plain(c.Store, m.ranks, way.durable), nil
	}
	opt := filecache.Options{Levels: way.levels}
	opt.Levels.Replicas = min(opt.Levels.Replicas, m.nodes-1)
	for rank := range m.ranks {
		opt.Processes = append(opt.Processes, rank*m.nodes/m.ranks)
	}
	return workload.Cached(c, opt), nil
}

// fileBlock is a size of requests to files.
type fileBlock struct {
	Bytes         int64   `json:"request_bytes"`
	CachedRead    float64 `json:"cached_read_bytes_per_s"`
	FileRead      float64 `json:"file_read_bytes_per_s"`
	CachedWrite   float64 `json:"cached_write_bytes_per_s"`
	FileWrite     float64 `json:"file_write_bytes_per_s"`
	CachedDurable float64 `json:"cached_durable_bytes_per_s"`
	FileDurable   float64 `json:"file_durable_bytes_per_s"`
}

// Requests that are made of each size, and of those that wait for the disk.
const (
	fileRequests    = 2000
	durableRequests = 200
)

// blocks varies the size of requests.
func (m *tierFiles) blocks(ctx context.Context) error {
	m.table.header = []string{"|block", "|read MB/s, cache", "|file", "|write MB/s, cache", "|file", "|durable write MB/s, cache", "|file"}
	var lines []fileBlock
	for bytes := int64(512); bytes <= 64<<10; bytes *= 4 {
		line := fileBlock{Bytes: bytes}
		row := []string{ui.Size(bytes)}
		for _, x := range []struct {
			rate  *float64
			way   string
			write bool
		}{
			{&line.CachedRead, "cache", false},
			{&line.FileRead, "file", false},
			{&line.CachedWrite, "cache", true},
			{&line.FileWrite, "file", true},
			{&line.CachedDurable, "cache, durable", true},
			{&line.FileDurable, "file, durable", true},
		} {
			requests := int64(fileRequests)
			if strings.HasSuffix(x.way, "durable") {
				requests = durableRequests
			}
			target, err := m.target(x.way)
			if err != nil {
				return err
			}
			r, err := workload.Blocks{Requests: max(requests, int64(m.ranks)), Bytes: bytes, Write: x.write}.Run(ctx, target)
			if err != nil {
				return err
			}
			*x.rate = r.Rate()
			row = append(row, fmt.Sprintf("%.1f", *x.rate/1e6))
		}
		lines = append(lines, line)
		m.table.row(row...)
	}
	m.lines = lines
	return nil
}

// fileIterations are run; a sync follows half of them.
const fileIterations = 20

// walk compares a file of the store with the cache, under each level.
func (m *tierFiles) walk(ctx context.Context) error {
	m.table.header = []string{"file", "|opening and closing", "|an iteration", "|a sync", fmt.Sprintf("|%d iterations", fileIterations)}
	var lines []walkLine
	for _, way := range fileWays {
		target, err := m.target(way.name)
		if err != nil {
			return err
		}
		w := workload.Walk{Iterations: fileIterations, Size: m.bytes * int64(m.ranks), Bytes: 512, Steps: 100_000, SyncEvery: fileIterations / 2}
		r, err := w.Run(ctx, target)
		if err != nil {
			return err
		}
		line := walkLine{
			Access: way.name, Open: (r.Open + r.Close).Seconds(), Iteration: (r.Run - r.Sync).Seconds() / fileIterations,
			Sync: r.Sync.Seconds() / float64(max(1, r.Syncs)), Run: (r.Open + r.Run + r.Close).Seconds(),
		}
		lines = append(lines, line)
		m.table.row(line.Access, ui.Seconds(line.Open), ui.Seconds(line.Iteration), ui.Seconds(line.Sync), ui.Seconds(line.Run))
	}
	m.lines = lines
	return nil
}
