package jobs

import (
	"io"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/client"
)

const sdkHelp = `Print the source with which an MPI program takes checkpoints.

  c        ckpt.h, a header for C99 and C++: include it after mpi.h
  fortran  ckpt.f90, a Fortran 2018 module; it stands on ckpt.h
  python   ckpt.py, a module for numpy arrays; it needs no compiler
  veloc    veloc.h, VeloC's memory-based interface; it stands on ckpt.h

A program in Fortran links ckpt.h as well, compiled once:

  mpicc -c -x c -include mpi.h ckpt.h -o ckpt_c.o
  mpifort ckpt.f90 heat.f90 ckpt_c.o -o heat

The sources need no other library. docs/PROGRAMS.md leads from a program to a
restarted job.`

func newSDKCommand(g *ui.Globals) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "sdk LANGUAGE",
		Short: "Print the source that a program includes to take checkpoints",
		Long:  sdkHelp,
		Example: `  ckpt sdk c -o ckpt.h
  ckpt sdk fortran -o ckpt.f90
  ckpt sdk python > ckpt.py`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: client.Languages(),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := client.Source(args[0])
			if err != nil {
				hint := "like ckpt sdk c -o ckpt.h"
				if near := ui.Nearest(args[0], client.Languages()); near != "" {
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
