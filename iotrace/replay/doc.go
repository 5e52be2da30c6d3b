// Package replay does what a trace says, with bytes of its own, on the file system
// of the user: to measure what the I/O of a job costs there without the job.
//
//	res, err := replay.Run(ctx, trace, replay.Options{Dir: "/scratch/try", Ranks: 64})
//	fmt.Println(res.Traced.Wall, res.Replayed.Wall)
//
// It is the synthetic program at the end of the first phase of León's method (PhD
// thesis, UAB 2022): the pattern of a checkpoint, without the application.
//
// # What is kept
//
//   - Each rank opens, reads, writes, syncs, seeks, truncates, renames, removes,
//     stats and closes in the order of the trace, with the sizes and offsets of the
//     trace; one operation is one system call.
//   - The concurrency: a rank is a goroutine in system calls, hence a thread. An
//     operation begins when those of its rank have ended that had ended when it
//     began in the trace: a rank that did several things at a time does so again.
//   - Barriers: nobody passes one before all have come that came in the trace. The
//     n-th barrier of a rank is the same as the n-th of another.
//   - What the ranks owed to each other through files: of a file that several use,
//     an operation waits until the file is made, cut or taken away if it was so in
//     the trace; a read waits for what had ended before it.
//   - Parts that did not overlap: a rank begins (its part of) a checkpoint when
//     those of others are done that had ended in the trace by then.
//   - With KeepGaps, the time between the operations of a rank.
//
// # What is not
//
// Steps of the write path (gathering, encoding, waiting for locks), mappings, calls
// on no known file, and what was recorded of MPI-IO above the POSIX calls that it
// made: they are left out and counted in Result.Left. Files that were there before
// the trace are made before the clock starts, with noise where they are read. The
// bytes are noise that nothing compresses; the ranks share it, so that a file system
// that finds equal blocks will find some.
//
// # Other numbers of ranks, other files
//
// With Ranks, rank r beyond those traced does what rank r mod n did, n being the
// ranks traced; scale.go and spread.go say where. With Layout, writes go to other
// files; layout.go says to which. Both are changes of the trace before the replay.
//
// # Promises
//
//   - Nothing is written outside of Options.Dir, and no file there is touched that
//     was there before, unless Overwrite says so.
//   - What was made is removed at the end, whatever the end is, unless Keep is set.
//   - Waiting never ends in a deadlock: everything waits only for what comes earlier
//     in the trace. A barrier that contradicts the times is not kept, and counted.
//   - What fails is an *Error with the file and the offset.
//   - The same trace and options give the same operations.
package replay
