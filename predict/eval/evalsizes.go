package eval

import (
	"fmt"
	"math"
	"strings"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
)

// A sheet reads the numbers of one table and keeps the first error.
type sheet struct {
	*dataset.Table
	err error
}

func openSheet(name string) (*sheet, error) {
	t, err := dataset.LoadTable(name)
	return &sheet{Table: t}, err
}

// value is 0 for an empty cell.
func (s *sheet) value(row int, column string) float64 {
	v, err := s.Number(row, column)
	if err != nil && s.err == nil {
		s.err = err
	}
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// nodesOf reads a mapping of equal nodes, as in 4N x 1P, 4n x 1p or 4I x 1P.
func (s *sheet) nodesOf(row int, column string) (nodes, ppn int) {
	text := strings.NewReplacer("N", "", "n", "", "I", "", "P", "", "p", "").Replace(s.Text(row, column))
	if _, err := fmt.Sscanf(text, "%d x %d", &nodes, &ppn); err != nil && s.err == nil {
		s.err = fmt.Errorf("table %s: mapping %q: %w", s.Name, s.Text(row, column), err)
	}
	return nodes, ppn
}

// imageOf predicts the file of a process without I/O, held out of the fits.
func (ev *evaluator) imageOf(app, class string, np, pn int) (fit.Estimate, error) {
	data, library, shared, err := ev.heldOut(app, class, "mpich", np, pn)
	return fit.Independent(data, library, shared), err
}

// traced are the sizes that tracers saw: Tables 2.5 and 2.6, Figures 5.10 and 5.14. They
// calibrate nothing.
func (ev *evaluator) traced() error {
	for _, src := range []struct {
		table   string
		columns []string
	}{{"2.5", []string{"piom_size_MiB", "darshan_size_MiB"}}, {"2.6", []string{"piom_total_MiB", "strace_total_MiB"}}} {
		t, err := openSheet(src.table)
		if err != nil {
			return err
		}
		for i := range t.Rows {
			app, class, np := strings.ToLower(t.Text(i, "app")), t.Text(i, "class"), int(t.value(i, "n_processes"))
			file, err := ev.imageOf(app, class, np, np/max(1, int(t.value(i, "n_nodes"))))
			if err != nil {
				return err
			}
			for _, c := range src.columns {
				tool, _, _ := strings.Cut(c, "_")
				ev.add(src.table, fmt.Sprintf("%s.%s.%d %s by %s", app, class, np, t.Text(i, "ckpt_file"), tool), "file", t.value(i, c), 0, file, "")
			}
		}
		if t.err != nil {
			return t.err
		}
	}
	return ev.tracedFigures()
}

func (ev *evaluator) tracedFigures() error {
	t, err := openSheet("fig_5_14")
	if err != nil {
		return err
	}
	file, err := ev.imageOf("bt", "B", 4, 4)
	if err != nil {
		return err
	}
	written := map[string]float64{}
	for i := range t.Rows {
		written[t.Text(i, "environment")] += t.value(i, "size_MiB")
	}
	for _, where := range []string{"cluster", "cloud"} {
		ev.add("fig 5.14", "bt.B.4 in the "+where+", both bursts", "file", written[where], 0, file, "")
	}
	f, err := openSheet("fig_5_10")
	if err != nil {
		return err
	}
	if file, err = ev.imageOf("bt", "D", 25, 25); err != nil {
		return err
	}
	for i := range f.Rows {
		if strings.HasPrefix(f.Text(i, "quantity"), "checkpoint file size") {
			ev.add("fig 5.10", "bt.D.25 by dmtcp", "file", f.value(i, "dmtcp"), 0, file, "")
			ev.add("fig 5.10", "bt.D.25 by piom", "file", f.value(i, "piom"), 0, file, "")
		}
	}
	return firstOf(t.err, f.err)
}

func firstOf(list ...error) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// ioZones is Table 5.7: one job without I/O, with collective and with simple I/O.
func (ev *evaluator) ioZones() error {
	t, err := openSheet("5.7")
	if err != nil {
		return err
	}
	a, err := ev.base.Application("bt.B.4", 0)
	if err != nil {
		return err
	}
	for i := range t.Rows {
		name := t.Text(i, "benchmark")
		io, note := predict.NoIO, "this build has ROMIO, a library zone of 7.96 MiB for 2.45"
		switch {
		case strings.Contains(name, "full"):
			io, note = predict.FullIO, ""
		case strings.Contains(name, "simple"):
			io, note = predict.SimpleIO, "the row gave the memory that data sieving adds"
		}
		ours, err := ev.base.Size(predict.Request{App: a, IO: io})
		if err != nil {
			return err
		}
		thesis, err := ev.base.Size(predict.Request{App: a, IO: io, Law: fit.Thesis})
		if err != nil {
			return err
		}
		k := fileNamed(ours, io == predict.FullIO && t.Text(i, "file") == "F0")
		other := fileNamed(thesis, k.Aggregator)
		row := strings.Replace(name, "BT", "bt", 1) + " " + t.Text(i, "file")
		if io != predict.FullIO { // of which only the files are modelled
			ev.add("5.7", row, "data", t.value(i, "dtapp_MiB"), float64(other.Zones.Data), k.Sides[0].Around(float64(k.Zones.Data), 1), "")
		}
		ev.add("5.7", row, "file", t.value(i, "ckpt_file_MiB"), other.Estimate.Value, k.Estimate, note)
	}
	return t.err
}

// fileNamed finds the file of an aggregator, or of another process.
func fileNamed(s *predict.Size, aggregator bool) predict.File {
	for _, f := range s.Files {
		if f.Aggregator == aggregator {
			return f
		}
	}
	return s.Files[0]
}

// openMPIBuffers are other numbers of aggregators under Open MPI (Table 5.12), and other
// components of its MPI-IO (Figure 5.8). They calibrate nothing.
func (ev *evaluator) openMPIBuffers() error {
	t, err := openSheet("5.12")
	if err != nil {
		return err
	}
	for i := range t.Rows {
		setting := t.Text(i, "n_aggregators_setting")
		n := 1
		if setting != "Default" {
			n = int(t.value(i, "n_aggregators_setting"))
		}
		// The larger files tell that ranks 0 and 2 are the two aggregators.
		rank := t.Text(i, "file")
		aggregator := n == 4 || rank == "F0" || n == 2 && rank == "F2"
		if err := ev.openMPIFile("5.12", fmt.Sprintf("bt.B.4, %s aggregators, %s", strings.ToLower(setting), rank), "bt.B.4", []int{4}, n, aggregator, false, t.value(i, "ckpt_file_MiB")); err != nil {
			return err
		}
	}
	f, err := openSheet("fig_5_8")
	if err != nil {
		return err
	}
	for i := range f.Rows {
		name := "bt.B.16, " + f.Text(i, "fcoll_component")
		nodes := []int{4, 4, 4, 4}
		if err := ev.openMPIFile("fig 5.8", name+", largest file", "bt.B.16", nodes, 4, true, true, f.value(i, "largest_aggregator_file_MiB")); err != nil {
			return err
		}
		if err := ev.openMPIFile("fig 5.8", name+", other aggregators", "bt.B.16", nodes, 4, true, false, f.value(i, "other_aggregator_file_MiB")); err != nil {
			return err
		}
	}
	return firstOf(t.err, f.err)
}

func (ev *evaluator) openMPIFile(table, row, app string, nodes []int, aggregators int, aggregator, first bool, measured float64) error {
	a, err := ev.base.Application(app, 0)
	if err != nil {
		return err
	}
	note := ""
	if table != "5.12" {
		note = "the component is no parameter of the model"
	}
	r := predict.Request{App: a, Mapping: nodes, MPI: "openmpi", IO: predict.FullIO, Aggregators: aggregators}
	var values [2]fit.Estimate
	for i, law := range []fit.Law{fit.Auto, fit.Thesis} {
		r.Law = law
		s, err := ev.base.Size(r)
		if err != nil {
			return err
		}
		k := fileNamed(s, aggregator)
		for _, f := range s.Files {
			if f.Aggregator && aggregator && f.First == first {
				k = f
			}
		}
		values[i] = k.Estimate
	}
	ev.add(table, row, "file", measured, values[1].Value, values[0], note)
	return nil
}

// flash is Table 5.15: FLASH I/O, whose structure is not known. Its first job calibrates
// the data zone, which stays (weak scaling); the other mappings are predicted.
func (ev *evaluator) flash() error {
	t, err := openSheet("5.15")
	if err != nil {
		return err
	}
	files := ev.base.IO["mpich"]
	plain := func(c predict.IOCase, data float64, pn int) fit.Estimate {
		return files.File(c, fit.Around(data, 0.02*data, 1), ev.base.SharedZone("mpich", "flash", pn))
	}
	data := 0.
	for i := range t.Rows {
		nodes, pn := t.nodesOf(i, "mapping")
		np, aggregators := int(t.value(i, "n_processes")), int(t.value(i, "n_aggregators"))
		c := predict.IOCase{MPI: "mpich", NP: np, Nodes: nodes, Aggregators: aggregators, BufferMiB: predict.RomioBuffer, WriteMiB: math.Inf(1)}
		rank, size := 0, t.value(i, "ckpt_file_MiB")
		if _, err := fmt.Sscanf(t.Text(i, "file"), "F%d", &rank); err != nil {
			return fmt.Errorf("table 5.15: file %q: %w", t.Text(i, "file"), err)
		}
		if i == 1 { // F1 of the first job, no aggregator
			data = size - plain(c, 0, pn).Value
		}
		if nodes*pn == 4 && nodes == 1 {
			continue
		}
		ours, kind := plain(c, data, pn), ""
		if rank%pn == 0 && rank/pn < aggregators {
			ours, kind = fit.Independent(ours, files.Aggregator(c, false)), " aggregator"
		}
		ev.add("5.15", fmt.Sprintf("flash.%d %dx%d F%d%s", np, nodes, pn, rank, kind), "file", size, 0, ours, "data zone from the job of four processes on one node")
	}
	return t.err
}

// cloud are the files of one job in a cluster and in the cloud, those of the processes
// that manage it included: Table 5.19.
func (ev *evaluator) cloud() error {
	t, err := openSheet("5.19")
	if err != nil {
		return err
	}
	for _, where := range []string{"cluster", "cloud"} {
		sums := map[int]float64{}
		for i := range t.Rows {
			nodes, _ := t.nodesOf(i, "mapping_cluster_/_cloud")
			size := t.value(i, where+"_file_MiB")
			sums[nodes] += size * t.value(i, where+"_n_files")
			if t.Text(i, "file_type") != "ckpt_bt" {
				continue
			}
			file, err := ev.imageOf("bt", "B", 4, 4/nodes)
			if err != nil {
				return err
			}
			ev.add("5.19", fmt.Sprintf("bt.B.4 %dx%d in the %s", nodes, 4/nodes, where), "file", size, 0, file, "")
		}
		for _, nodes := range []int{1, 4} {
			file, err := ev.imageOf("bt", "B", 4, 4/nodes)
			if err != nil {
				return err
			}
			total := fit.Independent(file.Scale(4), fit.Around(predict.ManagerMiB(nodes), 0.3*predict.ManagerMiB(nodes), 1))
			ev.add("5.19", fmt.Sprintf("bt.B.4 %dx%d in the %s", nodes, 4/nodes, where), "total", sums[nodes], 0, total, "with manager files")
		}
	}
	return t.err
}

// areas are the zones of one image, added up from its areas: Tables 5.20 and 5.21.
func (ev *evaluator) areas() error {
	data, library, shared, err := ev.heldOut("bt", "B", "mpich", 4, 4)
	if err != nil {
		return err
	}
	c := ev.base.SeriesOf("bt", "B", "mpich")
	thesis, _, err := fit.ThesisLaw(c, 1)
	if err != nil {
		return err
	}
	for _, src := range []struct {
		table, quantity, note string
		thesis                float64
		ours                  fit.Estimate
	}{
		{"5.20", "data", "", thesis.At(4), data},
		{"5.21", "shared", "with the library zone; an excerpt, 10 MiB below the 44.9 of Table 5.1", fit.ThesisLibrary("mpich") + fit.ThesisShared("mpich", 4), fit.Independent(library, shared)},
	} {
		t, err := openSheet(src.table)
		if err != nil {
			return err
		}
		for i := range t.Rows {
			if t.Text(i, "image_area_hex") == "TOTAL_Bytes" {
				where, _, _ := strings.Cut(t.Text(i, "environment"), " (")
				ev.add(src.table, "bt.B.4 in the "+where, src.quantity, t.value(i, "size_B_(or_total_in_unit_of_label)")/(1<<20), src.thesis, src.ours, src.note)
			}
		}
		if t.err != nil {
			return t.err
		}
	}
	return nil
}

// collectiveWrites is Figure 3.5: what BT-IO writes at once, which bounds what an
// aggregator holds.
func (ev *evaluator) collectiveWrites() error {
	t, err := openSheet("fig_3_5")
	if err != nil {
		return err
	}
	w, err := dataset.LoadWorkload("bt")
	if err != nil {
		return err
	}
	inst, err := w.Instance("C", 16)
	if err != nil {
		return err
	}
	// Ten writes of 16 MiB and one more make a burst.
	full := t.value(0, "n_writes")/t.value(0, "n_bursts") - 1
	v := predict.CollectiveWrite(inst)
	ev.add("fig 3.5", "bt.C.16, one burst of the application", "write", full*t.value(0, "typical_write_MiB")+t.value(0, "last_or_largest_write_MiB"), 0,
		fit.Around(v, 0.005, 1), "five doubles for each grid point")
	return t.err
}
