package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/program"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/family"
	"ckpt/iotrace"
	"ckpt/iotrace/source"
)

func newRecordCommand(g *ui.Globals) *cobra.Command {
	var out, most string
	cmd := &cobra.Command{
		Use:   "record -o FILE -- COMMAND [ARGUMENT]...",
		Short: "Run a command under strace and keep its I/O as a trace",
		Long: `Run a command under strace, with all processes and threads that it starts, and
write its operations on files to an events file. The command runs several times
slower.

The output of the command stays where it is. If the command fails, ckpt trace
record writes the trace and then fails too. --for ends a command that runs longer,
which is no failure.`,
		Example: "  ckpt trace record -o job.trace -- ./a.out input\n  ckpt trace record -o launch.trace -- ckpt launch bt.S.4 --every 20",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return ui.BadUsage("no output given", "add -o FILE before --")
			}
			if out == "-" {
				return ui.BadUsage("-o -: the command itself uses standard output", "name a file")
			}
			limit, err := ui.ParseDuration("--for", most)
			if err != nil {
				return err
			}
			return runTraceRecord(cmd.Context(), g, out, limit, args)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "events file to write")
	cmd.Flags().StringVar(&most, "for", "0", "end the command after this time, like 30s (default: let it run)")
	return cmd
}

// straceFlags gives the importer all that it needs: all processes, absolute times,
// durations, paths of descriptors, and enough of arrays to see both ends of a pipe.
var straceFlags = []string{"-f", "-ttt", "-T", "-y", "-s", "4", "-e",
	// Some versions do not know the calls with ?. They open and close descriptors.
	"trace=%file,%desc,%process,sync,?close_range,?socket,?socketpair,?accept,?accept4"}

func runTraceRecord(ctx context.Context, g *ui.Globals, out string, limit time.Duration, command []string) error {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return ui.WithHint(errors.New("strace is not installed"), "install it (apt-get install strace); jobs of ckpt record themselves")
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return ui.AsNotFound(fmt.Errorf("%s: %w", command[0], err))
	}
	if err := ui.CanWrite(out); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ckpt-strace-")
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			os.RemoveAll(dir)
		}
	}()
	text := filepath.Join(dir, "strace")
	run := exec.CommandContext(ctx, strace, slices.Concat(straceFlags, []string{"-o", text, "--"}, command)...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, g.CommandOutput(), g.Err
	interrupted, ended, failed := runInterruptible(run, limit)
	var exit *exec.ExitError
	if failed != nil && !errors.As(failed, &exit) {
		return failed
	}
	t, rep, err := source.File(text, iotrace.Options{Lenient: failed != nil})
	if err != nil {
		if failed != nil {
			return fmt.Errorf("%s %v, and strace left no readable trace: %w", command[0], failed, err)
		}
		var damage *iotrace.FormatError
		if keep = errors.As(err, &damage); keep { // the command may have run for hours
			return ui.WithHint(err, fmt.Sprintf("the text is kept: ckpt trace import --lenient %s -o %s reads its intact part", text, out))
		}
		return err
	}
	t.Job = filepath.Base(command[0])
	if err := g.WriteFile(ctx, out, func(w io.Writer) error { return iotrace.WriteTrace(w, t) }); err != nil {
		keep = true // likewise: the disk may have become full meanwhile
		return ui.WithHint(err, fmt.Sprintf("the text is kept: ckpt trace import %s -o FILE makes a trace of it elsewhere", text))
	}
	if err := tellImport(g, t, out, []string{"strace"}, []*iotrace.Report{rep}); err != nil {
		return err
	}
	if exit == nil || ended && !interrupted {
		return nil
	}
	if interrupted {
		return ui.WithHint(ui.ErrInterrupted, "the operations of "+command[0]+" until then are in "+out)
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return fmt.Errorf("%s was killed by %s; its trace is in %s", command[0], unix.SignalName(s.Signal()), out)
	}
	return fmt.Errorf("%s ended with status %d; its trace is in %s", command[0], exit.ExitCode(), out)
}

// runInterruptible runs strace and survives signals for the command. A terminal
// sends ^C to both. strace itself ignores SIGTERM, so runInterruptible sends it to
// the children. Ignoring signals instead would make the command ignore them too. After
// a limit above 0 it ends the command.
func runInterruptible(run *exec.Cmd, limit time.Duration) (interrupted, ended bool, err error) {
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if err := run.Start(); err != nil {
		return false, false, err
	}
	over := make(chan struct{})
	var relay sync.WaitGroup
	var late <-chan time.Time
	if limit > 0 {
		late = time.After(limit)
	}
	relay.Go(func() {
		for {
			select {
			case <-late:
				// First with SIGTERM, then for good.
				how := syscall.SIGTERM
				if ended {
					how = syscall.SIGKILL
				}
				if below := family.Descendants(run.Process.Pid); len(below) > 1 {
					family.Signal(below[1:], how)
				}
				ended, late = true, time.After(program.Grace)
			case s := <-signals:
				interrupted = true
				if s == syscall.SIGTERM {
					for _, pid := range childrenOf(run.Process.Pid) {
						_ = syscall.Kill(pid, syscall.SIGTERM)
					}
				}
			case <-over:
				return
			}
		}
	})
	err = run.Wait()
	close(over)
	relay.Wait()
	return interrupted, ended, err
}

func childrenOf(pid int) (children []int) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil // it has ended
	}
	for _, word := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(word); err == nil {
			children = append(children, n)
		}
	}
	return children
}
