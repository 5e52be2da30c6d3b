package eval

import (
	"fmt"
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
				mib: t.value(i, src.column), writes: t.value(i, "n_writes")}
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
	}
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
