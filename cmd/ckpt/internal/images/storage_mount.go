package images

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/mount"
)

type storageMountFlags struct{ readOnly, allUsers bool }

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
mounts.`,
		Example: `  ckpt storage mount /scratch /tmp/scratch &`,
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if fi, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
				return ui.AsNotFound(ui.WithHint(err, "the first argument is the directory with the files, the second where to show it"))
			} else if err == nil && !fi.IsDir() {
				return ui.BadUsage(args[0]+" is no directory", "name a directory on the storage")
			}
			m, err := mount.Storage(args[0], args[1], mount.StorageOptions{ReadOnly: f.readOnly, AllUsers: f.allUsers})
			if err != nil {
				return MountHint(err, args[1])
			}
			return ServeMount(g, m, args[0], args[1])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.readOnly, "read-only", false, "refuse to write")
	flags.BoolVar(&f.allUsers, "all-users", false, "let other users in, with their rights in DIR")
	return cmd
}
