package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
	"ckpt/iotrace"
	"ckpt/iotrace/source"
)

// traceCommands are those of ckpt trace.
func traceCommands(g *globals) []*cobra.Command {
	return []*cobra.Command{newTraceRecordCommand(g), newTraceImportCommand(g), newTraceAnalyzeCommand(g), newTraceShowCommand(g),
		newTraceDiffCommand(g), newTraceExportCommand(g), newTracePlotCommand(g), newTraceReportCommand(g), newTraceReplayCommand(g)}
}

func newTraceRecordCommand(g *globals) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "record -o FILE -- COMMAND [ARGUMENT]...",
		Short: "Run a command under strace and keep its I/O as a trace",
		Long: `Run a command under strace, with all processes and threads that it starts, and write
what it did to files as an events file. The command runs several times slower.

The command's own output goes where it would go. If it fails, so does this, after the
trace is written.`,
		Example: "  ckpt trace record -o job.trace -- ./a.out input\n  ckpt trace record -o launch.trace -- ckpt launch bt.S.4 --every 20",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return &coordinator.UsageError{Text: "there is nowhere to write to", Fix: "add -o FILE before --"}
			}
			return runTraceRecord(cmd.Context(), g, out, args)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "events file to write")
	return cmd
}

// straceFlags are what the importer needs: all processes, absolute times, how long
// each call took, paths of descriptors, and enough of arrays to see both ends of a pipe.
var straceFlags = []string{"-f", "-ttt", "-T", "-y", "-s", "4", "-e", "trace=%file,%desc,%process"}

func runTraceRecord(ctx context.Context, g *globals, out string, command []string) error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return &coordinator.UsageError{Text: "strace is not installed", Fix: "install it (apt-get install strace); jobs of ckpt record themselves"}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return errNotFound{fmt.Errorf("%s: %w", command[0], err)}
	}
	dir, err := os.MkdirTemp("", "ckpt-strace-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text := filepath.Join(dir, "strace")
	// ^C is for the command; strace ends with it.
	signal.Ignore(os.Interrupt)
	defer signal.Reset(os.Interrupt)
	run := exec.CommandContext(ctx, strace, append(append(append([]string{}, straceFlags...), "-o", text, "--"), command...)...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, g.out, g.err
	failed := run.Run()
	var exit *exec.ExitError
	if failed != nil && !errors.As(failed, &exit) {
		return failed
	}
	t, rep, err := source.File(text, iotrace.Options{Lenient: failed != nil})
	if err != nil {
		if failed != nil {
			return fmt.Errorf("%s %v, and strace left no trace that can be read: %w", command[0], failed, err)
		}
		return err
	}
	t.Job = filepath.Base(command[0])
	g.warnImport("strace", rep)
	if err := g.writeFile(out, func(w io.Writer) error { return iotrace.WriteTrace(w, t) }); err != nil {
		return err
	}
	if err := g.tellImport(t, out); err != nil {
		return err
	}
	if exit == nil {
		return nil
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return fmt.Errorf("%s was killed by %v; its trace is in %s", command[0], s.Signal(), out)
	}
	return fmt.Errorf("%s ended with status %d; its trace is in %s", command[0], exit.ExitCode(), out)
}
