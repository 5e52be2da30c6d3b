package eval

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// A miniGhostRow is a row of Tables 4.7 to 4.9 or of Figure 4.10. Zero means that the table
// does not say.
type miniGhostRow struct {
	table, class           string
	np, nodes, aggregators int
	buffer                 int64
	mib, writes            float64
	// Reads and readMiB are of a restart, seconds of a whole run with a checkpoint.
	reads, readMiB, seconds float64
}

// misprinted reports whether the size belongs to another job.
func (r *miniGhostRow) misprinted() bool { return r.table == "4.9" && r.np == 32 }

// predict predicts the row.
func (r *miniGhostRow) predict(ev *evaluator) *predict.ApplicationSize {
	inst, err := dataset.ParseApp("minighost."+r.class, r.np)
	if ev.note(err); err != nil {
		return &predict.ApplicationSize{}
	}
	mapping := make([]int, max(1, r.nodes))
	for i := range mapping {
		mapping[i] = r.np / len(mapping)
	}
	s, err := predict.ApplicationOf(inst, mapping, r.aggregators, r.buffer)
	if ev.note(err); err != nil {
		return &predict.ApplicationSize{}
	}
	return s
}

func (r *miniGhostRow) String() string {
	text := fmt.Sprintf("minighost.%s.%d", r.class, r.np)
	if r.nodes > 0 {
		text += fmt.Sprintf(", %d nodes", r.nodes)
	}
	if r.buffer > 0 {
		text += fmt.Sprintf(", %d MiB buffer", r.buffer>>20)
	}
	return text
}

// miniGhostRows reads the tables.
func (ev *evaluator) miniGhostRows() (out []miniGhostRow) {
	for _, src := range []struct{ table, class, column string }{
		{"4.7", "B", "ckpt_file_default_workload_MiB"},
		{"4.7", "C", "ckpt_file_increased_workload_MiB"},
		{"4.8", "C", "total_size_written_MiB"},
		{"4.9", "B", "ckpt_file_MiB"},
		{"fig_4_10", "B", "ckpt_file_MiB"},
	} {
		t := ev.sheet(src.table)
		for i := range t.Rows {
			r := miniGhostRow{table: t.label, class: src.class, np: int(t.value(i, "n_processes")), nodes: int(t.value(i, "n_nodes")),
				aggregators: int(t.value(i, "n_aggregators")), buffer: int64(t.value(i, "cb_buffer_size_MiB")) << 20,
				mib: t.value(i, src.column), writes: t.value(i, "n_writes"),
				reads: t.value(i, "n_reads"), readMiB: t.value(i, "total_size_read_MiB"), seconds: t.value(i, "time_s")}
			if r.np == 0 {
				r.np = 16 // Table 4.8 has no column for it
			}
			out = append(out, r)
		}
	}
	return out
}

// minighost are Tables 4.7 to 4.9 and Figure 4.10: checkpoints at application level, in one
// file, with the same size for any mapping, buffer and number of aggregators. Table 4.8
// counts the writes, too.
func (ev *evaluator) minighost(*sheet) {
	for _, r := range ev.miniGhostRows() {
		if r.misprinted() {
			continue
		}
		s := r.predict(ev)
		ev.add(r.table, r.String(), "total", r.mib, 0, fit.Around(float64(s.Total)/(1<<20), 0, 1), "checkpoint of the application, one file")
		if r.writes > 0 {
			ours := fit.Between(float64(s.Writes), float64(s.Writes), float64(s.WritesHigh), 1)
			ev.add(r.table, r.String(), "write count", r.writes, 0, ours, "requests of the checkpoint of the application")
		}
		if r.reads > 0 {
			ev.restartReads(&r, s)
		}
	}
	ev.miniGhostTimes()
}

// restartReads are what a restart reads: the header, and of the arrays the first alone, a fifth of
// the file. Each aggregator reads its part of the array a buffer at a time, and the five small
// arrays and four parts of the header.
func (ev *evaluator) restartReads(r *miniGhostRow, s *predict.ApplicationSize) {
	first, aggregators := s.Arrays[0].Stored, int64(s.Aggregators)
	const small = 9
	part := (first + aggregators - 1) / aggregators
	reads := float64(aggregators * ((part+s.Buffer-1)/s.Buffer + small))
	mib := float64(first+s.Header) / (1 << 20)
	row := fmt.Sprintf("%s, %d aggregators", r, s.Aggregators)
	ev.add(r.table, row, "restart read", r.readMiB, 0, fit.Around(mib, 0, 1), "a restart reads the first of five arrays, and the header")
	high := max(reads, mib/float64(s.Buffer>>20)+float64(s.WritesHigh)-float64(s.Total/s.Buffer))
	note := "requests of the restart of the application"
	if r.buffer == 4<<20 && s.Aggregators == 4 {
		note += "; the number is that of 16 MiB and one aggregator, probably a misprint"
	}
	ev.add(r.table, row, "read count", r.reads, 0, fit.Between(reads, reads, high, 1), note)
}

// miniGhostTimes are the whole runs of Tables 4.8 and 4.9, each predicted from the other rows of
// its table. No run without a checkpoint is known, so the law has its time on one node and on
// several. In Table 4.9 the checkpoint adds its bytes; those of Table 4.8 are all alike.
func (ev *evaluator) miniGhostTimes() {
	for _, of := range []struct {
		table string
		bytes float64
	}{{"4.8", 0}, {"4.9", 1}} {
		var rows [][]float64
		var seconds []float64
		var runs []miniGhostRow
		for _, r := range ev.miniGhostRows() {
			if r.seconds <= 0 || r.table != of.table {
				continue
			}
			mib := of.bytes * float64(r.predict(ev).Total) / (1 << 20)
			row := []float64{1, 0, mib, 0}
			if r.nodes > 1 {
				row = []float64{1, 1, 0, mib}
			}
			rows, seconds, runs = append(rows, row), append(seconds, r.seconds), append(runs, r)
		}
		for i, r := range runs {
			ours, err := leftOutOf(rows, seconds, i)
			ev.note(err)
			ev.add(r.table, r.String()+", whole run", "time", r.seconds, 0, ours, "whole run with a checkpoint, from the other rows")
		}
	}
}

// leftOutOf fits all rows but one, and predicts that one.
func leftOutOf(rows [][]float64, values []float64, i int) (fit.Estimate, error) {
	others := slices.Delete(slices.Clone(values), i, i+1)
	f, err := fit.LeastSquares(slices.Delete(slices.Clone(rows), i, i+1), others, others, nil)
	if err != nil {
		return fit.Estimate{}, err
	}
	value, dof := f.At(rows[i]), float64(f.N-f.K)
	return fit.Positive(value, math.Sqrt(f.RSS/dof*(1+f.Leverage(rows[i], value))), dof, 1), nil
}

// NoteMeasured notes what the thesis has of the application, or misprints.
func NoteMeasured(s *predict.ApplicationSize) error {
	ev, noted := &evaluator{}, map[string]bool{}
	for _, r := range ev.miniGhostRows() {
		if r.predict(ev).App != s.App || noted[r.table] {
			continue
		}
		noted[r.table] = true
		text := fmt.Sprintf("Table %s has %.7g MiB", r.table, r.mib)
		if r.misprinted() {
			text = fmt.Sprintf("Table %s prints %.2f MiB, the size of minighost.C.16", r.table, r.mib)
		}
		s.Note = fit.Join(s.Note, strings.Replace(text, "Table fig", "Figure", 1))
	}
	return ev.err
}
