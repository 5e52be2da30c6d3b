// Package bench measures the cost of traces: the speed of recording and reading
// events, their size, and the time that recording adds to a checkpoint.
//
//	r, err := bench.Run(ctx, bench.Options{Dir: "/scratch"})
//	fmt.Println(r.Recording.Rate, r.Share)
//
// One run measures everything, and compared measurements take turns. A busy machine
// makes the figures worse, but not the comparison wrong.
package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/dxt"
	"ckpt/iotrace/export"
	"ckpt/iotrace/replay"
	"ckpt/iotrace/strace"
	"ckpt/iotrace/synth"
)

// Options control the measurement. Zero values have defaults.
type Options struct {
	Dir    string // where the checkpoint is written; default the temporary directory
	Events int    // of the trace that is recorded and read; default 1 million
	Size   int64  // of the checkpoint, bytes; default 256 MiB
	Rounds int    // default 5
	// Progress, if not nil, is called with the work done, from 0 to Steps.
	Progress func(done int)
}

// Steps is the last value of Progress.
func (o Options) Steps() int { return 1 + len(formats) + 2*o.withDefaults().Rounds }

func (o Options) withDefaults() Options {
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	if o.Events == 0 {
		o.Events = 1_000_000
	}
	if o.Size == 0 {
		o.Size = 256 << 20
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	return o
}

// A Result has the measurements.
type Result struct {
	Events int64 `json:"events"`
	// Recording is the speed of recording events into memory, with two clock readings
	// for each event.
	Recording Speed `json:"recording"`
	// Reading is the speed by format. Bytes is the length of the text or file.
	Reading []Speed `json:"reading"`

	// Plain and Recorded are the seconds that writing a checkpoint of Size bytes took
	// in each round, without and with recording. Ratio is the ratio of their medians;
	// it includes all noise of the disk.
	Size       int64     `json:"checkpoint_bytes"`
	Operations int64     `json:"operations"`
	Plain      []float64 `json:"plain_s"`
	Recorded   []float64 `json:"recorded_s"`
	Ratio      float64   `json:"recorded_ratio"`
	// Spent are the seconds that the recorder took in each round, waiting and clock
	// readings included, summed over the ranks as if they never overlapped. Share is
	// the median of their share of the time of the same checkpoint.
	Spent []float64 `json:"recorder_s"`
	Share float64   `json:"recorder_share"`
}

// Speed is the speed of recording events or of reading a format, by the clock and by
// the processor time of all threads. Processor time excludes other programs on the
// machine.
type Speed struct {
	What     string  `json:"what"`
	Rate     float64 `json:"events_per_s"`
	CPURate  float64 `json:"events_per_cpu_s"`
	PerEvent float64 `json:"bytes_per_event"`
}

// A format has a writer and a reader of events.
type format struct {
	name  string
	write func(io.Writer, *iotrace.Trace) error
	read  func(b []byte, events int) (*iotrace.Trace, error)
}

var formats = []format{
	{"events file", iotrace.WriteTrace, reader(iotrace.Import)},
	{"strace", straceText, reader(strace.Read)},
	{"DXT", func(w io.Writer, t *iotrace.Trace) error { _, err := dxt.Write(w, t); return err }, reader(dxt.Read)},
	{"CSV", export.WriteCSV, reader(export.ReadCSV)},
	{"Parquet", export.WriteParquet, func(b []byte, _ int) (*iotrace.Trace, error) {
		return export.ReadParquet(bytes.NewReader(b), int64(len(b)))
	}},
}

// reader reads a text or stream. It gets the expected number of events, as from
// package source.
func reader(read func(io.Reader, iotrace.Options) (*iotrace.Trace, *iotrace.Report, error)) func([]byte, int) (*iotrace.Trace, error) {
	return func(b []byte, events int) (*iotrace.Trace, error) {
		t, _, err := read(bytes.NewReader(b), iotrace.Options{Events: events})
		return t, err
	}
}

// Run measures, and removes the files that it wrote.
func Run(ctx context.Context, o Options) (*Result, error) {
	o = o.withDefaults()
	if o.Events < 1000 || o.Size < 1<<20 || o.Rounds < 1 {
		return nil, errors.New("want at least 1000 events, 1 MiB and one round")
	}
	step := 0
	tick := func() {
		if step++; o.Progress != nil {
			o.Progress(step)
		}
	}
	const ranks = 16
	t, err := synth.Generate(synth.Spec{Pattern: synth.Mixed, Ranks: ranks, Ops: max(1, o.Events/ranks), Variable: true, Noise: 0.01, Seed: 1})
	if err != nil {
		return nil, err
	}
	r := &Result{Events: int64(len(t.Events)), Size: o.Size}
	if r.Recording, err = recording(t); err != nil {
		return nil, err
	}
	tick()
	for _, f := range formats {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := reading(t, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		r.Reading = append(r.Reading, s)
		tick()
	}
	return r, r.overhead(ctx, o, tick)
}

// recording records the events of a trace as a program that does I/O would.
func recording(t *iotrace.Trace) (Speed, error) {
	var buf bytes.Buffer
	buf.Grow(16 * len(t.Events))
	rec := iotrace.NewRecorder(&buf, iotrace.Meta{Job: t.Job, Source: "bench"})
	ranks, files := make([]int32, len(t.Ranks)), make([]int32, len(t.Files))
	for i, k := range t.Ranks {
		ranks[i] = rec.Rank(k)
	}
	for i, name := range t.Files {
		files[i] = rec.File(name)
	}
	start := now()
	for _, e := range t.Events {
		e.Rank, e.File = ranks[e.Rank], files[e.File]
		// The times are those of the trace, so that its size is right. Reading the
		// clock at both ends of an operation is part of recording.
		_, _ = rec.Since(time.Now()), rec.Since(time.Now())
		rec.Record(e)
	}
	err := rec.Close()
	return start.speed("recording", len(t.Events), buf.Len()), err
}

// A moment is a time of the clock with the processor time.
type moment struct {
	clock time.Time
	cpu   int64
}

func now() moment {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail with these arguments
	return moment{time.Now(), u.Utime.Nano() + u.Stime.Nano()}
}

// speed returns the speed since m.
func (m moment) speed(what string, events, bytes int) Speed {
	end := now()
	n := float64(events)
	return Speed{what, n / end.clock.Sub(m.clock).Seconds(), n / (float64(max(1, end.cpu-m.cpu)) / 1e9), float64(bytes) / n}
}

// reading reads a trace in one of the formats.
func reading(t *iotrace.Trace, f format) (Speed, error) {
	var buf bytes.Buffer
	if err := f.write(&buf, t); err != nil {
		return Speed{}, err
	}
	runtime.GC() // writing must not count as reading
	start := now()
	got, err := f.read(buf.Bytes(), len(t.Events))
	if err != nil {
		return Speed{}, err
	}
	return start.speed(f.name, len(got.Events), buf.Len()), nil
}

// straceText prints the events of a trace as strace -f -ttt -T -y would.
func straceText(w io.Writer, t *iotrace.Trace) error {
	b := make([]byte, 0, 256)
	for _, e := range t.Events {
		b = b[:0]
		pid, at, took := 1000+t.Ranks[e.Rank].Rank, float64(e.Start)/1e9+1.7e9, float64(e.End-e.Start)/1e9
		name := "/" + t.Files[e.File]
		switch e.Op {
		case iotrace.Open:
			b = fmt.Appendf(b, "%d  %.6f openat(AT_FDCWD</tmp>, %q, O_RDWR|O_CREAT, 0600) = 3<%s> <%.6f>\n", pid, at, name, name, took)
		case iotrace.Read, iotrace.Write:
			call := map[iotrace.Op]string{iotrace.Read: "pread64", iotrace.Write: "pwrite64"}[e.Op]
			b = fmt.Appendf(b, "%d  %.6f %s(3<%s>, \"\"..., %d, %d) = %d <%.6f>\n", pid, at, call, name, e.Bytes, e.Offset, e.Bytes, took)
		case iotrace.Close:
			b = fmt.Appendf(b, "%d  %.6f close(3<%s>) = 0 <%.6f>\n", pid, at, name, took)
		default:
			continue
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// overhead writes a checkpoint with and without recording in turns.
func (r *Result) overhead(ctx context.Context, o Options, tick func()) error {
	const request = 1 << 20
	t := checkpoint(4, o.Size, request)
	dir, err := os.MkdirTemp(o.Dir, "ckpt-bench-")
	if err != nil {
		return err
	}
	err = r.rounds(ctx, t, replay.Options{Dir: dir}, o.Rounds, tick)
	return errors.Join(err, os.RemoveAll(dir))
}

func (r *Result) rounds(ctx context.Context, t *iotrace.Trace, opt replay.Options, rounds int, tick func()) error {
	// The first checkpoint does not count. It shows whether O_DIRECT works, which
	// varies less from round to round than the page cache.
	opt.Direct = true
	if _, err := replay.Run(ctx, t, opt); err != nil {
		opt.Direct = false
	}
	var operations int64
	for k := range 2 * rounds {
		opt.Recorder = nil
		if (k+k/2)%2 == 1 { // each goes first equally often
			opt.Recorder = iotrace.NewRecorder(io.Discard, iotrace.Meta{})
			opt.Recorder.Measure()
		}
		res, err := replay.Run(ctx, t, opt)
		if err == nil {
			err = opt.Recorder.Close()
		}
		if err != nil {
			return err
		}
		tick()
		operations = res.Replayed.Operations
		if opt.Recorder == nil {
			r.Plain = append(r.Plain, res.Replayed.Wall)
		} else {
			r.Recorded = append(r.Recorded, res.Replayed.Wall)
			r.Spent = append(r.Spent, (opt.Recorder.Spent() + looks(operations)).Seconds())
		}
	}
	r.Operations = operations
	r.Ratio = Median(r.Recorded) / Median(r.Plain)
	var shares []float64
	for i, s := range r.Spent {
		shares = append(shares, s/r.Recorded[i])
	}
	r.Share = Median(shares)
	return nil
}

// looks measures the time of so many pairs of clock readings.
func looks(operations int64) time.Duration {
	start := time.Now()
	for range operations {
		_, _ = time.Now(), time.Now()
	}
	return time.Since(start)
}

// Median returns the middle value, or the mean of the two middle ones.
func Median(s []float64) float64 {
	s = slices.Sorted(slices.Values(s))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// checkpoint writes a file per rank with large requests, then syncs it.
func checkpoint(ranks int, size, request int64) *iotrace.Trace {
	t := &iotrace.Trace{Job: "checkpoint"}
	part := size / int64(ranks)
	for rank := range ranks {
		t.Ranks = append(t.Ranks, iotrace.Rank{Rank: rank})
		t.Files = append(t.Files, fmt.Sprintf("rank-%d.img", rank))
	}
	var now int64
	all := func(op iotrace.Op, off, n int64) {
		for rank := range int32(ranks) {
			t.Events = append(t.Events, iotrace.Event{Op: op, Create: op == iotrace.Open, Rank: rank, File: rank, Peer: iotrace.None, Offset: off, Bytes: n, Start: now, End: now + 1})
		}
		now++
	}
	all(iotrace.Open, iotrace.None, 0)
	for off := int64(0); off < part; off += request {
		all(iotrace.Write, off, min(request, part-off))
	}
	all(iotrace.Sync, iotrace.None, 0)
	all(iotrace.Close, iotrace.None, 0)
	return t
}
