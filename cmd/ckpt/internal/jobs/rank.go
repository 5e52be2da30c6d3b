package jobs

import (
	"os"

	"github.com/spf13/cobra"

	"ckpt/coordinator/rank"
	"ckpt/internal/vfs"
)

func newRankCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "rank",
		Short:  "Run one rank of a job; started by ckpt launch",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return rank.Run(cmd.Context(), vfs.OS{}, os.Getenv)
		},
	}
}
