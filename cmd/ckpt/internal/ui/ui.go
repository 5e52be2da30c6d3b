// Package ui is how the commands of ckpt talk to the user: the flags that several
// share, tables, progress, units, files that they write, the events of a job on the
// console, and the exit statuses. It is the only place that words hints.
package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
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
// error is about, nodes are not looked at.
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
	cmd.Flags().StringVar(&g.Store, "store", DefaultStore(), "directory of the checkpoint store; $CKPT_STORE")
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

func (g *Globals) CheckStore() error { return checkStore("--store", g.Store, " or $CKPT_STORE") }

// checkStore refuses what a flag names where no store can be.
func checkStore(flag, store, or string) error {
	if store == "" {
		return BadUsage(flag+" is empty", "name a directory with "+flag+or)
	}
	if err := checkPlace("store ", store); err != nil {
		return err
	}
	dir, err := filepath.Abs(store)
	if err != nil {
		return err
	}
	if node := nodes.NodeAbove(vfs.OS{}, dir); node != "" {
		return BadUsage(fmt.Sprintf("%s %s is in %s, the directory of a node", flag, store, node), "name the store of the job, or another directory")
	}
	return nil
}

// OtherStore opens a second store, beside the one of --store. One that is not there is made, or
// nil.
func OtherStore(flag, dir string, create bool) (*image.Store, error) {
	if err := checkStore(flag, dir, ""); err != nil {
		return nil, err
	}
	if create {
		return image.CreateStore(vfs.OS{}, dir)
	}
	store, err := image.OpenStore(vfs.OS{}, dir)
	if errors.Is(err, image.ErrNoStore) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return store, err
}

func (g *Globals) OpenJob(name string) (*image.Job, error) {
	store, err := g.OpenStore()
	if err != nil {
		return nil, err
	}
	return store.Job(name)
}

// jobNames returns the jobs of the store, nil if it cannot be read.
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
	if vfs.Mounted(g.Store) {
		return undo, BadUsage("--group is for directories", "the policies of the bucket say who may use a store in an object storage")
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

// checkGroup refuses a store that is there and belongs to another group.
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

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Globals are the settings that all commands share.
type Globals struct {
	Streams
	JSON     bool
	Quiet    bool
	Verbose  bool
	Store    string
	Group    string // that the store is made for
	copyTold bool   // the user knows that the store is a copy

	// Within another program than a shell, Result takes the result of a command in place of
	// the output, and Advance how far the command is.
	Result  func(v any)
	Advance func(what string, done, total int64)
}

// Noticing keeps the first error of a writer, and writes nothing more after it. So
// callers may ignore what Printf and Table return: the command fails in the end.
type Noticing struct {
	W   io.Writer
	Err error
}

// Unwrap returns the stream behind it.
func (n *Noticing) Unwrap() io.Writer { return n.W }

func (n *Noticing) Write(p []byte) (k int, err error) {
	if n.Err == nil {
		k, n.Err = n.W.Write(p)
	}
	return k, n.Err
}

// ErrDeclined ends a command whose question was not answered with yes.
var ErrDeclined = errors.New("nothing was removed")

// Asks reports whether somebody can answer a question: the input is a terminal.
func (g *Globals) Asks() bool {
	in, ok := g.In.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}

// ask writes a question to the terminal, also if standard error goes to a file.
func (g *Globals) ask(question string) {
	if IsTerminal(g.Err) {
		fmt.Fprint(g.Err, question)
		return
	}
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprint(g.Err, question)
		return
	}
	defer tty.Close()
	fmt.Fprint(tty, question)
}

// Confirm asks a question. Without a yes it fails with ErrDeclined, and with the error of
// ctx if that ends first.
func (g *Globals) Confirm(ctx context.Context, question string) error {
	g.ask(question + " [y/N] ")
	answers := make(chan string, 1)
	go func() { // it reads on if ctx ends; the command does not
		line, err := bufio.NewReader(g.In).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answers <- line
	}()
	select {
	case line := <-answers:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return ErrDeclined
	case <-ctx.Done():
		fmt.Fprintln(g.Err)
		return ctx.Err()
	}
}

// Numbers lists ascending numbers as ranges, such as 1-3, 5. It leaves the middle out of
// a long list.
func Numbers(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		part := fmt.Sprint(list[i])
		if k > i {
			part = fmt.Sprintf("%d-%d", list[i], list[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	if n := len(parts); n > 6 {
		parts = append(append(parts[:3:3], "..."), parts[n-2:]...)
	}
	return strings.Join(parts, ", ")
}

// A Wait is how long a command waits for a job that another process has.
type Wait struct{ text string }

const (
	waitFlag    = "wait"
	waitForever = "forever"
	waitPause   = 200 * time.Millisecond
)

// AddFlags adds --wait to a command that needs a job for itself.
func (w *Wait) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&w.text, waitFlag, "", "if another process has the job, wait until it has ended, or so long: --wait=10m")
	f.Lookup(waitFlag).NoOptDefVal = waitForever
}

// For does something with a job, and again while another process has the job and there is
// time. The error says which process that is.
func (w *Wait) For(ctx context.Context, g *Globals, job string, do func() error) error {
	limit, err := w.limit()
	if err != nil {
		return err
	}
	err = do()
	for end, told := time.Now().Add(limit), false; errors.Is(err, image.ErrInUse); err = do() {
		if !time.Now().Before(end) {
			return g.holder(ctx, job, err)
		}
		if !told {
			g.Warn("waiting for job %s: %v", job, g.holder(ctx, job, err))
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitPause):
		}
	}
	return err
}

// limit is the time to wait, 0 for not at all.
func (w *Wait) limit() (time.Duration, error) {
	switch w.text {
	case "":
		return 0, nil
	case waitForever:
		const years = 100
		return years * 365 * 24 * time.Hour, nil
	}
	return ParseDuration("--"+waitFlag, w.text)
}

// holder says which process has a job, as far as that is known.
func (g *Globals) holder(ctx context.Context, job string, err error) error {
	const wait = "--wait waits until it has ended"
	j, oerr := g.OpenJob(job)
	if oerr != nil {
		return err
	}
	client, cerr := wire.Contact(ctx, j)
	if cerr == nil {
		client.Close()
		return WithHint(err, fmt.Sprintf("the job is running: ckpt stop %s ends it; %s", job, wait))
	}
	if errors.As(cerr, new(*wire.UnreachableError)) {
		return OfJob(job, cerr)
	}
	return WithHint(err, "another command has the job now; "+wait)
}

// OfJob says which job an error is about.
func OfJob(name string, err error) error { return fmt.Errorf("job %s: %w", name, err) }
