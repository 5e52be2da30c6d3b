package traces

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/zones"
)

// layerFiles bounds the files in the table of the MPI-IO layer.
const layerFiles = 10

// recordEvents is how a user gets the events of a job that Darshan counts.
const recordEvents = "set DXT_ENABLE_IO_TRACE=1 for the run: then Darshan records the requests, too"

// needEvents returns an error if a trace has counters only. to is what the command
// would do with events.
func needEvents(t *iotrace.Trace, to string) error {
	if len(t.Events) > 0 || len(t.Counters) == 0 {
		return nil
	}
	return ui.BadUsage("this trace has counters only: it has no events to "+to, recordEvents)
}

// showLayers prints what the job did through which interface, what became of its calls
// of MPI-IO, and how its files are striped.
func showLayers(g *ui.Globals, r *analyze.Report) error {
	if r.Counted {
		remedy := ""
		if r.Traceable() {
			remedy = " To get them, " + recordEvents + "."
		}
		g.Printf("\n%s", wrapped("", "The trace has counters only. Missing are bursts, periods, the pattern, the requests of a rank in their order and which ranks are active at the same time; bandwidth and busy time are estimates."+remedy))
	}
	if len(r.Layers) > 1 || r.MPIIO != nil {
		var rows [][]string
		for _, l := range r.Layers {
			rows = append(rows, []string{l.Layer, strconv.Itoa(l.Files), strconv.Itoa(l.Ranks),
				strconv.FormatInt(l.Writes, 10), ui.MiB(l.BytesWritten), kib(l.MeanWrite), strconv.FormatInt(l.Reads, 10), ui.MiB(l.BytesRead), kib(l.MeanRead)})
		}
		g.Printf("\n")
		g.Table([]string{"layer", "|files", "|ranks", "|writes", "|MiB", "|KiB each", "|reads", "|MiB", "|KiB each"}, rows)
	}
	if r.MPIIO != nil {
		showMPIIO(g, r)
	}
	return showStriping(g, r.Files)
}

func kib(bytes float64) string {
	if bytes == 0 {
		return ""
	}
	return strconv.FormatFloat(bytes/1024, 'f', 1, 64)
}

// showMPIIO prints a table of the files that MPI-IO uses, those with most bytes first.
func showMPIIO(g *ui.Globals, r *analyze.Report) {
	g.Printf("\n")
	for i, line := range mpiioLines(r.MPIIO) {
		name := "            "
		if i == 0 {
			name = "MPI-IO      "
		}
		g.Printf("%s", wrapped(name, line))
	}
	var files []*analyze.File
	for i := range r.Files {
		if r.Files[i].MPIIO != nil {
			files = append(files, &r.Files[i])
		}
	}
	moved := func(f *analyze.File) int64 { return f.MPIIO.BytesWritten + f.MPIIO.BytesRead }
	slices.SortStableFunc(files, func(a, b *analyze.File) int { return cmp.Compare(moved(b), moved(a)) })
	header := []string{"file", "|ranks", "|POSIX", "calls", "|collective", "|requests", "|bytes"}
	rows := mpiioRows(files[:min(len(files), layerFiles)])
	fitNames(header, rows, 0)
	g.Printf("\n")
	g.Table(header, rows)
	if n := len(files) - layerFiles; n > 0 {
		g.Printf("and %s more\n", ui.Count(n, "file"))
	}
}

// mpiioRows returns a row for the writes and one for the reads of each file.
func mpiioRows(files []*analyze.File) (rows [][]string) {
	for _, f := range files {
		m := f.MPIIO
		name, callers, posix := zones.Printable(f.Name), strconv.Itoa(m.Callers), posixRanks(m)
		row := func(calls string, n int64, share, requests, bytes *float64) {
			if n > 0 {
				rows = append(rows, []string{name, callers, posix, calls, percent(share), times(requests), times(bytes)})
				name, callers, posix = "", "", ""
			}
		}
		calls := m.Calls
		if calls == nil {
			calls = new(analyze.Calls)
		}
		row("writes", m.Writes, calls.CollectiveWriteShare, m.RequestsPerWrite, m.WriteAmplification)
		row("reads", m.Reads, calls.CollectiveReadShare, m.RequestsPerRead, m.ReadAmplification)
	}
	return rows
}

// posixRanks is the number of ranks behind MPI-IO.
func posixRanks(m *analyze.MPIIO) string {
	if m.Estimated {
		return "about " + strconv.Itoa(m.PosixRanks)
	}
	return strconv.Itoa(m.PosixRanks)
}

func times(x *float64) string {
	if x == nil {
		return ""
	}
	return "× " + strconv.FormatFloat(*x, 'g', 3, 64)
}

func percent(share *float64) string {
	if share == nil {
		return ""
	}
	return strconv.FormatFloat(100**share, 'f', 0, 64) + " %"
}

// mpiioLines tell of all files.
func mpiioLines(m *analyze.MPIIO) []string {
	below := "no POSIX requests of these files are known"
	if m.PosixWrites+m.PosixReads > 0 {
		below = fmt.Sprintf("%s of them %s the POSIX I/O", posixRanks(m), word(m.PosixRanks, "does", "do"))
		switch {
		case m.PosixRanks == m.Callers:
			below = word(m.Callers, "it does", "all of them do") + " the POSIX I/O"
		case m.PosixRanks > m.Callers:
			below = fmt.Sprintf("%s ranks do POSIX I/O on the same files", posixRanks(m))
		case len(m.Aggregators) > 0:
			below += fmt.Sprintf(": %s %s", word(len(m.Aggregators), "rank", "ranks"), listed(m.Aggregators))
		}
	}
	lines := []string{fmt.Sprintf("%s %s MPI-IO for %s; %s", ui.Count(m.Callers, "rank"), word(m.Callers, "calls", "call"), ui.Count(m.Files, "file"), below)}
	for _, d := range []struct {
		name                           string
		calls, bytes, below, belowSize int64
		grown                          *float64
		kinds                          string
	}{
		{"writes", m.Writes, m.BytesWritten, m.PosixWrites, m.PosixBytesWritten, m.WriteAmplification, kinds(m.Calls, false)},
		{"reads", m.Reads, m.BytesRead, m.PosixReads, m.PosixBytesRead, m.ReadAmplification, kinds(m.Calls, true)},
	} {
		if d.calls == 0 {
			continue
		}
		line := fmt.Sprintf("%s: %s%d calls, %s each", d.name, d.kinds, d.calls, amount(float64(d.bytes)/float64(d.calls)))
		if d.below > 0 {
			line += fmt.Sprintf(", become %d requests, %s each", d.below, amount(float64(d.belowSize)/float64(d.below)))
		}
		if d.grown != nil && d.below > 0 {
			line += fmt.Sprintf(": %s the bytes", times(d.grown))
		}
		lines = append(lines, line)
	}
	if m.ExtraRead > m.PosixBytesRead/100 {
		lines = append(lines, fmt.Sprintf("%s are read that the program did not ask for", amount(float64(m.ExtraRead))))
	}
	return lines
}

// kinds tells how many of the calls are collective and of other kinds.
func kinds(c *analyze.Calls, reads bool) string {
	if c == nil {
		return ""
	}
	share, split, nonblocking := c.CollectiveWriteShare, c.SplitWrites, c.NonblockingWrites
	if reads {
		share, split, nonblocking = c.CollectiveReadShare, c.SplitReads, c.NonblockingReads
	}
	if share == nil {
		return ""
	}
	text := percent(share) + " collective"
	if split > 0 {
		text += fmt.Sprintf(" (%d split)", split)
	}
	if nonblocking > 0 {
		text += fmt.Sprintf(", %d nonblocking", nonblocking)
	}
	return text + "; "
}

// amount formats bytes that were counted.
func amount(bytes float64) string {
	switch {
	case bytes >= 1<<20:
		return strconv.FormatFloat(bytes/(1<<20), 'f', 2, 64) + " MiB"
	case bytes >= 1<<10:
		return strconv.FormatFloat(bytes/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(bytes, 'f', 0, 64) + " B"
}

func word(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func listed(n []int) string {
	words := make([]string, len(n))
	for i, x := range n {
		words[i] = strconv.Itoa(x)
	}
	return strings.Join(words, ", ")
}

// showStriping prints the stripes of the files, files of the same stripes together.
func showStriping(g *ui.Globals, files []analyze.File) error {
	names := map[analyze.Striping][]string{}
	var order []analyze.Striping
	for i := range files {
		s := files[i].Striping
		if s == nil {
			continue
		}
		if names[*s] == nil {
			order = append(order, *s)
		}
		names[*s] = append(names[*s], files[i].Name)
	}
	if len(order) == 0 {
		return nil
	}
	slices.SortFunc(order, func(a, b analyze.Striping) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Size, a.Size))
	})
	var rows [][]string
	header := []string{"stripes", "|files", "the first"}
	for _, s := range order {
		rows = append(rows, []string{fmt.Sprintf("%s × %d", ui.Size(s.Size), s.Count), strconv.Itoa(len(names[s])), zones.Printable(names[s][0])})
	}
	fitNames(header, rows, 2)
	g.Printf("\n")
	return g.Table(header, rows)
}
