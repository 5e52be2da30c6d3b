package images

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
	"ckpt/image/iosched"
	"ckpt/image/mount"
)

type storageMountFlags struct {
	readOnly, allUsers bool
	policy, trace      string
	cache              cacheFlags
}

// NewStorageMountCommand makes ckpt storage mount.
func NewStorageMountCommand(g *ui.Globals) *cobra.Command {
	var f storageMountFlags
	cmd := &cobra.Command{
		Use:   "mount DIR MNT",
		Short: "Show a directory elsewhere, and order the requests of all programs",
		Long: `Mount the directory DIR on MNT until ^C or SIGTERM. Programs read and write there
as in DIR itself.

With --policy each request of each program waits until the controller of the storage of
DIR lets it go: ckpt storage serve, on this host or another, or else the first of these
mounts, which becomes it, for other hosts with --listen. Its policy counts then. Programs
that compute are never stopped, and without a controller requests go at once. docs/TURNS.md
tells of the policies.

With --trace each call of each program is an event of a trace, with neither strace nor
rights: a process has its rank in MPI, if it has one, else its number.

FILE?view=VIEW is the part of FILE that a view selects, such as 128:4096+12288, every fourth
block of 4 KiB after a header of 128 bytes, or 0:8[1000,1000][:,::4], columns of an array.

Only the user who mounts sees the files; --all-users lets the others in, with the rights
that they have in DIR. It needs /dev/fuse, and fusermount3 (package fuse3) unless root
mounts.

With --cache, open files are in directories of the nodes: fast for small, scattered writes
of many processes. Each of --nodes has a mount with its --number and the same other flags;
they find each other through DIR. A file of DIR is read when the first program opens it, and
written by fsync, and when the last program closes it. A file of a daemon that was killed, or
of a node that was lost, needs ckpt storage recover.`,
		Example: `  ckpt storage mount /scratch /tmp/scratch --policy mlf &
  ckpt storage mount . mnt --trace job.trace &
  ckpt storage mount /scratch /tmp/cached --cache '/nvme/{node}' --nodes 3 --number 1 --neighbours 1 &`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if fi, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
				return ui.AsNotFound(ui.WithHint(err, "the first argument is the directory with the files, the second where to show it"))
			} else if err == nil && !fi.IsDir() {
				return ui.BadUsage(args[0]+" is no directory", "name a directory on the storage")
			}
			return f.run(cmd, g, args[0], args[1])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", noPolicy, "which request goes next: "+strings.Join(requestPolicies(), ", "))
	ui.Choices(flags, "policy", requestPolicies()...)
	flags.StringVar(&f.trace, "trace", "", "events file to write: each call of each program, for ckpt trace")
	flags.BoolVar(&f.readOnly, "read-only", false, "refuse to write")
	flags.BoolVar(&f.allUsers, "all-users", false, "let other users in, with their rights in DIR")
	f.cache.add(cmd)
	return cmd
}

func (f *storageMountFlags) run(cmd *cobra.Command, g *ui.Globals, dir, at string) (err error) {
	o := mount.StorageOptions{ReadOnly: f.readOnly, AllUsers: f.allUsers}
	if !slices.Contains(requestPolicies(), f.policy) {
		return ui.BadUsage(fmt.Sprintf("--policy %q: want %s", f.policy, strings.Join(requestPolicies(), ", ")), "")
	}
	if f.policy != noPolicy && f.cache.dirs != "" {
		return ui.BadUsage("--policy orders requests at the storage of DIR, and with --cache they go to the nodes", "leave one of them out")
	}
	over, err := f.cache.files(cmd, g, dir, &o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, over()) }()
	if f.policy != noPolicy {
		door, err := turns.NewDoor(dir, turns.DoorOptions{Policy: f.policy, Listen: f.cache.listen, Told: func(line string) { g.Warn("%s", line) }})
		if err != nil {
			return ui.AsUsage(err)
		}
		defer door.Close()
		o.Gate = &requestGate{door: door}
	}
	end, err := f.traced(&o, dir, at)
	if err != nil {
		return err
	}
	m, err := mount.Storage(dir, at, o)
	if err != nil {
		return end(MountHint(err, at))
	}
	return end(ServeMount(g, m, dir, at))
}

const noPolicy = "none"

// requestPolicies are the policies of requests: none orders nothing.
func requestPolicies() []string { return append([]string{noPolicy}, iosched.Names()...) }

// A requestGate asks the controller of the storage unit for each request.
type requestGate struct {
	door     *turns.Door
	programs mount.Programs
}

func (o *requestGate) Move(r *mount.Request, part func(offset, bytes, behind int64) error) error {
	p := o.programs.Of(r)
	q := &iosched.Request{App: p.App, User: turns.UserName(p.Uid), Rank: p.Rank, File: r.Name, Offset: r.Offset, Bytes: r.Bytes}
	if p.Rank < 0 {
		q.Rank = p.Process
	}
	if r.Op != mount.Read {
		q.Op = iosched.Write
	}
	return o.door.Move(q, part)
}
