package proc

import (
	"context"
	"fmt"
	"slices"

	"ckpt/zones"
)

// Tree reads process pid and all its descendants, in ascending order of pid. Their
// Group names the tree. Processes that end meanwhile, or cannot be read, are left out
// and named in the list of errors. The last result is set only if nothing could be
// read at all.
//
// A process whose parent has ended belongs to another tree: the kernel does not record
// its origin.
func Tree(ctx context.Context, pid int, opt Options) ([]*zones.Process, []error, error) {
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
