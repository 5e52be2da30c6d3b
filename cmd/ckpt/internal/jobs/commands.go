// Package jobs has the commands that plan, run and control jobs.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/process"
	"ckpt/coordinator/rank"
	"ckpt/coordinator/wire"
	"ckpt/internal/vfs/slowfs"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command {
	return []*cobra.Command{newLaunchCommand(g), newRestartCommand(g), newCheckpointCommand(g), newStopCommand(g),
		newStatusCommand(g), ui.Moved("top", "status --watch"), newLayoutCommand(g), ui.Moved("plan", "layout"), newTuneCommand(g), newSDKCommand(g), NewRankCommand()}
}

const sdkHelp = `Print the source with which an MPI program takes checkpoints.

  c        ckpt.h, a header for C99 and C++: include it after mpi.h
  c++      ckpt.hpp, a header for C++17: containers that grow; it stands on ckpt.h
  fortran  ckpt.f90, a Fortran 2018 module; it stands on ckpt.h
  python   ckpt.py, a module for numpy arrays; it needs no compiler
  pmpi     ckpt_pmpi.c, a library to preload or link that counts messages, for
           ckpt predict fit --messages

The interfaces of other libraries, which stand on ckpt.h:

  veloc, veloc-c++   veloc.h; veloc.hpp for C++17, which includes it
  fti, fti-fortran   fti.h; fti.f90, a module, which needs it
  scr, scr-fortran   scr.h; scrf.h, which needs it

Views of files, which need no job (docs/STORAGE.md):

  view c        ckpt_view.h, a header for C99 and C++: strided and nested blocks
                of a file, read and written with few calls
  view python   ckpt_view.py, the same for Python

A program in Fortran links ckpt.h as well, compiled once:

  mpicc -c -x c -include mpi.h ckpt.h -o ckpt_c.o
  mpifort ckpt.f90 heat.f90 ckpt_c.o -o heat

The sources need no other library. docs/PROGRAMS.md leads from a program to a
restarted job.`

func newSDKCommand(g *ui.Globals) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "sdk [view] LANGUAGE",
		Short: "Print the source that a program includes to take checkpoints",
		Long:  sdkHelp,
		Example: `  ckpt sdk c -o ckpt.h
  ckpt sdk fortran -o ckpt.f90
  ckpt sdk python > ckpt.py
  ckpt sdk view c -o ckpt_view.h`,
		Args:      cobra.RangeArgs(1, 2),
		ValidArgs: process.Languages(),
		RunE: func(cmd *cobra.Command, args []string) error {
			language := strings.Join(args, " ")
			text, err := process.Source(language)
			if err != nil {
				hint := "like ckpt sdk c -o ckpt.h"
				if near := ui.Nearest(language, process.Languages()); near != "" {
					hint = "did you mean " + near + "?"
				}
				return ui.BadUsage(err.Error(), hint)
			}
			return g.WriteFile(cmd.Context(), out, func(w io.Writer) error {
				_, err := io.WriteString(w, text)
				return err
			})
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "-", "the file to write; - is standard output")
	return cmd
}

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

// contact connects to the coordinator of a running job.
func contact(ctx context.Context, g *ui.Globals, name string) (*wire.Client, error) {
	job, err := g.OpenJob(name)
	if err != nil {
		return nil, err
	}
	client, err := wire.Contact(ctx, job)
	if err != nil {
		return nil, ui.OfJob(name, err)
	}
	return client, nil
}

func newCheckpointCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "checkpoint JOB",
		Short:   "Take a checkpoint of a running job now",
		Long:    "Take a checkpoint of a running job at the next iteration boundary, and wait until it is durable.",
		Example: "  ckpt checkpoint bt.S.4-1 --json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runCheckpoint(cmd.Context(), g, args[0]) },
	}
	g.AddStoreFlag(cmd)
	return cmd
}

func runCheckpoint(ctx context.Context, g *ui.Globals, job string) error {
	client, err := contact(ctx, g, job)
	if err != nil {
		return err
	}
	defer client.Close()
	cp, err := client.Checkpoint()
	if err != nil {
		return fmt.Errorf("job %s: %w", job, err)
	}
	return g.PrintCheckpoint(cp)
}

func newStopCommand(g *ui.Globals) *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use:   "stop JOB",
		Short: "Stop a running job after a last checkpoint",
		Long: `Stop a running job after a last checkpoint, so that ckpt restart continues it
there. If that checkpoint fails, the job continues.`,
		Example: "  ckpt stop bt.S.4-1\n  ckpt stop bt.S.4-1 --now",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return runStop(cmd.Context(), g, args[0], now) },
	}
	cmd.Flags().BoolVar(&now, "now", false, "stop at once, without a checkpoint")
	g.AddStoreFlag(cmd)
	return cmd
}

func runStop(ctx context.Context, g *ui.Globals, j string, now bool) error {
	client, err := contact(ctx, g, j)
	if err != nil {
		return err
	}
	defer client.Close()
	cp, err := client.Stop(now)
	if errors.Is(err, wire.ErrNotRunning) {
		return fmt.Errorf("job %s: %w", j, err)
	}
	if err != nil {
		return ui.WithHint(fmt.Errorf("job %s was not stopped: %w", j, err), "ckpt stop "+j+" --now stops it without a checkpoint")
	}
	if err := awaitEnd(ctx, g, j); err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(struct {
			Job        string               `json:"job"`
			Stopped    bool                 `json:"stopped"`
			Checkpoint *job.CheckpointEvent `json:"last_checkpoint"`
		}{j, true, cp})
	}
	if cp == nil {
		return g.Printf("%s stopped\n", j)
	}
	return g.Printf("%s stopped after checkpoint %d%s\n", j, cp.Number, ui.At(cp.Iteration))
}

// awaitEnd waits until the coordinator has left, so that ckpt restart works as soon
// as ckpt stop has returned.
func awaitEnd(ctx context.Context, g *ui.Globals, name string) error {
	job, err := g.OpenJob(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := wire.AwaitEnd(ctx, job); errors.Is(err, context.DeadlineExceeded) {
		g.Warn("%s has stopped, but its coordinator is still cleaning up", name)
	} else if err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}

// endTime is how long the coordinator of a stopped job may take to clean up.
const endTime = 10 * time.Second
