// Package report draws traces: as single plots, and as a page with the plots and the
// tables of an analysis.
//
//	r := analyze.Analyze(trace, analyze.Options{})
//	err := report.Draw(file, report.Offsets, "svg", trace, r, "", iotrace.None) // of all files and ranks
//	err := report.HTML(w, trace, r, nil, nil)
//
// The plots are from León's thesis: request size and offset against the order of
// operations (Figures 3.5, 3.14-3.17), offset against time by rank (Figure 5.10),
// bandwidth over time, and a histogram of request sizes in Darshan's bins. A heatmap has
// the bytes by rank and time; other plots show a rank's operations by file, and the
// balance of the ranks. Requests that would cover each other are drawn once. If too many
// are left, the grid becomes coarser.
//
// Promises:
//
//   - A page is one file: it loads nothing, runs no script, follows the reader's
//     choice of light or dark, and can be printed. Text from the trace is escaped;
//     control characters and bytes that are not UTF-8 are replaced.
//   - The same trace gives the same bytes.
//   - The size of a plot is bounded for any number of events. A page takes about 100
//     kB for a trace of a few files, and is bounded too.
//   - Any trace can be drawn, even an empty one.
//
// Sources: B. León Otero, PhD thesis, UAB 2022.
package report
