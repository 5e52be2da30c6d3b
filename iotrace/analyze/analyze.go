package analyze

import (
	"math"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/period"
)

// Options control the analysis. Zero values have defaults.
type Options struct {
	// BurstGap is the silence that ends a burst, default 100 ms. That is longer than a
	// request to any healthy storage, and shorter than an iteration of any job.
	BurstGap time.Duration
	// StripeSize of the file system, in bytes, default 1 MiB, Lustre's.
	StripeSize int64
	// Thresholds of findings, default the built-in ones.
	Thresholds *Thresholds
	// Codec says how the job chose its codec, which a trace does not tell.
	Codec Codec
	// Progress, if not nil, is called now and then with the work done, from 0 to
	// Steps(trace).
	Progress func(done int64)
}

// Codec says how a job chooses the codec of what it writes.
type Codec uint8

// The ways to choose.
const (
	CodecUnknown Codec = iota
	CodecFixed         // its user did
	CodecLearns        // the job does, by what it measures at each checkpoint
)

// Steps returns the last value of Progress. Each event is visited in trace order, and
// again with those of its file and rank.
func Steps(tr *iotrace.Trace) int64 { return 2 * int64(len(tr.Events)) }

func (o Options) prepared() Options {
	if o.BurstGap <= 0 {
		o.BurstGap = 100 * time.Millisecond
	}
	if o.StripeSize <= 0 {
		o.StripeSize = 1 << 20
	}
	if o.Thresholds == nil {
		o.Thresholds = defaultThresholds()
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	return o
}

// An analysis is an analysis in progress.
type analysis struct {
	trace      *iotrace.Trace
	options    Options
	posix      []bool      // files with POSIX reads and writes
	operations []Operation // by iotrace.Op
	work       []rankWork
	files      []fileWork
	job        bursts
	jobRanks   []int32 // last burst of the job for each rank
	budget     int     // how many more bursts may be kept
	load       load
	timeline   *timeline
	visits     period.Visits
	busy       union       // time of all reads and writes
	concurrent *concurrent // those of ranks
	streams    *streams
	grouper    *grouper
	total      *activity
}

// Analyze describes a trace. It accepts any trace: events without a known file count
// only as operations, and negative lengths and durations count as zero.
//
// It iterates three times over the events in their order, and then over the requests
// by file and rank.
func Analyze(tr *iotrace.Trace, options Options) *Report {
	a := &analysis{trace: tr, options: options.prepared(), budget: allBursts,
		posix: make([]bool, len(tr.Files)+1), files: make([]fileWork, len(tr.Files)), work: make([]rankWork, len(tr.Ranks)+1),
		jobRanks: make([]int32, len(tr.Ranks)+1), concurrent: newConcurrent(len(tr.Ranks) + 1),
		operations: make([]Operation, math.MaxUint8+1), streams: newStreams(tr), grouper: newGrouper(tr)}
	r := &Report{Job: tr.Job, Source: tr.Source, Events: int64(len(tr.Events)), Files: []File{}, Operations: []Operation{}}
	from, to := a.span()
	a.inOrder()
	a.byFile(r)
	r.Activity = a.total.report()
	r.ActiveRanks = r.Ranks
	r.Ranks, r.Nodes = members(tr)
	for i := range a.job.list {
		r.Bursts = append(r.Bursts, a.job.list[i].report())
	}
	r.BurstsTotal = a.job.total
	r.Repetition = repetition(r.Bursts)
	r.Access = jobAccess(r)
	for op, o := range a.operations {
		if o.Count > 0 {
			o.Op = iotrace.Op(op).String()
			r.Operations = append(r.Operations, o)
		}
	}
	r.Wall, r.Busy = seconds(from, to), a.busy.time
	r.Concurrency = Concurrency{Mean: ratio(a.concurrent.sum, a.concurrent.any), Max: a.concurrent.max}
	if a.concurrent.max > 0 && a.concurrent.any == 0 {
		r.Concurrency.Mean = 1 // operations take no time
	}
	r.Bandwidth = a.timeline.bandwidth()
	gap := a.options.BurstGap.Seconds()
	if signal, width := a.timeline.signal(gap / 2); len(signal) >= 16 {
		if a.visits.Len() < period.LeastVisits {
			a.visits = a.timeline.visits(gap)
		}
		r.Period = period.Find(signal, width, &a.visits)
	}
	r.Balance = balance(tr, a.work, a.options.Thresholds.StragglerFactor)
	r.Pattern = a.grouper.pattern()
	r.Insights = insights(r, &a.load, a.options.Thresholds, a.options.StripeSize, a.options.Codec)
	return r
}

// members counts the ranks of a job and their nodes. A process without a number, such
// as the coordinator of ckpt, does not count.
func members(tr *iotrace.Trace) (ranks, nodes int) {
	seen := map[string]bool{}
	for i, r := range tr.Ranks {
		if !isRank(tr, i) {
			continue
		}
		ranks++
		if r.Node != "" {
			seen[r.Node] = true
		}
	}
	return ranks, len(seen)
}

func jobAccess(r *Report) Access {
	var n, shared int
	for i := range r.Files {
		if f := &r.Files[i]; f.Writes+f.Reads > 0 || r.Writes+r.Reads == 0 {
			n++
			if f.Access == Shared {
				shared++
			}
		}
	}
	switch shared {
	case 0:
		return Independent
	case n:
		return Shared
	}
	return MixedAccess
}

// A load breaks down the time of a job.
type load struct {
	active, encoding, writing union   // of all ranks
	small                     float64 // s, of small requests, summed over the ranks
	checkpoint                int32   // its number, if all events belong to one; else 0
	// Metadata operations of processes other than ranks, with their time in s.
	otherMetadata     int64
	otherMetadataTime float64
}

func (l *load) add(e *iotrace.Event, i int) {
	l.active.add(e)
	switch e.Op {
	case iotrace.Encode:
		l.encoding.add(e)
	case iotrace.Write:
		l.writing.add(e)
	}
	if i == 0 {
		l.checkpoint = e.Checkpoint
	} else if e.Checkpoint != l.checkpoint {
		l.checkpoint = 0
	}
}

// moves reports whether e moves bytes of a file at the layer that counts.
func (a *analysis) moves(e *iotrace.Event) bool {
	return e.Op.Data() && (e.Module == iotrace.POSIX || !a.posix[fileOf(a.trace, e)])
}

// hasBytes reports whether an operation moves or produces bytes. For other operations
// Bytes is a length: truncating to 100 GiB moves nothing.
func hasBytes(op iotrace.Op) bool {
	return op.Data() || op == iotrace.Gather || op == iotrace.Encode
}

// span chooses the layer that counts for each file, and finds the first and the last
// operation. The timeline runs from the first read or write of a known file to the end
// of the last.
func (a *analysis) span() (from, to int64) {
	from, to = math.MaxInt64, math.MinInt64
	dataFrom, dataTo := from, to
	for i := range a.trace.Events {
		e := &a.trace.Events[i]
		from, to = min(from, e.Start), max(to, e.Start, e.End)
		if file := fileOf(a.trace, e); e.Op.Data() && file < len(a.files) {
			dataFrom, dataTo = min(dataFrom, e.Start), max(dataTo, e.Start, e.End)
			if e.Module == iotrace.POSIX {
				a.posix[file] = true
			}
		}
	}
	if from > to {
		from, to = 0, 0
	}
	if dataFrom > dataTo {
		dataFrom, dataTo = from, from
	}
	a.timeline = newTimeline(dataFrom, dataTo)
	return from, to
}

// inOrder visits the events in their order.
func (a *analysis) inOrder() {
	gap := int64(a.options.BurstGap)
	unlimited := math.MaxInt
	for i := range a.trace.Events {
		if i&(1<<16-1) == 0 {
			a.options.Progress(int64(i))
		}
		e := &a.trace.Events[i]
		took := seconds(e.Start, e.End)
		moves := a.moves(e)
		if moves || !e.Op.Data() {
			o := &a.operations[e.Op]
			o.Count++
			if hasBytes(e.Op) {
				o.Bytes = add(o.Bytes, max(e.Bytes, 0))
			}
			o.Time += took
		}
		a.load.add(e, i)
		rank, file := rankOf(a.trace, e), fileOf(a.trace, e)
		if e.Op.Step() || !e.Op.Valid() || file == len(a.files) {
			a.streams.none(i)
			continue
		}
		ofRank := isRank(a.trace, rank)
		w := &a.work[rank]
		w.add(e)
		f := &a.files[file]
		if moves {
			if e.Bytes < a.options.Thresholds.SmallBytes {
				a.load.small += took
				if e.Op == iotrace.Write {
					f.smallTime += took
				}
			}
			w.bytes = add(w.bytes, max(e.Bytes, 0))
			a.timeline.add(e.Op, e.Start, e.End, e.Bytes)
			a.visits.Add(seconds(a.timeline.start, e.Start), seconds(a.timeline.start, e.End), float64(max(e.Bytes, 0)), a.options.BurstGap.Seconds())
			a.busy.add(e)
			a.job.add(e, int32(i), gap, &unlimited)
			f.bursts.add(e, int32(i), gap, &a.budget)
			if ofRank {
				a.concurrent.add(rank, e.Start, e.End)
				if a.jobRanks[rank] != int32(a.job.total) {
					a.jobRanks[rank] = int32(a.job.total)
					a.job.cur.ranks++
				}
			}
		}
		a.streams.add(i, file, rank, moves)
		f.add(e, took, moves)
		if isMetadata(e.Op) && !ofRank {
			a.load.otherMetadata++
			a.load.otherMetadataTime += took
		}
	}
	a.job.keep(&unlimited)
	for i := range a.files {
		a.files[i].bursts.keep(&a.budget)
	}
}

// byFile visits the requests by file and rank.
func (a *analysis) byFile(r *Report) {
	a.total = newActivity(a, true)
	f := newActivity(a, false)
	all := a.streams.sorted()
	rest := all
	lossy := false
	done := int64(len(a.trace.Events))
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && rest[n].file == rest[0].file {
			n++
		}
		of := rest[:n]
		rest = rest[n:]
		f.reset()
		f.read(of)
		lossy = lossy || f.sizes.lossy
		a.total.merge(f)
		for i := range of {
			done += int64(len(of[i].requests))
		}
		a.options.Progress(done)
		if f.sizes.lossy {
			f.recount(of)
		}
		file := File{Name: a.trace.Files[of[0].file], Activity: f.report()}
		file.Bursts, file.BurstsTotal = f.reportBursts(&file.Activity)
		file.Repetition = repetition(file.Bursts)
		r.Files = append(r.Files, file)
	}
	a.total.sizes.flush()
	if lossy || a.total.sizes.lossy {
		a.total.recount(all)
	}
}
