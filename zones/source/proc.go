package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/prometheus/procfs"

	"ckpt/zones"
)

// LiveOptions control where processes are found and how stored bytes are counted.
type LiveOptions struct {
	Root    string // mount point of proc; /proc if empty
	Measure Measure
}

// ReadLive reads the memory of process pid. The error wraps os.ErrNotExist if the process
// does not exist or ends meanwhile, and os.ErrPermission if access is denied.
func ReadLive(ctx context.Context, pid int, opt LiveOptions) (*zones.Process, error) {
	t, err := open(opt)
	if err != nil {
		return nil, err
	}
	return t.read(ctx, pid)
}

// A table is a mounted proc file system.
type table struct {
	fs      procfs.FS
	root    string
	measure Measure
	host    string
}

func open(opt LiveOptions) (*table, error) {
	t := &table{root: opt.Root, measure: opt.Measure}
	if t.root == "" {
		t.root = procfs.DefaultMountPoint
	}
	var err error
	if t.fs, err = procfs.NewFS(t.root); err != nil {
		return nil, fmt.Errorf("proc file system %s: %w", t.root, err)
	}
	if t.host, err = os.Hostname(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *table) read(ctx context.Context, pid int) (*zones.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir := t.dir(pid)
	areas, err := t.areas(dir, pid)
	if err != nil {
		return nil, err
	}
	p := &zones.Process{
		Source: dir, Format: zones.FormatProc, PID: pid, Host: t.host, Rank: -1, Areas: areas,
	}
	facts, err := look(ctx, dir, areas, t.measure)
	if err != nil {
		return nil, err
	}
	if err := t.identify(p); err != nil {
		return nil, err
	}
	t.measure.apply(p, facts)
	return p, nil
}

func (t *table) dir(pid int) string { return filepath.Join(t.root, strconv.Itoa(pid)) }

// areas parses the smaps of a process, which is empty if it has no memory.
func (t *table) areas(dir string, pid int) ([]zones.Area, error) {
	name := filepath.Join(dir, "smaps")
	f, err := os.Open(name)
	if err != nil {
		return nil, t.explain(pid, err)
	}
	defer f.Close()
	var text parser
	areas, err := text.parse(name, f)
	if err != nil {
		return nil, t.explain(pid, err)
	}
	if len(areas) == 0 {
		return nil, t.explain(pid, syscall.ESRCH)
	}
	return areas, nil
}

// identify finds the program of the process. It runs last, so that it also notices a
// process that ended before all its areas were listed: the kernel then just ends the
// list.
func (t *table) identify(p *zones.Process) error {
	proc, err := t.fs.Proc(p.PID)
	if err != nil {
		return t.explain(p.PID, err)
	}
	stat, err := proc.Stat()
	if err != nil || hasEnded(stat) {
		return &noProcess{p.PID, "ended while it was read"}
	}
	exe, err := proc.Executable()
	if err != nil {
		return t.explain(p.PID, err)
	}
	p.Name = stat.Comm
	if exe != "" {
		a := zones.Area{Name: exe}
		p.Exe = a.File()
		p.Name = path.Base(p.Exe)
	}
	env, err := proc.Environ()
	if err != nil {
		return t.explain(p.PID, err)
	}
	p.Rank = zones.RankOf(env)
	p.JobRanks, p.NodeRanks = zones.JobOf(env)
	return nil
}

func hasEnded(stat procfs.ProcStat) bool { return stat.State == "Z" || stat.State == "X" }

// kernelThread is PF_KTHREAD of the kernel's include/linux/sched.h.
const kernelThread = 0x200000

// explain says in plain words why a process could not be read.
func (t *table) explain(pid int, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d may be looked at only by its owner or root: %w", pid, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
	default:
		return fmt.Errorf("process %d: %w", pid, err)
	}
	// Processes without memory are still listed.
	proc, err := t.fs.Proc(pid)
	if err != nil {
		return &noProcess{pid, "does not exist"}
	}
	stat, err := proc.Stat()
	switch {
	case err != nil:
		return &noProcess{pid, "ended while it was read"}
	case hasEnded(stat):
		return fmt.Errorf("process %d (%s) has ended; only its exit status is left, for its parent to collect", pid, stat.Comm)
	case stat.Flags&kernelThread != 0:
		return fmt.Errorf("process %d (%s) is a thread of the kernel: it has no memory of its own", pid, stat.Comm)
	}
	return &noProcess{pid, "ended while it was read"}
}

// noProcess is the error for a missing process.
type noProcess struct {
	pid int
	why string
}

func (e *noProcess) Error() string { return fmt.Sprintf("process %d %s", e.pid, e.why) }
func (e *noProcess) Unwrap() error { return fs.ErrNotExist }

// Tree reads process pid and all its descendants, in ascending order of pid. Their
// Group names the tree. Processes that end meanwhile, or cannot be read, are left out
// and named in the list of errors. The last result is set only if nothing could be
// read at all.
//
// A process whose parent has ended belongs to another tree: the kernel does not record
// its origin.
func Tree(ctx context.Context, pid int, opt LiveOptions) ([]*zones.Process, []error, error) {
	t, err := open(opt)
	if err != nil {
		return nil, nil, err
	}
	pids, err := t.descendants(ctx, pid)
	if err != nil {
		return nil, nil, err
	}
	group := t.dir(pid)
	var (
		found  []*zones.Process
		failed []error
		root   error // reason why pid itself could not be read
	)
	for _, n := range pids {
		p, err := t.read(ctx, n)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			failed = append(failed, err)
			if n == pid {
				root = err
			}
			continue
		}
		p.Group = group
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, failed, root
	}
	return found, failed, nil
}

// descendants returns pid and every process below it.
func (t *table) descendants(ctx context.Context, pid int) ([]int, error) {
	all, err := t.fs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("list of processes: %w", err)
	}
	children := make(map[int][]int)
	for _, p := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		stat, err := p.Stat()
		if err != nil {
			continue // it ended after it was listed
		}
		children[stat.PPID] = append(children[stat.PPID], p.PID)
	}
	pids := []int{pid}
	seen := map[int]bool{pid: true}
	for i := 0; i < len(pids); i++ {
		for _, c := range children[pids[i]] {
			if !seen[c] {
				seen[c] = true
				pids = append(pids, c)
			}
		}
	}
	slices.Sort(pids)
	return pids, nil
}
