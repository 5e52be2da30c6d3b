// Package analyze describes the I/O of a trace. It is the first phase of León's
// method: the I/O pattern of a checkpoint is characterised so that it can be compared,
// predicted and replayed elsewhere.
//
//	r := analyze.Analyze(trace, analyze.Options{})
//	fmt.Println(r.Files[0].Access, r.Files[0].Spatial)   // independent sequential
//	fmt.Print(r.Pattern)                                 // what the ranks do, in a few lines
//	for _, i := range r.Insights { … }                   // what to change
//	c := analyze.Compare(r, other)                       // as Tables 2.5 and 2.6
//
// # What is found
//
//   - Access mode: a file is independent if one rank reads and writes it, otherwise
//     shared.
//   - Spatial pattern (package pattern): the requests of a rank to a file, writes and
//     reads separately, are linked into chains that touch or are one step apart, so
//     that strays and swapped neighbours do not matter. The rest is searched for a
//     backbone of increasing offsets. Requests are judged in blocks of 4096; a
//     pattern must hold for three quarters of them. Writes and reads have each a
//     pattern (direction.go); three quarters of all requests have the
//     overall one, else the direction with more bytes does.
//   - Request sizes (sizes.go): Darshan's bins, the four commonest sizes, uniform or
//     variable, small, medium, large; alignment; Pearson's correlation with time.
//   - Traffic that could be spared: bytes that a process reads and then writes
//     (rewrite.go), and bytes that are read or written again (redundant.go).
//   - Temporal pattern (burst.go, package pattern): bursts, which are phases of the
//     job and not of a rank, of writes, reads or both, and their repetition; the
//     period of I/O phases with a confidence, as FTIO finds it, if the phases
//     confirm it.
//   - Use of the machine (timeline.go, balance.go): bandwidth over time, ranks
//     active at the same time, stragglers.
//   - A description (package pattern) whose length does not depend on the number of ranks
//     if they do the same.
//   - Layers (layers.go): what MPI-IO makes of calls, and which ranks do its POSIX
//     I/O. Sums count no byte of both layers twice.
//   - Counters (counted.go): what they tell of a job without events, and add to events.
//   - Insights (package finding): findings with the numbers behind them, by thresholds
//     from a YAML file.
//
// # JSON
//
// A report marshals to the JSON that docs/CLI.md promises of `ckpt trace
// analyze`: for each file file, access, spatial, ranks, writes, reads,
// bytes_written, bytes_read, bursts [{op, count, bytes, writes, reads, bytes_written,
// bytes_read, start_s, end_s}],
// common_sizes [{size, count}] and size_histogram [{bin, upto, count, writes,
// reads}]; spatial is always one of sequential, strided, random and mixed; detail
// is none for a file without reads and writes. The types say what the other
// fields mean. Fields that end in _s are in seconds, those that end in _share from
// 0 to 1, sizes in bytes.
//
// # Promises
//
//   - The same trace gives the same report, to the last byte of its JSON.
//   - Every trace has a report, whatever its numbers are: nothing panics, and no
//     number in the JSON is infinite or undefined.
//   - Ten million events take a few seconds on one core, and 30 bytes each besides
//     the trace (BenchmarkAnalyze).
//   - At least 98 of 100 synthetic traces of each pattern, with up to 15 % of
//     strays, are recognised (TestAccuracy prints how many).
//
// Sources: B. León Otero, PhD thesis, UAB 2022; Darshan 3.4 (bins); Drishti
// (thresholds); FTIO and Recorder as cited where they are used.
package analyze

import (
	"cmp"
	"math"
	"slices"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// Options control the analysis. Zero values have defaults.
type Options struct {
	// BurstGap is the silence that ends a burst, default 100 ms. That is longer than a
	// request to any healthy storage, and shorter than an iteration of any job.
	BurstGap time.Duration
	// StripeSize of the file system, in bytes, default 1 MiB, Lustre's.
	StripeSize int64
	// Thresholds of findings, default the built-in ones.
	Thresholds *finding.Thresholds
	// Codec says how the job chose its codec, which a trace does not tell.
	Codec finding.Codec
	// Progress, if not nil, is called now and then with the work done, from 0 to
	// Steps(trace).
	Progress func(done int64)
}

// Steps returns the last value of Progress. Each event is visited in trace order, and
// again with its file and rank.
func Steps(tr *iotrace.Trace) int64 { return 2 * int64(len(tr.Events)) }

func (o Options) prepared() Options {
	if o.BurstGap <= 0 {
		o.BurstGap = 100 * time.Millisecond
	}
	if o.StripeSize <= 0 {
		o.StripeSize = 1 << 20
	}
	if o.Thresholds == nil {
		o.Thresholds = finding.Default()
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
	unplaced   pattern.Detail // of requests without an offset
	posix      []bool         // files with POSIX reads and writes
	layered    bool           // there are other reads and writes, too
	layers     []layers       // of files, if layered
	allLayers  layers
	records    records
	operations []Operation // by iotrace.Op
	zones      zoneOperations
	work       []rankWork
	slow       []slowRank
	phases     int // bursts of the job that move more than next to nothing
	begins     begins
	files      []fileWork
	job        bursts
	jobRanks   [2][]int32 // last bursts of the job, of writes and of reads, of each rank
	budget     int        // how many more bursts may be kept
	load       load
	timeline   *timeline
	visits     pattern.Visits
	busy       union // time of all reads and writes
	// Time of reads and writes with events, and of those that only counters have.
	tracedTime, untracedTime float64
	concurrent               *concurrent // ranks
	streams                  *streams
	grouper                  *pattern.Grouper
	total                    *activity
	costs                    costs
	storage                  storage
	order                    []int // file of the trace of each file of the report
}

// Analyze describes a trace. It accepts any trace: events without a known file count
// only as operations, and negative lengths and durations count as zero.
//
// It iterates three times over the events in their order, and then over the requests
// by file and rank.
func Analyze(tr *iotrace.Trace, options Options) *Report {
	a := &analysis{trace: tr, options: options.prepared(), unplaced: pattern.Unplaced(tr), budget: allBursts,
		posix: make([]bool, len(tr.Files)+1), files: make([]fileWork, len(tr.Files)), work: make([]rankWork, len(tr.Ranks)+1),
		jobRanks: [2][]int32{make([]int32, len(tr.Ranks)+1), make([]int32, len(tr.Ranks)+1)}, concurrent: newConcurrent(len(tr.Ranks) + 1),
		operations: make([]Operation, math.MaxUint8+1), streams: newStreams(tr), grouper: pattern.NewGrouper(tr)}
	r := &Report{Job: tr.Job, Source: tr.Source, Events: int64(len(tr.Events)), Files: []File{}, Operations: []Operation{}}
	a.costs = costs{files: make([]fileCost, len(tr.Files)), smallBytes: a.options.Thresholds.SmallBytes, syncBytes: a.options.Thresholds.SyncBytes,
		recorder: recorderTime(tr)}
	a.storage, a.begins = newStorage(tr), newBegins(a.options.BurstGap, len(tr.Ranks)+1)
	from, to := a.span()
	a.inOrder()
	a.tracedTime = a.operations[iotrace.Read].Time + a.operations[iotrace.Write].Time
	a.byFile(r)
	r.Activity = a.total.report()
	a.reportAllLayers(r)
	r.Runtime, r.RecorderCall = tr.Runtime.Seconds(), seconds(0, a.costs.recorder)
	r.ActiveRanks = r.Ranks
	r.Ranks, r.Nodes = members(tr)
	var moved []int64
	for i := range a.job.list {
		b := a.job.list[i].report()
		r.Bursts, moved = append(r.Bursts, b), append(moved, b.Bytes)
	}
	a.phases = a.job.total - len(moved) + phasesAmong(moved)
	r.BurstsTotal = a.job.total
	r.Repetition = repetition(r.Bursts)
	r.Access = jobAccess(r)
	for op, o := range a.operations {
		if o.Count > 0 {
			o.Op = iotrace.Op(op).String()
			r.Operations = append(r.Operations, o)
		}
	}
	r.Zones = a.zones.list()
	r.Wall = seconds(from, to)
	r.Busy, r.Untimed = a.busyTime(r.Wall), untimed(tr)
	r.Concurrency = Concurrency{Mean: ratio(a.concurrent.sum, a.concurrent.any), Max: a.concurrent.max}
	if a.concurrent.max > 0 && a.concurrent.any == 0 {
		r.Concurrency.Mean = 1 // operations take no time
	}
	r.Bandwidth = a.timeline.bandwidth()
	gap := a.options.BurstGap.Seconds()
	if signal, width := a.timeline.signal(gap / 2); len(signal) >= 16 && len(tr.Events) > 0 {
		if a.visits.Len() < pattern.LeastVisits {
			a.visits = a.timeline.visits(gap)
		}
		r.Period = pattern.Find(signal, width, &a.visits)
	}
	if len(tr.Events) == 0 && len(tr.Counters) > 0 {
		a.finishCounted(r)
	}
	r.Balance, a.slow = balance(tr, a.work, a.options.Thresholds.StragglerFactor)
	r.Pattern = a.grouper.Pattern()
	r.Insights = finding.Find(a.facts(r), a.options.Thresholds)
	sortFiles(r.Files)
	return r
}

// sortFiles puts files that moved more bytes, or took more time, first. Findings need
// them in the order of the trace.
func sortFiles(files []File) {
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(b.Time(), a.Time()))
	})
}

// Bytes returns the bytes that were read and written.
func (a *Activity) Bytes() int64 { return iotrace.Sum(a.BytesWritten, a.BytesRead) }

// Time returns the seconds of all operations, summed over the ranks.
func (a *Activity) Time() float64 { return a.WriteTime + a.ReadTime + a.MetadataTime + a.SyncTime }

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

// A load is about all events of a job.
type load struct {
	active     union // time with at least one
	checkpoint int32 // its number, if all events belong to one; else 0
}

func (l *load) add(e *iotrace.Event, i int) {
	l.active.add(e.Start, e.End)
	if i == 0 {
		l.checkpoint = e.Checkpoint
	} else if e.Checkpoint != l.checkpoint {
		l.checkpoint = 0
	}
}

// moves reports whether e moves bytes of a file at the layer that counts.
func (a *analysis) moves(e *iotrace.Event) bool {
	return e.Op.Data() && (e.Module != iotrace.MPIIO || !a.posix[fileOf(a.trace, e)])
}

func (o *Operation) add(e *iotrace.Event, took float64) {
	o.Count++
	if hasBytes(e.Op) {
		o.Bytes = iotrace.Sum(o.Bytes, max(e.Bytes, 0))
	}
	o.Time += took
}

// zoneOperations are those of each zone, by the number of the operation.
type zoneOperations [math.MaxUint8 + 1][]Operation

func (z *zoneOperations) add(e *iotrace.Event, took float64) {
	if z[e.Zone] == nil {
		z[e.Zone] = make([]Operation, math.MaxUint8+1)
	}
	z[e.Zone][e.Op].add(e, took)
}

func (z *zoneOperations) list() (all []ZoneOperation) {
	for zone, ops := range z {
		for op, o := range ops {
			if o.Count > 0 {
				o.Op = iotrace.Op(op).String()
				all = append(all, ZoneOperation{iotrace.Zone(zone).String(), o})
			}
		}
	}
	return all
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
			} else {
				a.layered = true
			}
		}
	}
	a.prepareRecords()
	from, to, dataFrom, dataTo = a.records.extend(from, to, dataFrom, dataTo)
	if from > to {
		from, to = 0, 0
	}
	if dataFrom > dataTo {
		dataFrom, dataTo = from, from
	}
	a.timeline = newTimeline(dataFrom, dataTo)
	if a.layered {
		a.layers = make([]layers, len(a.files))
	}
	return from, to
}

// inOrder visits the events in their order.
func (a *analysis) inOrder() {
	gap := int64(a.options.BurstGap)
	// The ranks of a burst of writes and one of reads together. Ranks of a burst that
	// ended long ago may have begun another one meanwhile; then there are too few.
	a.job.joined = func(write, read int32) (n int) {
		for rank := range a.jobRanks[0] {
			if a.jobRanks[0][rank] == write || a.jobRanks[1][rank] == read {
				n++
			}
		}
		return n
	}
	unlimited := math.MaxInt
	for i := range a.trace.Events {
		if i&(1<<16-1) == 0 {
			a.options.Progress(int64(i))
		}
		e := &a.trace.Events[i]
		took := seconds(e.Start, e.End)
		moves := a.moves(e)
		if moves || !e.Op.Data() {
			a.operations[e.Op].add(e, took)
			if e.Zone != 0 {
				a.zones.add(e, took)
			}
		}
		a.load.add(e, i)
		rank, file := rankOf(a.trace, e), fileOf(a.trace, e)
		a.costs.add(e, file, moves, isRank(a.trace, rank))
		if e.Op.Step() || !e.Op.Valid() || file == len(a.files) {
			a.streams.none(i)
			continue
		}
		ofRank := isRank(a.trace, rank)
		w := &a.work[rank]
		w.add(e.Start, e.End)
		f := &a.files[file]
		if a.layered {
			a.layers[file].addEvent(e, rank, ofRank, took)
		}
		if moves {
			if e.Bytes < a.options.Thresholds.SmallBytes {
				f.smallTime[direction(e.Op == iotrace.Read)] += took
			}
			w.bytes, w.requests = iotrace.Sum(w.bytes, max(e.Bytes, 0)), w.requests+1
			a.timeline.add(e.Op, e.Start, e.End, e.Bytes)
			a.visits.Add(seconds(a.timeline.start, e.Start), seconds(a.timeline.start, e.End), float64(max(e.Bytes, 0)), a.options.BurstGap.Seconds())
			a.busy.add(e.Start, e.End)
			a.job.add(e, int32(i), gap, &unlimited)
			f.bursts.add(e, int32(i), gap, &a.budget)
			if ofRank {
				a.begins.add(rank, e)
				a.concurrent.add(rank, e.Start, e.End)
				d := direction(e.Op == iotrace.Read)
				if last := a.job.started[d]; a.jobRanks[d][rank] != last {
					a.jobRanks[d][rank] = last
					a.job.cur[d].ranks++
				}
			}
		}
		renews := empties(e)
		if renews {
			f.emptied = append(f.emptied, int32(i))
		}
		a.streams.add(i, file, rank, moves, renews || e.Op == iotrace.Open)
		f.add(e, took, moves)
	}
	a.job.finish()
	a.begins.finish()
	for i := range a.files {
		a.files[i].bursts.finish()
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
	counted := a.records.list
	stripes := stripings(a.trace)
	for len(rest)+len(counted) > 0 {
		of, records, file := nextFile(&rest, &counted)
		f.reset()
		f.work = &a.files[file]
		f.read(of)
		f.count(records, of)
		lossy = lossy || f.lossy()
		a.total.merge(f)
		for i := range of {
			done += int64(len(of[i].requests))
		}
		a.options.Progress(done)
		if f.lossy() {
			f.recount(of)
		}
		x := File{Name: a.trace.Files[file], Activity: f.report(), Striping: stripes[file]}
		x.Bursts, x.BurstsTotal = f.reportBursts(&x.Activity)
		x.Repetition = repetition(x.Bursts)
		a.reportLayers(file, records, &x.Activity)
		a.order = append(a.order, int(file))
		r.Files = append(r.Files, x)
	}
	if lossy || a.total.lossy() {
		a.total.recount(all)
	}
}
