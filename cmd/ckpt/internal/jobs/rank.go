package jobs

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/coordinator/process"
	"ckpt/coordinator/rank"
	"ckpt/coordinator/wire"
	"ckpt/internal/vfs/slowfs"
)

// NewRankCommand returns the command of a rank.
func NewRankCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "rank [JOB [R/N]]",
		Short:  "Run one rank of a job; started by ckpt launch",
		Hidden: true,
		Args:   cobra.MaximumNArgs(2), // for those who read lists of processes
		RunE: func(cmd *cobra.Command, args []string) error {
			if os.Getenv(process.EnvClient) != "" {
				if detached, err := process.Detach(); !detached {
					return err
				}
			}
			// A batch system signals all processes of a job. The coordinator answers,
			// and needs its ranks for the last checkpoint.
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
			// ps and top show 15 bytes of it. It is no matter if that fails.
			_ = os.WriteFile("/proc/self/comm", []byte(shortName(args)), 0)
			fsys, err := slowfs.FromEnvironment(os.Getenv)
			if err != nil {
				return err
			}
			return rank.Run(cmd.Context(), fsys, os.Getenv)
		},
	}
}

// shortName names a rank: what tells it from others comes first. A launcher of MPI gives
// all ranks the same arguments, and the number in the environment.
func shortName(args []string) string {
	number := ""
	for _, name := range wire.RankVariables {
		if number == "" {
			number = os.Getenv(name)
		}
	}
	switch len(args) {
	case 0:
		return "ckpt " + number
	case 1:
		return fmt.Sprintf("ckpt %s %s", number, args[0])
	}
	return fmt.Sprintf("ckpt %s %s", args[1], args[0])
}
