package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"

	"ckpt/internal/figure"
	"ckpt/iotrace/analyze"
)

// A table of a page. Numeric columns are aligned to the right.
type table struct {
	Title, Note string
	Head        []value
	Rows        [][]value
}

type value struct{ Text, Class string }

const (
	tableFiles  = 40
	tableBursts = 30
)

func word(text string) value         { return value{Text: text} }
func num(text string) value          { return value{text, "n"} }
func count[T int | int64](n T) value { return num(figure.Number(float64(n))) }

// heads makes headings. A leading = marks a numeric column.
func heads(names ...string) []value {
	var out []value
	for _, n := range names {
		if text, ok := strings.CutPrefix(n, "="); ok {
			out = append(out, num(text))
		} else {
			out = append(out, word(n))
		}
	}
	return out
}

func tables(r *analyze.Report) []table {
	out := []table{filesTable(r), mpiioTable(r), stripesTable(r), burstsTable(r), sizesTable(r), operationsTable(r)}
	if len(r.Balance.Stragglers) > 0 {
		out = append(out, stragglersTable(r))
	}
	return slices.DeleteFunc(out, func(t table) bool { return len(t.Rows) == 0 })
}

// filesTable lists the files with the most bytes, in their order.
func filesTable(r *analyze.Report) table {
	t := table{Title: "Files", Head: heads("file", "access", "pattern", "sizes", "=ranks", "=writes", "=written", "=reads", "=read", "=off stripe")}
	if !r.Counted { // only events show bursts
		t.Head = append(t.Head, heads("=bursts")...)
	}
	files := r.Files // those with the most bytes first
	if n := len(files) - tableFiles; n > 0 {
		t.Note = fmt.Sprintf("The %d with the most bytes; %s are left out.", tableFiles, figure.Number(float64(n)))
		files = files[:tableFiles]
	}
	for i := range files {
		f := &files[i]
		row := []value{{legal(f.Name), "name"}, word(string(f.Access)), word(string(f.Detail)), word(f.Sizes.Kind), count(f.Ranks),
			count(f.Writes), num(bytesText(float64(f.BytesWritten))), count(f.Reads), num(bytesText(float64(f.BytesRead))), num(percent(f.Offsets.UnalignedStripe))}
		if !r.Counted {
			row = append(row, count(f.BurstsTotal))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// mpiioTable says what becomes of the calls of MPI-IO, of all files and then of each.
func mpiioTable(r *analyze.Report) table {
	t := table{Title: "MPI-IO", Head: heads("file", "=ranks", "=POSIX ranks", "calls", "=number", "=collective", "=POSIX requests", "=times the bytes"),
		Note: "POSIX ranks read or write for the ranks that call MPI-IO. Requests and bytes of POSIX are those that the calls become."}
	add := func(name string, m *analyze.MPIIO) {
		posix := figure.Number(float64(m.PosixRanks))
		if m.Estimated {
			posix = "about " + posix
		}
		calls := m.Calls
		if calls == nil {
			calls = new(analyze.Calls)
		}
		row := func(kind string, n, below int64, collective, bytes *float64) {
			if n == 0 {
				return
			}
			share, times := "", ""
			if collective != nil {
				share = percent(*collective)
			}
			if bytes != nil {
				times = fmt.Sprintf("%.3g", *bytes)
			}
			t.Rows = append(t.Rows, []value{{name, "name"}, count(m.Callers), num(posix), word(kind), count(n), num(share), count(below), num(times)})
		}
		row("writes", m.Writes, m.PosixWrites, calls.CollectiveWriteShare, m.WriteAmplification)
		row("reads", m.Reads, m.PosixReads, calls.CollectiveReadShare, m.ReadAmplification)
	}
	if r.MPIIO == nil {
		return t
	}
	add("all files", r.MPIIO)
	n := 0
	for i := range r.Files {
		if f := &r.Files[i]; f.MPIIO != nil && n < tableFiles {
			n++
			add(legal(f.Name), f.MPIIO)
		}
	}
	return t
}

// stripesTable counts the files by their stripes.
func stripesTable(r *analyze.Report) table {
	t := table{Title: "Stripes", Head: heads("=stripe", "=stripes", "=files", "the first")}
	files := map[analyze.Striping][]string{}
	for i := range r.Files {
		if s := r.Files[i].Striping; s != nil {
			files[*s] = append(files[*s], r.Files[i].Name)
		}
	}
	order := slices.SortedFunc(maps.Keys(files), func(a, b analyze.Striping) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Size, a.Size))
	})
	for _, s := range order {
		t.Rows = append(t.Rows, []value{num(bytesText(float64(s.Size))), count(s.Count), count(len(files[s])), {legal(files[s][0]), "name"}})
	}
	return t
}

func burstsTable(r *analyze.Report) table {
	t := table{Title: "Bursts", Head: heads("=", "operation", "kind", "=start", "=duration", "=ranks", "=requests", "=bytes", "=bytes per second")}
	for i, b := range r.Bursts[:min(tableBursts, len(r.Bursts))] {
		rate := "–"
		if b.End > b.Start {
			rate = bytesText(float64(b.Bytes)/(b.End-b.Start)) + "/s"
		}
		t.Rows = append(t.Rows, []value{count(i + 1), word(b.Op), word(b.Kind), num(fmt.Sprintf("%.3f s", b.Start)), num(secondsText(b.End - b.Start)),
			count(b.Ranks), count(b.Count), num(bytesText(float64(b.Bytes))), num(rate)})
	}
	if n := r.BurstsTotal - len(t.Rows); n > 0 {
		t.Note = fmt.Sprintf("The first %d; %s more.", len(t.Rows), figure.Number(float64(n)))
	}
	if p := r.Repetition; p != nil {
		if t.Note != "" {
			t.Note += " "
		}
		t.Note += fmt.Sprintf("Every %d of them repeat, %d times, on average %s apart, give or take %s.", p.Bursts, p.Times, secondsText(p.Interval), percent(p.Deviation))
	}
	return t
}

func sizesTable(r *analyze.Report) table {
	t := table{Title: "Commonest request sizes", Head: heads("=size", "=bytes", "=requests", "=share")}
	for _, s := range r.CommonSizes {
		t.Rows = append(t.Rows, []value{num(bytesText(float64(s.Size))), count(s.Size), count(s.Count), num(percent(float64(s.Count) / float64(max(r.Writes+r.Reads, 1))))})
	}
	return t
}

func operationsTable(r *analyze.Report) table {
	t := table{Title: "Operations", Head: heads("operation", "=count", "=bytes", "=time, sum over ranks"),
		Note: "Ranks work at the same time: the sum is longer than the time that elapses, which findings call wall."}
	for _, o := range r.Operations {
		took := "unknown" // as of operations that only counters have: one time for all kinds
		if o.Time > 0 {
			took = secondsText(o.Time)
		}
		t.Rows = append(t.Rows, []value{word(o.Op), count(o.Count), num(bytesText(float64(o.Bytes))), num(took)})
	}
	return t
}

func stragglersTable(r *analyze.Report) table {
	t := table{Title: "Stragglers", Head: heads("=rank", "node", "=time", "=times the median")}
	for _, s := range r.Balance.Stragglers {
		t.Rows = append(t.Rows, []value{num(fmt.Sprint(s.Rank)), word(legal(s.Node)), num(secondsText(s.Time)), num(fmt.Sprintf("%.2f", s.Factor))})
	}
	if n := r.Balance.StragglersTotal - len(t.Rows); n > 0 {
		t.Note = fmt.Sprintf("%s more.", figure.Number(float64(n)))
	}
	return t
}

// bytesText writes a size with a suitable unit: 0 B, 512 B, 64 KiB, 1.5 MiB.
func bytesText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	for ; math.Abs(n) >= 1024 && i < len(units)-1; i++ {
		n /= 1024
	}
	digits := 0
	if i > 0 && n != math.Trunc(n) {
		digits = max(0, 2-int(math.Log10(math.Abs(n))))
	}
	text := fmt.Sprintf("%.*f", digits, n)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + units[i]
}

// byteTicks marks multiples of a power of two.
func byteTicks(low, high float64) []plot.Tick {
	step := math.Exp2(math.Ceil(math.Log2(max(high-low, 8) / 6)))
	var ticks []plot.Tick
	for x := math.Ceil(low/step) * step; x <= high; x += step {
		ticks = append(ticks, plot.Tick{Value: x, Label: bytesText(x)})
		if len(ticks) > 16 { // the step is lost in the precision of x
			break
		}
	}
	return ticks
}

// logByteTicks marks powers of two on an axis with log₂ of bytes.
func logByteTicks(low, high float64) []plot.Tick {
	step := max(1, math.Ceil((high-low)/8))
	var ticks []plot.Tick
	for x := math.Ceil(low/step) * step; x <= high; x += step {
		ticks = append(ticks, plot.Tick{Value: x, Label: bytesText(math.Exp2(x))})
	}
	return ticks
}

// countTicks marks powers of ten on an axis with logCount of numbers.
func countTicks(_, high float64) []plot.Tick {
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for k := 0; float64(k+1) <= high; k++ {
		ticks = append(ticks, plot.Tick{Value: float64(k + 1), Label: figure.Number(math.Pow10(k))})
	}
	return ticks
}

// logCount keeps 0 and 1 apart on the axis.
func logCount(n int64) float64 {
	if n <= 0 {
		return 0
	}
	return 1 + math.Log10(float64(n))
}

// rateTicks is byteTicks of bytes per second.
func rateTicks(low, high float64) []plot.Tick {
	ticks := byteTicks(low, high)
	for i := range ticks {
		ticks[i].Label += "/s"
	}
	return ticks
}

// secondsText writes a time with a suitable unit.
func secondsText(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0 s"
	case a < 1e-3:
		return fmt.Sprintf("%.3g µs", s*1e6)
	case a < 1:
		return fmt.Sprintf("%.3g ms", s*1e3)
	case a < 1e4:
		return fmt.Sprintf("%.4g s", s)
	}
	return figure.Number(s) + " s"
}
