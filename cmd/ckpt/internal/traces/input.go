// Package traces has the commands that record, read, analyse, draw and replay I/O.
package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/read"
)

// traceInput is the source of a trace: files of any known format, or the traces of
// checkpoints in the store.
type traceInput struct {
	lenient bool
	codec   finding.Codec // of the job whose trace was read
	scoping
	aside iotrace.Aside // of the trace that was read
}

const traceInputHelp = `A TRACE is a file, - for standard input, or the recording of a checkpoint: JOB
of the newest, JOB@N of one, JOB@all of all, as one trace, and JOB@restart of
what the last restart read. The command recognises the format of a file by its
contents: events files of ckpt, strace -f text, Darshan logs and DXT text,
DFTracer, CSV, JSON, Parquet.`

// addFlags adds the flags of all commands that read a trace. With keeps, the command
// sets no files apart unless it is asked to.
func (in *traceInput) addFlags(f *pflag.FlagSet, keeps bool) {
	f.BoolVar(&in.lenient, "lenient", false, "read the intact part of a damaged or cut trace")
	in.scoping.addFlags(f, keeps)
}

// traces reads all named traces, each by itself.
func (in *traceInput) traces(g *ui.Globals, args []string) ([]*iotrace.Trace, error) {
	if len(args) == 0 {
		return nil, ui.BadUsage("no trace given", "name a file or a job")
	}
	var all []*iotrace.Trace
	for _, name := range args {
		some, reports, err := in.read(g, []string{name})
		if err != nil {
			return nil, err
		}
		warnImport(g, name, reports[0])
		all = append(all, some[0].Trace)
	}
	return all, nil
}

// read reads files and jobs that were recorded together; there is a report for each.
func (in *traceInput) read(g *ui.Globals, args []string) ([]read.Recording, []*iotrace.Report, error) {
	opt := iotrace.Options{Lenient: in.lenient}
	if len(args) > 1 {
		total := int64(0)
		for _, name := range args {
			if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() {
				total += fi.Size()
			}
		}
		b := g.NewBar("read", total, true)
		defer b.Clear()
		opt.Progress = b.Set
	}
	all, reports, err := read.Files(args, opt, func(name string) (*iotrace.Trace, *iotrace.Report, error) { return in.open(g, name) })
	return all, reports, in.failure(err)
}

// trace reads one trace, the part of it that the flags ask for. Several that were
// recorded together are merged.
func (in *traceInput) trace(g *ui.Globals, args []string) (*iotrace.Trace, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	t, err := in.whole(g, args)
	if err != nil {
		return nil, err
	}
	t, in.aside, err = in.apply(t)
	return t, err
}

// whole reads one trace with all that is in it.
func (in *traceInput) whole(g *ui.Globals, args []string) (*iotrace.Trace, error) {
	all, err := in.recordings(g, args)
	if err != nil {
		return nil, err
	}
	return oneRun(all)
}

// recordings reads files and jobs, and reports what of them was not understood.
func (in *traceInput) recordings(g *ui.Globals, args []string) ([]read.Recording, error) {
	if len(args) == 0 {
		return nil, ui.BadUsage("no trace given", "name a file or a job")
	}
	all, reports, err := in.read(g, args)
	if err != nil {
		return nil, err
	}
	for i, rep := range reports {
		warnImport(g, args[i], rep)
	}
	return all, nil
}

// oneRun merges recordings, which must be of one run.
func oneRun(all []read.Recording) (*iotrace.Trace, error) {
	runs := read.Runs(all, true)
	if len(runs) > 1 {
		return nil, severalRuns(runs)
	}
	return merged(all)
}

func merged(all []read.Recording) (*iotrace.Trace, error) {
	if len(all) == 1 {
		return all[0].Trace, nil
	}
	var traces []*iotrace.Trace
	for _, r := range all {
		traces = append(traces, r.Trace)
	}
	t, err := iotrace.Merge(traces...)
	if err != nil {
		return nil, ui.AsUsage(err)
	}
	return t, nil
}

// open reads one source.
func (in *traceInput) open(g *ui.Globals, name string) (*iotrace.Trace, *iotrace.Report, error) {
	opt := iotrace.Options{Lenient: in.lenient}
	if name == "-" {
		t, rep, err := read.Stream("standard input", os.Stdin, opt)
		return t, rep, in.failure(err)
	}
	if fi, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) || err == nil && fi.IsDir() && isJob(g, name) {
		// There is no such file; the name may be a job.
		if job, ok := strings.CutSuffix(name, "@all"); ok {
			return in.all(g, job)
		}
		if name, ok := strings.CutSuffix(name, "@restart"); ok {
			return in.restart(g, name)
		}
		j, path, jerr := in.tracePath(g, name)
		if jerr != nil {
			return nil, nil, ui.AsNotFound(fmt.Errorf("%s is not a file; as a job: %w", name, jerr))
		}
		return in.ofJob(g, j, path)
	}
	t, rep, err := in.file(g, name, opt)
	return t, rep, in.failure(err)
}

// ofJob reads a trace in the store of a job.
func (in *traceInput) ofJob(g *ui.Globals, j *image.Job, path string) (*iotrace.Trace, *iotrace.Report, error) {
	opt := iotrace.Options{Lenient: in.lenient}
	if !vfs.Mounted(path) && !j.Store().Sealed() {
		t, rep, err := in.file(g, path, opt)
		return t, rep, in.failure(err)
	}
	f, err := j.FS().Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	t, rep, err := read.Stream(path, io.NewSectionReader(f, 0, math.MaxInt64), opt)
	return t, rep, in.failure(err)
}

// isJob reports whether a directory without a trace has the name of a job.
func isJob(g *ui.Globals, name string) bool {
	_, err := g.OpenJob(name)
	return err == nil
}

// file reads a file and shows its progress.
func (in *traceInput) file(g *ui.Globals, path string, opt iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
		b := g.NewBar("read", fi.Size(), true)
		defer b.Clear()
		opt.Progress = b.Set
	}
	return read.File(path, opt)
}

// all reads the traces of all checkpoints of a job as one.
func (in *traceInput) all(g *ui.Globals, name string) (*iotrace.Trace, *iotrace.Report, error) {
	j, err := g.OpenJob(name)
	if err != nil {
		return nil, nil, err
	}
	in.codec = codecOf(j)
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, nil, err
	}
	var traces []read.Recording
	whole := &iotrace.Report{}
	for _, n := range numbers {
		path := job.TracePath(j, n)
		if _, err := j.FS().Stat(path); errors.Is(err, fs.ErrNotExist) {
			g.Warn("checkpoint %d of %s has no trace", n, name)
			continue
		}
		t, rep, err := in.ofJob(g, j, path)
		if err != nil {
			return nil, nil, err
		}
		whole.Format, whole.Cut = rep.Format, errors.Join(whole.Cut, rep.Cut)
		traces = append(traces, read.Recording{Name: path, Trace: t})
	}
	if len(traces) == 0 {
		return nil, nil, ui.AsNotFound(fmt.Errorf("no checkpoint of %s has a trace", name))
	}
	// A rank that was restarted on another node is still the same rank.
	nodes := make(map[int]string)
	for _, t := range traces {
		for _, r := range t.Trace.Ranks {
			nodes[r.Rank] = r.Node
		}
	}
	for _, t := range traces {
		for i, r := range t.Trace.Ranks {
			t.Trace.Ranks[i].Node = nodes[r.Rank]
		}
	}
	t, err := merged(traces)
	return t, whole, err
}

// restart reads the trace of the last restart of a job.
func (in *traceInput) restart(g *ui.Globals, name string) (*iotrace.Trace, *iotrace.Report, error) {
	j, err := g.OpenJob(name)
	if err != nil {
		return nil, nil, err
	}
	in.codec = codecOf(j)
	path := job.RestartTracePath(j)
	if _, err := j.FS().Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, ui.AsNotFound(fmt.Errorf("no restart of %s has a trace", name))
	}
	return in.ofJob(g, j, path)
}

// tracePath finds the trace of a checkpoint.
func (in *traceInput) tracePath(g *ui.Globals, target string) (*image.Job, string, error) {
	name, _, _ := strings.Cut(target, "@")
	j, err := g.OpenJob(name) // the traces are in the store, wherever the checkpoint is
	if err != nil {
		return nil, "", err
	}
	_, m, _, err := g.OpenCheckpoint(context.Background(), target)
	if err != nil {
		return nil, "", err
	}
	in.codec = codecOf(j)
	path := job.TracePath(j, m.Number)
	_, err = j.FS().Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("checkpoint %d of %s has no trace: it was taken with --trace=false, or imported", m.Number, name)
	}
	return j, path, err
}

// codecOf returns how a job chooses its codec. That only shapes advice, so a
// description that cannot be read is no error.
func codecOf(j *image.Job) finding.Codec {
	spec, err := job.ReadSpec(j)
	switch {
	case err != nil:
		return finding.CodecUnknown
	case spec.Codec == codec.UseAuto:
		return finding.CodecLearns
	}
	return finding.CodecFixed
}

// failure is traceError without the remedies that the user has tried already.
func (in *traceInput) failure(err error) error {
	err = traceError(err)
	var damaged *damagedTrace
	if errors.As(err, &damaged) {
		damaged.lenient = in.lenient
	}
	return err
}

// traceError classifies the errors of a trace file.
func traceError(err error) error {
	var format *iotrace.FormatError
	var known *damagedTrace
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, iotrace.ErrWrongFormat):
		return ui.AsUsage(err)
	case errors.Is(err, syscall.EISDIR):
		return ui.BadUsage(ui.OneLine(err.Error()), "name a file in it; ckpt trace analyze takes a directory, and shows its runs")
	case errors.Is(err, iotrace.ErrNewerVersion):
		return ui.WithHint(err, "use the version of ckpt that wrote it, or a newer one")
	case errors.Is(err, fs.ErrNotExist):
		return ui.AsNotFound(err)
	case errors.As(err, &format):
		return &damagedTrace{err, format.Line == 0 && format.Object == 0, false}
	}
	return err
}

// A damagedTrace is one that cannot be read completely. A binary file has checksums
// of ckpt, so it is damaged as an image is; a text may be anything.
type damagedTrace struct {
	error
	binary  bool
	lenient bool // --lenient was given, and nothing can be read
}

// Is makes the exit status say damage.
func (e *damagedTrace) Is(target error) bool { return e.binary && target == ui.ErrDamageFound }

func (e *damagedTrace) Unwrap() error { return e.error }

// Hint returns the remedy.
func (e *damagedTrace) Hint() string {
	if strings.Contains(e.Error(), "damaged Parquet") {
		return "make the file again: Parquet cannot be read in part"
	}
	var format *iotrace.FormatError
	if e.lenient || errors.Is(e.error, iotrace.ErrNoTimes) || errors.As(e.error, &format) && format.NoPart {
		return ""
	}
	return "--lenient reads its intact part"
}

// warnImport reports the parts of an input that were not understood.
func warnImport(g *ui.Globals, name string, rep *iotrace.Report) {
	if rep == nil {
		return
	}
	if rep.Cut != nil {
		g.Warn("%s: %s", name, ui.OneLine(rep.Cut.Error()))
	}
	if rep.Unknown > 0 {
		g.Warn("%s: %s not understood", name, ui.Plural(int(rep.Unknown), "line was", "lines were"))
	}
	if !g.Verbose {
		return
	}
	for _, n := range rep.Notes {
		where, text := name, n.Reason
		if n.Line > 0 {
			where += fmt.Sprintf(":%d", n.Line)
		}
		if n.Text != "" {
			text += ": " + n.Text
		}
		g.Warn("%s: %s", where, text)
	}
}

// analysis are the flags of commands that analyse.
type analysis struct {
	gap, stripe, thresholds string
}

func (a *analysis) addFlags(f *pflag.FlagSet) {
	f.StringVar(&a.gap, "gap", "100ms", "length of the silence that ends a burst")
	f.StringVar(&a.stripe, "stripe-size", "1MiB", "stripe of the file system, for alignment and contention")
	f.StringVar(&a.thresholds, "thresholds", "", "file with the thresholds of findings (ckpt trace analyze --show-thresholds prints the built-in ones)")
}

// read reads one trace and analyses it.
func (a *analysis) read(g *ui.Globals, in *traceInput, args []string) (*iotrace.Trace, *analyze.Report, error) {
	opt, err := a.options()
	if err != nil {
		return nil, nil, err
	}
	t, err := in.trace(g, args)
	if err != nil {
		return nil, nil, err
	}
	opt.Codec = in.codec
	return t, characterise(g, t, opt), nil
}

// characterise analyses a trace, whose files get their last names, and shows its progress.
func characterise(g *ui.Globals, t *iotrace.Trace, opt analyze.Options) *analyze.Report {
	t.FollowRenames()
	b := g.NewBar("analyse", analyze.Steps(t), false)
	defer b.Clear()
	opt.Progress = b.Set
	r := analyze.Analyze(t, opt)
	finding.Word(r.Insights, remedyFlags)
	return r
}

// remedyFlags has the flags of ckpt launch that may remedy a finding, with a value
// where one is likely to help.
var remedyFlags = map[finding.Remedy]string{
	finding.LayoutPerRank:    "--layout per-rank",
	finding.LayoutShared:     "--layout shared",
	finding.LayoutAggregated: "--layout aggregated",
	finding.AggregatorsAuto:  "--aggregators auto",
	finding.Aggregators:      "--aggregators",
	finding.Buffer:           "--buffer",
	finding.StripeSize:       "--stripe-size",
	finding.StripeCount:      "--stripe-count",
	finding.Interval:         "--every",
	finding.Async:            "--async",
	finding.CodecNone:        "--codec none",
	finding.CodecAuto:        "--codec auto",
}

func (a *analysis) options() (analyze.Options, error) {
	var opt analyze.Options
	var err error
	if opt.BurstGap, err = ui.ParseDuration("--gap", a.gap); err != nil {
		return opt, err
	}
	if opt.BurstGap <= 0 {
		return opt, ui.BadUsage(fmt.Sprintf("--gap %s: want a positive duration", a.gap), "write --gap 100ms or --gap 0.1")
	}
	if opt.StripeSize, err = ui.ParseSize("--stripe-size", a.stripe); err != nil {
		return opt, err
	}
	if a.thresholds == "" {
		return opt, nil
	}
	f, err := os.Open(a.thresholds)
	if err != nil {
		return opt, ui.AsNotFound(err)
	}
	defer f.Close()
	if opt.Thresholds, err = finding.ReadThresholds(f); err != nil {
		return opt, ui.AsUsage(fmt.Errorf("%s: %w", a.thresholds, err))
	}
	return opt, nil
}

// duration formats a time in seconds briefly.
func duration(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Microsecond).String()
}
