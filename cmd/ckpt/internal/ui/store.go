package ui

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// OpenCheckpoint finds the checkpoint JOB@N, or the newest of JOB that can be reached from
// here, in the store or on nodes.
func (g *Globals) OpenCheckpoint(ctx context.Context, target string) (*image.Job, *image.Manifest, *job.Levels, error) {
	name, number, err := SplitTarget(target)
	if err != nil {
		return nil, nil, nil, err
	}
	j, err := g.OpenJob(name)
	if err != nil {
		return nil, nil, nil, err
	}
	levels, unread := g.ReadLevels(ctx, j)
	through, m, err := levels.Open(number)
	if errors.Is(err, image.ErrCheckpointNotFound) && unread != nil {
		return nil, nil, nil, unread
	}
	if unseen := levels.Unseen(); err == nil && number == 0 && len(unseen) > 0 && unseen[len(unseen)-1].Number > m.Number {
		g.Warn("%s: this is checkpoint %d", OneLine(levels.Explain(0, image.ErrCheckpointNotFound).Error()), m.Number)
	}
	return through, m, levels, err
}

// ReadLevels says which checkpoints a job has, and where. Without its description, which the
// error is of, nobody looks at nodes.
func (g *Globals) ReadLevels(ctx context.Context, j *image.Job) (*job.Levels, error) {
	l, err := job.ReadLevels(ctx, j)
	for _, v := range l.Stale {
		g.Warn("nodes %s have another checkpoint %d than the store or the record of the job: it is left out, and the next restart removes it", Numbers(v.Nodes), v.Number)
	}
	return l, err
}

// SplitTarget reads JOB or JOB@N.
func SplitTarget(s string) (job string, number int, err error) {
	job, digits, found := strings.Cut(s, "@")
	if !found {
		return job, 0, nil
	}
	number, err = strconv.Atoi(digits)
	if err != nil || number < 1 {
		return "", 0, BadUsage(fmt.Sprintf("%q: want a checkpoint number after the @", s), "write JOB@3")
	}
	return job, number, nil
}

func (g *Globals) AddStoreFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.Store, "store", defaultStore(), "directory of the checkpoint store; $CKPT_STORE")
}

func (g *Globals) OpenStore() (*image.Store, error) {
	if err := g.CheckStore(); err != nil {
		return nil, err
	}
	store, err := image.OpenStore(vfs.OS{}, g.Store)
	if err != nil {
		return nil, err
	}
	is, err := store.Identity()
	if err == nil && is.ID == "" && is.Original != "" && !g.copyTold {
		g.copyTold = true
		g.Warn("this store is a copy of %s, which stays as it is: the jobs and the nodes of the original belong to that one", is.Original)
	}
	return store, err
}

func (g *Globals) CheckStore() error {
	if g.Store == "" {
		return BadUsage("--store is empty", "name a directory with --store or $CKPT_STORE")
	}
	if err := checkPlace("store ", g.Store); err != nil {
		return err
	}
	dir, err := filepath.Abs(g.Store)
	if err != nil {
		return err
	}
	if node := nodes.NodeAbove(vfs.OS{}, dir); node != "" {
		return BadUsage(fmt.Sprintf("--store %s is in %s, the directory of a node", g.Store, node), "name the store of the job, or another directory")
	}
	return nil
}

func (g *Globals) OpenJob(name string) (*image.Job, error) {
	store, err := g.OpenStore()
	if err != nil {
		return nil, err
	}
	return store.Job(name)
}

// jobNames returns the jobs of the store, none if it cannot be read.
func (g *Globals) jobNames() []string {
	store, err := image.OpenStore(vfs.OS{}, g.Store)
	if err != nil {
		return nil
	}
	names, _ := store.Jobs() // what can be read is better than nothing
	return names
}

// AddGroupFlag adds a flag to a command that may make the store.
func (g *Globals) AddGroupFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.Group, "group", "", "make the store for a group of users, like proj: its members can list, restart and remove jobs")
}

// ShareStore makes the directory of the store for the group that was asked for. Undo removes
// it, if nothing came into it.
func (g *Globals) ShareStore() (undo func(), err error) {
	undo = func() {}
	if g.Group == "" {
		return undo, nil
	}
	gid, err := GroupID(g.Group)
	if err != nil {
		return undo, err
	}
	if err := durable.MkdirAll(vfs.OS{}, filepath.Dir(g.Store)); err != nil {
		return undo, err
	}
	err = os.Mkdir(g.Store, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return undo, g.checkGroup(gid)
	}
	if err != nil {
		return undo, err
	}
	undo = func() { os.Remove(g.Store) }
	if err = os.Chown(g.Store, -1, int(gid)); err == nil {
		err = os.Chmod(g.Store, 0o770|fs.ModeSetgid)
	}
	if err != nil {
		undo()
		return undo, BadUsage(fmt.Sprintf("--group %s: %v", g.Group, err), "you can give a store to a group of yours; id -nG lists them")
	}
	return undo, nil
}

// checkGroup refuses a store that is there and not that of a group.
func (g *Globals) checkGroup(gid uint32) error {
	fi, err := os.Stat(g.Store)
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); vfs.Shared(fi) && ok && st.Gid == gid {
		return nil
	}
	return BadUsage(fmt.Sprintf("--group %s: %s is there and is not shared by that group", g.Group, g.Store),
		fmt.Sprintf("chgrp -R %[1]s %[2]s; chmod -R g+rwX %[2]s; find %[2]s -type d -exec chmod g+s {} +", g.Group, g.Store))
}

// GroupID reads the name or the number of a group.
func GroupID(name string) (uint32, error) {
	if found, err := user.LookupGroup(name); err == nil {
		name = found.Gid
	}
	gid, err := strconv.ParseUint(name, 10, 32)
	if err != nil || gid == 0 {
		return 0, BadUsage(fmt.Sprintf("--group %s: there is no such group", name), "give the name or the number of a group; id lists yours")
	}
	return uint32(gid), nil
}
