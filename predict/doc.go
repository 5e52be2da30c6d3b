// Package predict predicts the size and the duration of a checkpoint before the job
// has run, with the uncertainty of the prediction.
//
//	m, err := predict.Default()               // the built-in tables; or
//	m, err := predict.Fit(rows)               // a user's measurements; or
//	m, err := predict.ReadModel(file)         // what Model.Write wrote
//
//	app, err := m.Application("bt.D.64", 0)   // or a workload file
//	r := predict.Request{App: app, Mapping: []int{32, 32}, MPI: "mpich"}
//
//	size, err := m.Size(r)                    // files by zone, total, interval
//	time, err := m.Time(r, "gzip", nil)       // coordination + management + storage
//	stored, err := m.Stored(r, how, nil)      // what ckpt itself stores: package service
//
// Package fit has the laws, package plan compares ways to take checkpoints, and package eval
// compares everything with the built-in tables.
//
// # Models
//
// An image is the sum of its zones, each with its own law:
//
//   - data: a share of the arrays of the workload spec plus a constant that the
//     runtime adds, calibrated by as little as one measurement (fit.Drift). Without a known
//     structure: laws of the number of processes (fit.Law), each with the weight that
//     the measurements give it (fit.ChooseLaws), or the thesis's power law
//   - library: a constant of the MPI build, from some number of processes on
//     (fit.FitLibrary)
//   - shared: by processes per node, a constant + 4 MiB·pn + pn²/16 MiB under the MPICH
//     of the tables, other laws under others, averaged likewise (fit.Shared)
//   - I/O buffer: the memory of an aggregator, the smaller of its buffer and its
//     share of a collective write (iobuffer.go)
//
// The latency of a checkpoint is coordination(np) + management(stored bytes) +
// stored bytes / rate(processes per node), fitted in fit.Latency.
//
// # Promises
//
//   - Every prediction has an interval that contains the true value in 95 of 100
//     cases. With each row of each built-in table left out in turn, the intervals
//     cover 97 % (TestCoverage), and 95 to 97 % on machines drawn by seed, at 2 to 64
//     times the runs fitted (TestDrawnLaws). Extrapolations carry their factor.
//   - Predictions from another machine say so, and have an interval that holds what
//     differs between machines (elsewhere.go).
//   - Every prediction names the law and the points behind it.
//   - The thesis's mode gives the thesis's numbers, to 0.05 MiB. Package eval lists
//     those that it cannot give.
//   - Impossible predictions are refused with a [fit.InputError] and a hint.
//   - The same input gives the same output, to the last digit.
//
// Sizes are in MiB = 2²⁰ bytes and times in seconds, as in the thesis's tables.
// Everything quoted is from B. León Otero, PhD thesis, UAB 2022.
package predict
