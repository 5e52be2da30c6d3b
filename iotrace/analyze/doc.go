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
