package eval

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// examples are the two worked examples for the number of checkpoints.
func (ev *evaluator) examples() error {
	examples, err := examplesOf()
	if err != nil {
		return err
	}
	for _, e := range examples {
		row := fmt.Sprintf("%s.%s.%d, %d nodes", e.app, e.class, e.np, e.nodes)
		data, library, shared, err := ev.heldOut(e.app, e.class, "mpich", e.np, e.pn)
		if err != nil {
			return err
		}
		note := ""
		if e.np == 16 {
			note = "the same process count calibrated the data zone, as 1626.72 MiB in Table 4.1"
		}
		ev.add(e.table, row, "data", e.measured.Data, e.estimated.Data, data, note)
		ev.add(e.table, row, "library", e.measured.Library, e.estimated.Library, library, "")
		ev.add(e.table, row, "shared", e.measured.Shared, e.estimated.Shared, shared, "")
		ev.add(e.table, row, "file", e.measured.total(), e.estimated.total(), fit.Independent(data, library, shared), "measured: sum of the zones")
		size, err := ev.base.Assemble(RequestOf(e), fit.Zone{Estimate: data})
		if err != nil {
			return err
		}
		t, err := ev.base.TimeOf(size, predict.Request{}, "none", nil)
		if err != nil {
			return err
		}
		ours := fit.Estimate{Value: t.Latency.Total, Low: t.LowS, High: t.HighS}
		ev.add(e.table, row+", one checkpoint", "time", e.measCheckpoint, e.estCheckpoint, ours, "measured: sum of the times of the zones")
		seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
		b := interval.Budget{Overhead: e.overhead, App: seconds(e.appTime), Checkpoint: seconds(e.estCheckpoint)}
		s, err := b.Schedule()
		if err != nil {
			return err
		}
		exact := func(v float64) fit.Estimate { return fit.Estimate{Value: v, Low: v, High: v} }
		ev.add(e.table, row, "count", float64(e.count), float64(e.count), exact(float64(s.Count)), "from the checkpoint time of the thesis")
		ev.add(e.table, row+", interval", "time", 0, e.interval, exact(s.Interval.Seconds()), "from the checkpoint time of the thesis")
		ev.add(e.table, row+", whole run", "time", e.measTotal, e.estTotal, exact(s.Total.Seconds()), "from the checkpoint time of the thesis")
	}
	return nil
}

// RequestOf is the job of an example: equal nodes under MPICH.
func RequestOf(e example) predict.Request {
	return predict.Request{App: predict.App{Name: e.app, Class: e.class, NP: e.np}, Mapping: slices.Repeat([]int{e.pn}, e.nodes), MPI: "mpich", IO: predict.NoIO}
}

// useCase is Figure 4.2: BT.C.25 with collective I/O on 6 nodes of 4 and one of 1.
func (ev *evaluator) useCase() error {
	t, err := dataset.LoadTable("fig_4_2")
	if err != nil {
		return err
	}
	files, predicted, err := predict.HeldOutFiles()
	if err != nil {
		return err
	}
	// One file of each group of the figure, in its order.
	group := func(want int) fit.Estimate {
		for i, f := range files {
			if f.Table == "5.8" && f.Class == "C" && f.NP == 25 && f.Rank == want {
				return predicted[i]
			}
		}
		return fit.Estimate{}
	}
	for i, rank := range []int{1, 0, 24} {
		thesis, err := t.Number(i, "predicted_file_MiB")
		if err != nil {
			return err
		}
		measured, err := t.Number(i, "measured_mean_file_MiB_table_5_8")
		if err != nil {
			return err
		}
		ev.add("fig 4.2", "bt.C.25 "+t.Text(i, "file_group"), "file", measured, thesis, group(rank), "ours without BT.C.25")
	}
	return nil
}

// algorithm1 is Algorithm 1 of the thesis with constants of 16 and 32 MiB.
func algorithm1(m *predict.Model, f dataset.ImageFile) (float64, error) {
	_, inst, err := predict.CaseOf(f)
	if err != nil {
		return 0, err
	}
	r, err := predict.Request{App: predict.AppOf(inst), Mapping: f.Mapping, MPI: f.MPI, IO: predict.FullIO, Aggregators: f.Aggregators, Law: fit.Thesis}.Normal()
	if err != nil {
		return 0, err
	}
	data, err := m.DataZone(r.App, f.MPI, fit.Thesis, len(f.Mapping))
	if err != nil {
		return 0, err
	}
	k := predict.ThesisFile(r, predict.File{PPN: predict.PpnOf(f), Count: 1, Aggregator: f.Aggregator}, data.Estimate)
	return k.Estimate.Value, nil
}

// imageFiles are the files of Tables 5.8, 5.9 and 5.11, each predicted from the
// jobs other than its own.
func (ev *evaluator) imageFiles() error {
	files, predicted, err := predict.HeldOutFiles()
	if err != nil {
		return err
	}
	for i, f := range files {
		thesis, err := algorithm1(ev.base, f)
		if err != nil {
			return err
		}
		kind := ""
		if f.Aggregator {
			kind = " aggregator"
		}
		ev.add(f.Table, fmt.Sprintf("%s.%s.%d %v F%d%s", f.App, f.Class, f.NP, f.Mapping, f.Rank, kind), "file", f.MiB, thesis, predicted[i], "")
	}
	return nil
}

// mappings are files under other mappings and on other machines: Tables 3.1, 5.17 and
// 5.18. They calibrate nothing.
func (ev *evaluator) mappings() error {
	for _, src := range []struct{ table, size, mapping, total string }{
		{"3.1", "size_per_file_MiB", "", ""},
		{"5.17", "ckpt_file_MiB", "mapping", ""},
		{"5.18", "ckpt_file_MiB", "mapping_instances_x_processes", "total_stored_MiB"},
	} {
		t, err := dataset.LoadTable(src.table)
		if err != nil {
			return err
		}
		for i := range t.Rows {
			app, class, np := "bt", "D", 64
			nodes, pn := 0, 0
			if src.mapping == "" {
				if t.Text(i, "file_type") != "CkptBT.D.64" {
					continue
				}
				nodes, _ = strconv.Atoi(t.Text(i, "n_nodes"))
				pn, _ = strconv.Atoi(t.Text(i, "processes_per_node"))
			} else {
				class = t.Text(i, "class")
				np, _ = strconv.Atoi(t.Text(i, "n_processes"))
				if _, err := fmt.Sscanf(strings.NewReplacer("N", "", "I", "", "P", "").Replace(t.Text(i, src.mapping)), "%d x %d", &nodes, &pn); err != nil {
					return fmt.Errorf("table %s: mapping %q: %w", src.table, t.Text(i, src.mapping), err)
				}
			}
			measured, err := t.Number(i, src.size)
			if err != nil {
				return err
			}
			data, library, shared, err := ev.heldOut(app, class, "mpich", np, pn)
			if err != nil {
				return err
			}
			row := fmt.Sprintf("%s.%s.%d %dx%d %s%s", app, class, np, nodes, pn, t.Text(i, "cluster"), t.Text(i, "instance"))
			thesis := 0.
			if s := ev.base.SeriesOf(app, class, "mpich"); s != nil {
				f, _, err := fit.ThesisLaw(s, nodes)
				if err != nil {
					return err
				}
				thesis = f.At(float64(np)) + fit.ThesisLibrary("mpich") + fit.Algorithm2(pn)
			}
			file := fit.Independent(data, library, shared)
			ev.add(src.table, row, "file", measured, thesis, file, "")
			if src.total != "" {
				total, err := t.Number(i, src.total)
				if err != nil {
					return err
				}
				n := float64(np)
				ours := fit.Independent(file.Scale(n), fit.Around(predict.ManagerMiB(nodes), 0.3*predict.ManagerMiB(nodes), 1))
				ev.add(src.table, row, "total", total, n*thesis+predict.ManagerMiB(nodes), ours, "with manager files as on AFS-1")
			}
		}
	}
	return nil
}

// buffers are runs with other numbers of aggregators and other buffers: Table 5.10 and
// Figure 5.9, BT.B.16 on four nodes of four. They calibrate nothing.
func (ev *evaluator) buffers() error {
	a, err := ev.base.Application("bt.B.16", 0)
	if err != nil {
		return err
	}
	file := func(aggregators int, buffer float64, aggregator bool, law fit.Law) (fit.Estimate, error) {
		s, err := ev.base.Size(predict.Request{App: a, Mapping: []int{4, 4, 4, 4}, IO: predict.FullIO, Aggregators: aggregators, BufferMiB: buffer, Law: law})
		if err != nil {
			return fit.Estimate{}, err
		}
		i := slices.IndexFunc(s.Files, func(f predict.File) bool { return f.Aggregator == aggregator })
		return s.Files[i].Estimate, nil
	}
	both := func(table, row string, measured float64, aggregators int, buffer float64, aggregator bool) error {
		ours, err := file(aggregators, buffer, aggregator, fit.Auto)
		if err != nil {
			return err
		}
		thesis, err := file(aggregators, buffer, aggregator, fit.Thesis)
		if err != nil {
			return err
		}
		ev.add(table, row, "file", measured, thesis.Value, ours, "")
		return nil
	}
	t, err := dataset.LoadTable("5.10")
	if err != nil {
		return err
	}
	for i := range t.Rows {
		n, err := t.Number(i, "n_aggregators")
		if err != nil {
			return err
		}
		measured, err := t.Number(i, "ckpt_file_MiB")
		if err != nil {
			return err
		}
		row := fmt.Sprintf("bt.B.16, %s aggregators, %s", t.Text(i, "aggregator_setting"), t.Text(i, "file"))
		if err := both("5.10", row, measured, int(n), predict.RomioBuffer, t.Text(i, "is_aggregator_inferred") == "yes"); err != nil {
			return err
		}
	}
	if t, err = dataset.LoadTable("fig_5_9"); err != nil {
		return err
	}
	for i := range t.Rows {
		n, _ := t.Number(i, "n_aggregators")
		buffer, _ := t.Number(i, "cb_buffer_size_MiB")
		measured, err := t.Number(i, "aggregator_ckpt_file_MiB")
		if err != nil {
			return err
		}
		if err := both("fig 5.9", fmt.Sprintf("bt.B.16, %g aggregators of %g MiB", n, buffer), measured, int(n), buffer, true); err != nil {
			return err
		}
	}
	return nil
}

// latencies are Tables 5.3-5.6, each row predicted from the others.
func (ev *evaluator) latencies() error {
	rows, err := dataset.Latencies()
	if err != nil {
		return err
	}
	for i, l := range rows {
		ours, err := predict.LatencyWithout(rows, i)
		if err != nil {
			return err
		}
		thesis := 0.
		if l.Codec == "none" {
			n := float64(l.NP)
			d, lib, s := fit.ThesisSeconds(l.DataMiB/n, fit.ThesisLibrary(l.MPI), l.SharedMiB/n)
			thesis = d + lib + s
		}
		ev.add(l.Table, fmt.Sprintf("%s.%s.%d %s %s", l.App, l.Class, l.NP, l.MPI, l.Codec), "time", l.Seconds, thesis, ours, "")
	}
	return nil
}
