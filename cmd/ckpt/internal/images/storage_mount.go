package images

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/mount"
)

type storageMountFlags struct {
	readOnly, allUsers bool
	cache              cacheFlags
}

// NewStorageMountCommand makes ckpt storage mount.
func NewStorageMountCommand(g *ui.Globals) *cobra.Command {
	var f storageMountFlags
	cmd := &cobra.Command{
		Use:   "mount DIR MNT",
		Short: "Show a directory elsewhere, so that requests of all programs pass by",
		Long: `Mount the directory DIR on MNT until ^C or SIGTERM. Programs read and write there
as in DIR itself.

Only the user who mounts sees the files; --all-users lets the others in, with the rights
that they have in DIR. It needs /dev/fuse, and fusermount3 (package fuse3) unless root
mounts.

With --cache, open files are in directories of the nodes: fast for small, scattered writes
of many processes. Each of --nodes has a mount with its --number and the same other flags;
they find each other through DIR. A file of DIR is read when the first program opens it, and
written by fsync, and when the last program closes it. A file of a daemon that was killed, or
of a node that was lost, needs ckpt storage recover.`,
		Example: `  ckpt storage mount /scratch /tmp/scratch &
  ckpt storage mount /scratch /tmp/cached --cache '/nvme/{node}' --nodes 3 --number 1 --neighbours 1 &`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if fi, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
				return ui.AsNotFound(ui.WithHint(err, "the first argument is the directory with the files, the second where to show it"))
			} else if err == nil && !fi.IsDir() {
				return ui.BadUsage(args[0]+" is no directory", "name a directory on the storage")
			}
			o := mount.StorageOptions{ReadOnly: f.readOnly, AllUsers: f.allUsers}
			end, err := f.cache.files(cmd, g, args[0], &o)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			m, err := mount.Storage(args[0], args[1], o)
			if err != nil {
				return MountHint(err, args[1])
			}
			return ServeMount(g, m, args[0], args[1])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.readOnly, "read-only", false, "refuse to write")
	flags.BoolVar(&f.allUsers, "all-users", false, "let other users in, with their rights in DIR")
	f.cache.add(cmd)
	return cmd
}
