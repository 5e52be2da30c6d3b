package traces

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/durable"
	"ckpt/iotrace"
	"ckpt/iotrace/strace"
)

func newRecordCommand(g *ui.Globals) *cobra.Command {
	var out, most, with string
	cmd := &cobra.Command{
		Use:   "record -o FILE -- COMMAND [ARGUMENT]...",
		Short: "Run a command and keep its I/O as a trace",
		Long: `Run a command, with all processes and threads that it starts, and write its
operations on files to an events file. Programs in the kernel (eBPF) record them, if
the kernel and your rights allow it; else strace does, which takes longer. --with
chooses one. The line "recording" says how many calls were recorded, and by which of
the two. Their records, about 100 bytes per call, are in
$TMPDIR until then.

The output of the command stays where it is; ckpt says on standard error what it
recorded. With --json, it is the other way around. If the command fails, ckpt trace
record writes the trace, names the status of the command, and ends with status 2. --for
ends a command that runs longer, which is no failure.

Signals are passed on to the command, and the trace is written: SIGINT (^C), SIGQUIT and
SIGHUP end ckpt with status 130 then, SIGTERM with 75. Some seconds after SIGHUP or
SIGTERM, ckpt kills the processes that are left.`,
		Example: "  ckpt trace record -o job.trace -- ./a.out input\n  ckpt trace record -o launch.trace -- ckpt launch bt.S.4 --every 20",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return ui.BadUsage("no output given", "add -o FILE before --")
			}
			if out == "-" {
				return ui.BadUsage("-o -: the command itself uses standard output", "name a file")
			}
			if with != withAuto && with != withEBPF && with != withStrace {
				return ui.BadUsage("--with "+with+" is unknown", "auto, ebpf or strace")
			}
			limit, err := ui.ParseDuration("--for", most)
			if err != nil {
				return err
			}
			if limit < 0 {
				return ui.BadUsage(fmt.Sprintf("--for %s is below 0", most), "give a time like 30s, or 0 for no limit")
			}
			return runTraceRecord(cmd.Context(), g, out, with, limit, args)
		},
	}
	cmd.Flags().SetInterspersed(false) // flags behind the command are its own, also without --
	cmd.Flags().StringVarP(&out, "output", "o", "", "events file to write")
	cmd.Flags().StringVar(&most, "for", "0", "end the command after this time, like 30s (default: let it run)")
	cmd.Flags().StringVar(&with, "with", withAuto, "what records: ebpf, strace, or auto: ebpf if it is possible")
	return cmd
}

// canFilter reports whether strace and the kernel let other calls pass without a stop.
func canFilter(ctx context.Context, path string) bool {
	return exec.CommandContext(ctx, path, strace.Filter, "-f", "-e", "trace=sync", "-o", os.DevNull, "--", path, "-V").Run() == nil
}

func runTraceRecord(ctx context.Context, g *ui.Globals, out, with string, limit time.Duration, command []string) error {
	if err := ui.CheckProgram(command[0]); err != nil {
		return err
	}
	if err := ui.CanWrite(out); err != nil {
		return err
	}
	signals, release := catchSignals()
	defer release()
	r, unable, err := newRecorder(ctx, with)
	if err != nil {
		return err
	}
	defer r.close()
	run := r.prepare(ctx, command)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, g.CommandOutput(), g.Err
	start := time.Now()
	stopped, ended, failed := runInterruptible(r, run, limit, signals)
	wall := time.Since(start)
	reading, done := interruptible(ctx)
	defer done()
	var exit *exec.ExitError
	if failed != nil && !errors.As(failed, &exit) {
		return failed
	}
	cut := r.cut()
	t, rep, err := readRecord(reading, r, failed != nil || cut != nil)
	if errors.Is(err, ui.ErrInterrupted) {
		return err
	}
	if err != nil {
		if cut != nil {
			return cut
		}
		if failed != nil {
			return fmt.Errorf("%s %v, and %s left no readable trace: %w", command[0], failed, recorderNames[r.name()], err)
		}
		var damage *iotrace.FormatError
		if errors.As(err, &damage) { // the command may have run for hours
			return ui.WithHint(err, r.keep("ckpt trace export --lenient %s -o "+out+" reads its intact part"))
		}
		return err
	}
	cost := overhead{With: r.name(), Calls: rep.Calls, Wall: wall.Seconds()}
	var inside float64 // seconds of a call that are the recorder's
	if s, ok := r.(*straceRecorder); ok {
		inside = s.perCall(reading, wall)
	}
	done() // ^C has ended the measurement only
	ctx, release = interruptible(ctx)
	defer release()
	t.Job = filepath.Base(command[0])
	mountTypes(t)
	if ns := int64(1e9 * inside); ns > 0 {
		t.Properties = append(t.Properties, iotrace.Property{Name: iotrace.RecorderTime, Value: strconv.FormatInt(ns, 10)})
	}
	if err := g.WriteFile(ctx, out, func(w io.Writer) error { return iotrace.WriteTrace(w, t) }); err != nil {
		// Likewise: the disk may have become full meanwhile.
		return ui.WithHint(err, r.keep("ckpt trace export %s -o FILE makes a trace of it elsewhere"))
	}
	if unable != nil {
		cost.Unable, cost.forbidden = ui.OneLine(unable.Error()), errors.Is(unable, fs.ErrPermission)
	}
	in := new(traceInput)
	in.tell(g, "", t, in.aside)
	told := in.tellRecord(g, t, out, rep, cost)
	return cmp.Or(endOf(command[0], out, exit, cut, stopped, ended), told)
}

// endOf returns the error that ends ckpt as the command ended.
func endOf(name, out string, exit *exec.ExitError, cut error, stopped syscall.Signal, ended bool) error {
	if cut != nil {
		return ui.WithHint(cut, "the operations until then are in "+out+"; set TMPDIR to a directory with more free space")
	}
	if exit == nil || ended && stopped == 0 {
		return nil
	}
	if stopped != 0 {
		why := ui.ErrInterrupted
		if stopped == syscall.SIGTERM {
			why = ui.ErrTerminated
		}
		return ui.WithHint(why, "the operations of "+name+" until then are in "+out)
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return fmt.Errorf("%s was killed by %s; its trace is in %s", name, unix.SignalName(s.Signal()), out)
	}
	return fmt.Errorf("%s ended with status %d; its trace is in %s", name, exit.ExitCode(), out)
}

// interruptible returns a context that ends with ^C. Other signals may be those that have
// ended the command: batch systems and terminals send them more than once.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(os.Interrupt) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, os.Interrupt)
}

// readRecord makes a trace of what was recorded, unless it is interrupted.
func readRecord(ctx context.Context, r recorder, lenient bool) (*iotrace.Trace, *iotrace.Report, error) {
	type result struct {
		t   *iotrace.Trace
		rep *iotrace.Report
		err error
	}
	done := make(chan result, 1)
	go func() {
		t, rep, err := r.trace(lenient)
		done <- result{t, rep, err}
	}()
	select {
	case x := <-done:
		return x.t, x.rep, x.err
	case <-ctx.Done():
		return nil, nil, ui.ErrInterrupted
	}
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

// mountTypes adds the types of the file systems of this machine that hold files of the
// trace, as properties like "mount /scratch": "lustre".
func mountTypes(t *iotrace.Trace) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return // a trace without them is as good
	}
	defer f.Close()
	addMounts(t, f)
}

// addMounts reads the text of /proc/PID/mountinfo. See man 5 proc: the fifth field is
// the mount point, and the type follows a field that is a hyphen. A later line hides an
// earlier one of the same mount point.
func addMounts(t *iotrace.Trace, mountinfo io.Reader) {
	types := map[string]string{}
	in := bufio.NewScanner(mountinfo)
	for in.Scan() {
		fields := strings.Fields(in.Text())
		hyphen := slices.Index(fields, "-")
		if hyphen < 6 || hyphen+1 >= len(fields) {
			continue
		}
		types[unescaped(fields[4])] = fields[hyphen+1]
	}
	used := map[string]bool{}
	for _, file := range t.Files {
		if !path.IsAbs(file) {
			continue
		}
		for dir := path.Clean(file); ; dir = path.Dir(dir) {
			if types[dir] != "" {
				used[dir] = true
				break
			}
			if dir == "/" {
				break
			}
		}
	}
	var found []iotrace.Property
	for dir := range used {
		found = append(found, iotrace.Property{Name: "mount " + dir, Value: types[dir]})
	}
	slices.SortFunc(found, func(a, b iotrace.Property) int { return strings.Compare(a.Name, b.Name) })
	t.Properties = append(t.Properties, found...)
}

// unescaped undoes \040 for a space, and the like.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// A recordText is the file of what is recorded: the text of strace, or records of the
// kernel, which become that text if they are to be kept.
type recordText struct {
	dir, name string
	kept      bool
}

func newText() (*recordText, error) {
	dir, err := os.MkdirTemp("", "ckpt-strace-")
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil, fullTemp(os.TempDir(), err)
	}
	if err != nil {
		return nil, ui.WithHint(fmt.Errorf("no temporary directory: %w", err), "set TMPDIR to a directory that you can write to")
	}
	return &recordText{dir: dir, name: filepath.Join(dir, "strace")}, nil
}

func (t *recordText) remove() {
	if !t.kept {
		os.RemoveAll(t.dir)
	}
}

// keep keeps the text and returns a hint to it, with its use. It masks the values of the
// environment: without that the text cannot stay, and the hint says so.
func (t *recordText) keep(use string) string {
	if err := strace.Mask(t.name); err != nil {
		return fmt.Sprintf("the text of strace was removed, as the environment in it could not be masked: %v", err)
	}
	t.kept = true
	return "the text is kept: " + fmt.Sprintf(use, t.name)
}

// fullTemp names the directory of temporary files as the one that is full.
func fullTemp(dir string, err error) error {
	return ui.WithHint(fmt.Errorf("%w: %s: %w", durable.ErrStorageFull, dir, err), "free some space there, or set TMPDIR to a directory with more")
}
