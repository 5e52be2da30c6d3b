package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/benchmarks"
	"ckpt/cmd/ckpt/internal/images"
	"ckpt/cmd/ckpt/internal/jobs"
	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/traces"
	"ckpt/cmd/ckpt/internal/ui"
)

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, s ui.Streams) int {
	out := &ui.Noticing{W: s.Out}
	s.Out = out
	g := &ui.Globals{Streams: s}
	root := newRootCommand(g)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if out.Err != nil && (err == nil || errors.Is(err, out.Err)) {
		err = ui.OutputError(fmt.Errorf("write the output: %w", out.Err))
	}
	if err != nil {
		err = g.Advised(cmd, err)
		// The error may lie in the flags before --json was read.
		ui.Complain(s.Err, err, g.JSON || slices.Contains(args, "--json"))
	}
	return ui.ExitCode(err)
}

func newRootCommand(g *ui.Globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "ckpt",
		Short: "Checkpoint, restart and size parallel jobs",
		Long: `ckpt runs parallel (MPI) jobs and takes checkpoints of them. It stores checkpoints
durably, verifies every byte that it restarts from, and survives the death of ranks
and nodes.

` + ui.ExitHelp,
		Example: `  ckpt launch bt.S.4 --nodes 2 --every 5 --fail rank=2@iter=12 --auto-restart
  ckpt list bt.S.4-1
  ckpt verify bt.S.4-1`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.BoolVar(&g.JSON, "json", false, "print JSON on standard output")
	flags.BoolVarP(&g.Quiet, "quiet", "q", false, "print results only")
	flags.BoolVarP(&g.Verbose, "verbose", "v", false, "print more details")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return ui.UsageOf(cmd, err) })
	root.AddCommand(slices.Concat(jobs.Commands(g), images.Commands(g), predictions.Commands(g), traces.Commands(g), benchmarks.Commands(g))...)
	root.AddCommand(newVersionCommand(g), newManCommand())
	for _, cmd := range root.Commands() {
		describeExit(cmd)
	}
	checkArgs(root)
	return root
}

// describeExit appends the exit statuses to the help of a command.
func describeExit(cmd *cobra.Command) {
	if cmd.Long == "" {
		cmd.Long = cmd.Short + "."
	}
	cmd.Long += "\n\n" + ui.ExitHelp
	for _, sub := range cmd.Commands() {
		describeExit(sub)
	}
}

// checkArgs makes errors about arguments usage errors.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.HasAvailableSubCommands() {
				return ui.UnknownCommand(cmd, args[0])
			}
			if err := check(cmd, args); err != nil {
				return ui.UsageOf(cmd, err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

func newVersionCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  ckpt version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				Format  int    `json:"image_format"` // of images
			}{Version: "devel", Format: 1}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Go = info.GoVersion
				if s := info.Main.Version; s != "" && s != "(devel)" {
					v.Version = strings.TrimPrefix(s, "v")
				}
			}
			if g.JSON {
				return g.PrintJSON(v)
			}
			return g.Printf("ckpt %s (%s), image format %d\n", v.Version, v.Go, v.Format)
		},
	}
}
