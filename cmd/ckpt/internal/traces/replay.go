package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/durable"
	"ckpt/iotrace"
	"ckpt/iotrace/replay"
	"ckpt/zones"
)

type traceReplayOptions struct {
	traceInput
	replay.Options
	layout, record string
	bytes, most    string
}

func newReplayCommand(g *ui.Globals) *cobra.Command {
	var o traceReplayOptions
	cmd := &cobra.Command{
		Use:   "replay TRACE... --dir DIR",
		Short: "Repeat the I/O of a trace with other bytes, and compare the times",
		Long: `Open, read, write, sync and close files as in a trace, with the same sizes and
offsets in the same order, with as many processes at a time, and compare the
times. This measures the I/O of a job on a file system without the job. The
bytes are noise.

The files are made in DIR and removed at the end. Their names are their paths in
the trace, without the directories that all have in common, and with _ for /.
Files that existed before the trace are made before the clock starts.

--ranks changes the number of ranks: each rank r beyond the n traced ones
repeats the operations of rank r mod n, in a file with its own number, or at its
own place in a shared file. --layout sends the writes to other files: per-rank,
one file per rank; aggregated, one per node, written by its first rank; shared,
one for all. Each holds the writes one after the other. --bytes makes requests from
64 KiB on larger or smaller, so that all ranks write so many bytes, and keeps the
small ones. --scale-bytes makes all of them larger or smaller. docs/TRACE.md has
the rules. A replay whose files do not fit into the free space does not begin.

` + scopeHelp + `

` + traceInputHelp,
		Example: `  ckpt trace replay bt.S.4-1 --dir /scratch/try
  ckpt trace replay job.darshan --dir /scratch/try --ranks 64 --direct
  ckpt trace replay job.strace --dir /scratch/try --layout shared --keep-gaps
  ckpt trace replay large.trace --dir /scratch/try --scale-bytes 0.01`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Dir == "" {
				return ui.BadUsage("no directory given", "add --dir DIR")
			}
			if cmd.Flags().Changed("ranks") && o.Ranks < 1 {
				return ui.BadUsage(fmt.Sprintf("--ranks %d: want at least 1", o.Ranks), "")
			}
			if cmd.Flags().Changed("scale-bytes") && o.ScaleBytes <= 0 {
				return ui.BadUsage(fmt.Sprintf("--scale-bytes %g: want a number above 0", o.ScaleBytes), "write --scale-bytes 0.01 for a hundredth")
			}
			if cmd.Flags().Changed("aggregators") && o.Aggregators < 1 {
				return ui.BadUsage(fmt.Sprintf("--aggregators %d: want at least 1", o.Aggregators), "")
			}
			return runTraceReplay(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "directory for the files; made if missing")
	f.IntVar(&o.Ranks, "ranks", 0, "number of ranks (default: as in the trace)")
	f.StringVar(&o.layout, "layout", string(replay.Traced), "files that the writes go to: traced, per-rank, aggregated or shared")
	ui.Choices(f, "layout", string(replay.Traced), string(replay.PerRank), string(replay.Aggregated), string(replay.Shared))
	f.IntVar(&o.Aggregators, "aggregators", 0, "with --layout aggregated: number of writing ranks (default: one per node)")
	f.StringVar(&o.bytes, "bytes", "", "bytes that all ranks write, like 12GiB: large requests grow or shrink (default: as in the trace)")
	f.Float64Var(&o.ScaleBytes, "scale-bytes", 0, "multiply all sizes and offsets, like 0.01 for a hundredth (default 1)")
	f.StringVar(&o.most, "at-most", "", "write fewer bytes than --bytes if they are more than this, or than half of the free space")
	f.BoolVar(&o.KeepGaps, "keep-gaps", false, "keep the time between the operations of a rank")
	f.BoolVar(&o.Direct, "direct", false, "use O_DIRECT for requests that are aligned to 4096 bytes")
	f.BoolVar(&o.Overwrite, "overwrite", false, "replace files of the same names")
	f.BoolVar(&o.Keep, "keep-files", false, "keep the files")
	f.Uint64Var(&o.Seed, "seed", 0, "random seed of the written bytes")
	f.StringVar(&o.record, "record", "", "write the operations of the replay to this events file")
	o.addFlags(f, false)
	g.Renamed(f, "keep", "keep-files")
	g.AddStoreFlag(cmd)
	return cmd
}

func runTraceReplay(ctx context.Context, g *ui.Globals, o *traceReplayOptions, args []string) error {
	var err error
	if o.Layout, err = replay.ParseLayout(o.layout); err != nil {
		return ui.AsUsage(err)
	}
	var q ui.Quantities
	if o.Bytes, o.AtMost = q.Size("--bytes", o.bytes), q.Size("--at-most", o.most); q.Err != nil {
		return q.Err
	}
	// The plan of a large trace stays to the end; a heap of twice its size is waste.
	debug.SetGCPercent(25)
	t, err := o.trace(g, args)
	if err == nil {
		err = needEvents(t, "replay")
	}
	if err != nil {
		return err
	}
	// Before there are files to remove, an interrupt ends the process at once.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.Planned = func() {
		heard, _ := ui.Interruptible(ctx) // until ctx is done
		context.AfterFunc(heard, cancel)
	}
	o.Consume = true        // the trace is used only here
	var record bytes.Buffer // in memory, so that it does not disturb the replayed I/O
	if o.record != "" {
		if o.record == "-" {
			return ui.BadUsage("--record -: standard output has the result", "name a file")
		}
		if err := ui.CanWrite(o.record); err != nil {
			return err
		}
		o.Recorder = iotrace.NewRecorder(&record, iotrace.Meta{Job: t.Job, Source: "replay"})
	}
	var b *ui.Bar
	o.Progress = func(done, total int64) {
		if b == nil {
			b = g.NewBar("replay", total, true)
		}
		b.Set(done)
	}
	r, err := replay.Run(ctx, t, o.Options)
	b.Clear()
	if err != nil {
		return replayError(err)
	}
	// The recording comes first, since a reader of the result may go early, as head does.
	// The result, which took long, is printed even if the recording cannot be written.
	if o.record != "" {
		if err = o.Recorder.Close(); err == nil {
			err = g.WriteFile(ctx, o.record, func(w io.Writer) error { _, err := record.WriteTo(w); return err })
		}
	}
	if g.JSON {
		return errors.Join(err, g.PrintJSON(struct {
			Job string `json:"job"`
			*replay.Result
			scoped
		}{t.Job, r, o.scoped(t)}))
	}
	err = errors.Join(err, showReplay(g, t.Job, r))
	o.tell(g, "", t, o.aside)
	return err
}

// replayError classifies the errors of a replay.
func replayError(err error) error {
	var option *replay.OptionError
	var failed *replay.Error
	var space *replay.SpaceError
	switch {
	case errors.Is(err, context.Canceled):
		return ui.ErrInterrupted
	case errors.As(err, &option):
		return ui.AsUsage(ui.WithHint(err, "see ckpt trace replay --help"))
	case errors.As(err, &space):
		return ui.WithHint(fmt.Errorf("%w: %w", durable.ErrStorageFull, err),
			fmt.Sprintf("free some space, or replay into another directory; --scale-bytes %.2g makes all requests smaller", space.Factor()))
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", durable.ErrStorageFull, err)
	case errors.As(err, &failed) && failed.Op == "make" && errors.Is(err, fs.ErrNotExist):
		return ui.AsNotFound(ui.WithHint(err, "make its parent directory first"))
	}
	switch {
	case failed == nil:
	case errors.Is(err, fs.ErrExist):
		return ui.WithHint(err, "name an empty or a new directory; --overwrite replaces files")
	case errors.Is(err, replay.ErrDirect):
		return ui.WithHint(err, "this file system does not support O_DIRECT: leave out --direct")
	}
	return err
}

// showReplay prints the traced and the replayed numbers side by side.
func showReplay(g *ui.Globals, job string, r *replay.Result) error {
	if job == "" {
		job = "trace"
	}
	g.Printf("%s, replayed in %s\n\n", zones.Printable(job), r.Dir)
	a, b := &r.Traced, &r.Replayed
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	g.Table([]string{"", "|traced", "|replayed"}, [][]string{
		{"processes", strconv.Itoa(a.Processes), strconv.Itoa(b.Processes)},
		{"files", strconv.Itoa(a.Files), strconv.Itoa(b.Files)},
		{"operations", whole(a.Operations), whole(b.Operations)},
		{"  at a time, at most", whole(a.AtOnce), whole(b.AtOnce)},
		{"written MiB", ui.MiB(a.BytesWritten), ui.MiB(b.BytesWritten)},
		{"read MiB", ui.MiB(a.BytesRead), ui.MiB(b.BytesRead)},
		{"time", ui.Seconds(a.Wall), ui.Seconds(b.Wall)},
		{"  something was done", ui.Seconds(a.Busy), ui.Seconds(b.Busy)},
		{"MiB/s then", rate(a.Rate()), rate(b.Rate())},
	})
	var rows [][]string
	for _, o := range r.Operations {
		for i, s := range []replay.Sum{o.Traced, o.Replayed} {
			row := []string{o.Op, "traced", whole(s.Count), "", ui.Seconds(s.Time), each(s), rate(s.Rate())}
			if i == 1 {
				row[0], row[1] = "", "replayed"
			}
			if s.Bytes > 0 {
				row[3] = ui.MiB(s.Bytes)
			}
			rows = append(rows, row)
		}
	}
	g.Printf("\nOperations; times are added up over the ranks.\n")
	g.Table([]string{"", "", "|count", "|MiB", "|time", "|each", "|MiB/s"}, rows)
	return showReplayNotes(g, r)
}

// showReplayNotes lists the differences from the trace.
func showReplayNotes(g *ui.Globals, r *replay.Result) error {
	var notes []string
	note := func(n int64, format string, args ...any) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	if less := r.Wanted - r.Replayed.BytesWritten; less > r.Wanted/100 {
		note(1, "%s MiB written of %s MiB: --at-most or the free space bounds it", ui.MiB(r.Replayed.BytesWritten), ui.MiB(r.Wanted))
	}
	note(r.PreparedFiles, "%s made before the clock started, with %s MiB to read", ui.Count(int(r.PreparedFiles), "file"), ui.MiB(r.PreparedBytes))
	note(r.Opens, "%s more than traced: the trace has no open of these files", ui.Count(int(r.Opens), "open"))
	note(r.MissingBytes, "%d bytes to be read were missing", r.MissingBytes)
	note(r.RefusedBarriers, "%s contradict the times and were not kept", ui.Count(int(r.RefusedBarriers), "barrier"))
	if r.Direct {
		note(1, "%s around the page cache", ui.Count(int(r.DirectRequests), "request"))
	}
	for _, l := range r.LeftOut {
		note(l.Count, "%d × %s: left out", l.Count, l.What)
	}
	for i, n := range notes {
		if i == 0 {
			n = "\n" + n
		}
		g.Printf("%s\n", n)
	}
	return nil
}

// each is the mean time of an operation.
func each(s replay.Sum) string {
	if s.Count == 0 {
		return ""
	}
	return ui.Seconds(s.Time / float64(s.Count))
}

func rate(bytes float64) string {
	if bytes == 0 {
		return ""
	}
	return strconv.FormatFloat(bytes/(1<<20), 'f', 1, 64)
}
