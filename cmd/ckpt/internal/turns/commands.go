// Package turns has the commands of storage turns: a controller, a look at it, and
// commands that take part.
package turns

import (
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command { return []*cobra.Command{newStorageCommand(g)} }

func newStorageCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "Give jobs that share a storage turns at it",
		Long: `Let the jobs and commands that share a disk or server use it one after the other.
Side by side each of them is slow, since the storage moves between their files. One
after the other, each is done sooner on average.

ckpt storage serve is the controller of one storage unit, in a terminal of its own;
ckpt launch --storage-turns takes part with a job, ckpt storage turn -- COMMAND with any
command, and ckpt storage status shows whose turn it is. docs/TURNS.md explains how.`,
		Example: `  ckpt storage serve /scratch
  ckpt storage turn /scratch -- tar cf results.tar results
  ckpt storage status /scratch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newServeCommand(g), newStatusCommand(g), newTurnCommand(g), newGuardCommand())
	return cmd
}
