// Package report shows traces: as plots, and as one page with the plots and the
// tables of an analysis.
//
//	r := analyze.Analyze(trace, analyze.Options{})
//	err := report.Draw(file, report.Offsets, "svg", trace, r, "")      // or png; of all files
//	err := report.HTML(w, trace, r, nil)
//
// The plots are those of León's thesis: request size and offset against the order
// of operations (Figures 3.5, 3.14-3.17), offset against time by rank (Figure
// 5.10), bandwidth over time, and a histogram of request sizes in Darshan's bins.
// Requests that would cover each other are drawn once; where they are still too
// many, the grid on which they count as the same is made coarser.
//
// Promises:
//
//   - A page is one file: it loads nothing, runs no script, follows the reader's
//     choice of light or dark, and prints. Everything that comes from the trace
//     is escaped, and text: control characters and what is no UTF-8 are replaced.
//   - The same trace gives the same bytes.
//   - The size of a plot is bounded, whatever the number of events; that of a
//     page is about 80 kB for a trace of a few files, and bounded too.
//   - Any trace can be shown, an empty one as well.
//
// Sources: B. León Otero, PhD thesis, UAB 2022.
package report
