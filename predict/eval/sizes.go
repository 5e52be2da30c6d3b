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

const computed = "the measured shared zone equals Eq 3.11: computed, not measured"

// estimates are the predicted rows of Tables 4.1-4.3.
func (ev *evaluator) estimates(t *sheet) {
	p := thesisTables[t.label]
	for _, r := range p.read(t) {
		z := ev.heldOut(p.app, p.class, "mpich", r.np, r.pn)
		note := ""
		if r.doubtful {
			note = computed
		}
		ev.add(t.label, r.name, "data", r.measured.Data, r.estimated.Data, z.data, "")
		ev.add(t.label, r.name, "library", r.measured.Library, r.estimated.Library, z.library, "")
		ev.add(t.label, r.name, "shared", r.measured.Shared, r.estimated.Shared, z.shared, note)
		ev.add(t.label, r.name, "file", r.measuredFile, r.estimatedFile, z.file(), note)
		if r.measuredTotal > 0 {
			ev.add(t.label, r.name, "total", r.measuredTotal, r.estimatedTotal, z.file().Scale(float64(r.pn*r.nodes)), note)
		}
	}
}

// zones are the other rows of zone sizes that calibrated nothing.
func (ev *evaluator) zones(*sheet) {
	for _, r := range ev.rows {
		if r.Table[0] == '4' {
			continue
		}
		s := ev.calibrated.SeriesOf(r.App, r.Class, r.MPI)
		name := fmt.Sprintf("%s.%s.%d %s", r.App, r.Class, r.NP, r.MPI)
		library, shared := fit.ThesisLibrary(r.MPI), fit.ThesisShared(r.MPI, r.PPN)
		if s.Drift == nil {
			// Lulesh, whose structure is not known.
			ev.add(r.Table, name, "data", r.Data, 0, fit.Estimate{}, "no prediction: measured on one number of processes, and no structure is known")
			ev.add(r.Table, name, "library", r.Library, library, ev.base.Library[r.MPI].Predict(), "")
			ev.add(r.Table, name, "shared", r.Shared, shared, ev.sharedWithout(r.App, r.MPI, r.PPN), "")
			continue
		}
		z, thesis := ev.heldOut(r.App, r.Class, r.MPI, r.NP, r.PPN), 0.
		key := map[string]string{"bt.B": fit.ThesisBTB, "sp.B": fit.ThesisSPB, "bt.D": fit.ThesisBTDOneNode}[r.App+"."+r.Class]
		if c, ok := ev.laws[key]; ok && r.MPI == "mpich" {
			thesis = c.A * math.Pow(float64(r.NP), c.B)
		}
		if s.Points[0].P != float64(r.NP) {
			ev.add(r.Table, name, "data", r.Data, thesis, z.data, "")
		}
		if r.Library > 0 {
			ev.add(r.Table, name, "library", r.Library, library, z.library, "")
		}
		if r.Shared > 0 {
			note := ""
			if r.SharedDoubtful {
				note = computed
			}
			ev.add(r.Table, name, "shared", r.Shared, shared, z.shared, note)
		}
		if r.File > 0 {
			if thesis > 0 {
				thesis = thesis + library + shared
			}
			ev.add(r.Table, name, "file", r.File, thesis, z.file(), "")
		}
	}
}

// useCase is BT.C.25 with collective I/O on 6 nodes of 4 and one of 1: one file of each
// group of the figure, in its order.
func (ev *evaluator) useCase(t *sheet) {
	for i, rank := range []int{1, 0, 24} {
		k := slices.IndexFunc(ev.files, func(f dataset.ImageFile) bool {
			return f.Table == "5.8" && f.Class == "C" && f.NP == 25 && f.Rank == rank
		})
		ev.add(t.label, "bt.C.25 "+t.Text(i, "file_group"), "file", t.value(i, "measured_mean_file_MiB_table_5_8"), t.value(i, "predicted_file_MiB"),
			ev.heldFiles[k], "ours without BT.C.25")
	}
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

// imageFiles are the files of Tables 5.8, 5.9 and 5.11.
func (ev *evaluator) imageFiles(*sheet) {
	for i, f := range ev.files {
		thesis, err := algorithm1(ev.base, f)
		ev.note(err)
		kind := ""
		if f.Aggregator {
			kind = " aggregator"
		}
		ev.add(f.Table, fmt.Sprintf("%s.%s.%d %v F%d%s", f.App, f.Class, f.NP, f.Mapping, f.Rank, kind), "file", f.MiB, thesis, ev.heldFiles[i], "")
	}
}

// mappings are files under other mappings and on other machines.
func (ev *evaluator) mappings(t *sheet) {
	column := map[string]string{"5.17": "mapping", "5.18": "mapping_instances_x_processes"}[t.label]
	for i := range t.Rows {
		class, np, size := "D", 64, "ckpt_file_MiB"
		var nodes, pn int
		if t.label == "3.1" {
			if t.Text(i, "file_type") != "CkptBT.D.64" {
				continue
			}
			nodes, pn, size = int(t.value(i, "n_nodes")), int(t.value(i, "processes_per_node")), "size_per_file_MiB"
		} else {
			class, np = t.Text(i, "class"), int(t.value(i, "n_processes"))
			nodes, pn = t.nodesOf(i, column)
		}
		file := ev.imageOf("bt", class, np, pn)
		row := fmt.Sprintf("bt.%s.%d %dx%d %s%s", class, np, nodes, pn, t.Text(i, "cluster"), t.Text(i, "instance"))
		thesis := 0.
		if s := ev.base.SeriesOf("bt", class, "mpich"); s != nil {
			f, _, err := fit.ThesisLaw(s, nodes)
			if ev.note(err); err != nil {
				return
			}
			thesis = f.At(float64(np)) + fit.ThesisLibrary("mpich") + fit.Algorithm2(pn)
		}
		ev.add(t.label, row, "file", t.value(i, size), thesis, file, "")
		if t.label == "5.18" {
			n := float64(np)
			ev.add(t.label, row, "total", t.value(i, "total_stored_MiB"), n*thesis+predict.ManagerMiB(nodes), managers(file.Scale(n), nodes), "with manager files as on AFS-1")
		}
	}
}

// twice compares a file of a job that writes collectively with both methods.
func (ev *evaluator) twice(table, row string, measured float64, r predict.Request, note string, is func(predict.File) bool) {
	var values [2]fit.Estimate
	for i, law := range []fit.Law{fit.Auto, fit.Thesis} {
		r.IO, r.Law = predict.FullIO, law
		files := ev.size(r).Files
		k := slices.IndexFunc(files, is)
		if k < 0 { // the thesis knows no first aggregator
			k = slices.IndexFunc(files, func(f predict.File) bool { return f.Aggregator })
		}
		values[i] = files[max(0, k)].Estimate
	}
	ev.add(table, row, "file", measured, values[1].Value, values[0], note)
}

// fourNodes is BT.B.16 on four nodes of four.
func (ev *evaluator) fourNodes(aggregators int, buffer float64) predict.Request {
	return predict.Request{App: ev.app("bt.B.16"), Mapping: []int{4, 4, 4, 4}, Aggregators: aggregators, BufferMiB: buffer}
}

// aggregators are runs with other numbers of aggregators.
func (ev *evaluator) aggregators(t *sheet) {
	for i := range t.Rows {
		aggregator := t.Text(i, "is_aggregator_inferred") == "yes"
		row := fmt.Sprintf("bt.B.16, %s aggregators, %s", t.Text(i, "aggregator_setting"), t.Text(i, "file"))
		ev.twice(t.label, row, t.value(i, "ckpt_file_MiB"), ev.fourNodes(int(t.value(i, "n_aggregators")), predict.RomioBuffer), "",
			func(f predict.File) bool { return f.Aggregator == aggregator })
	}
}

// buffers are runs with other buffers.
func (ev *evaluator) buffers(t *sheet) {
	for i := range t.Rows {
		n, buffer := t.value(i, "n_aggregators"), t.value(i, "cb_buffer_size_MiB")
		ev.twice(t.label, fmt.Sprintf("bt.B.16, %g aggregators of %g MiB", n, buffer), t.value(i, "aggregator_ckpt_file_MiB"),
			ev.fourNodes(int(n), buffer), "", func(f predict.File) bool { return f.Aggregator })
	}
}

// openMPIAggregators are other numbers of aggregators under Open MPI.
func (ev *evaluator) openMPIAggregators(t *sheet) {
	for i := range t.Rows {
		setting, n := t.Text(i, "n_aggregators_setting"), 1
		if setting != "Default" {
			n = int(t.value(i, "n_aggregators_setting"))
		}
		// The larger files tell that ranks 0 and 2 are the two aggregators.
		rank := t.Text(i, "file")
		aggregator := n == 4 || rank == "F0" || n == 2 && rank == "F2"
		r := predict.Request{App: ev.app("bt.B.4"), Mapping: []int{4}, MPI: "openmpi", Aggregators: n}
		ev.twice(t.label, fmt.Sprintf("bt.B.4, %s aggregators, %s", strings.ToLower(setting), rank), t.value(i, "ckpt_file_MiB"), r, "",
			func(f predict.File) bool { return f.Aggregator == aggregator })
	}
}

// openMPIComponents are other components of its MPI-IO.
func (ev *evaluator) openMPIComponents(t *sheet) {
	for i := range t.Rows {
		for _, kind := range []struct {
			name, column string
			first        bool
		}{{"largest file", "largest_aggregator_file_MiB", true}, {"other aggregators", "other_aggregator_file_MiB", false}} {
			r := ev.fourNodes(4, 0)
			r.MPI = "openmpi"
			ev.twice(t.label, "bt.B.16, "+t.Text(i, "fcoll_component")+", "+kind.name, t.value(i, kind.column), r, "the component is no parameter of the model",
				func(f predict.File) bool { return f.Aggregator && f.First == kind.first })
		}
	}
}

// tracers are the sizes that tracers saw.
func (ev *evaluator) tracers(t *sheet) {
	columns := map[string][]string{"2.5": {"piom_size_MiB", "darshan_size_MiB"}, "2.6": {"piom_total_MiB", "strace_total_MiB"}}[t.label]
	for i := range t.Rows {
		app, class, np := strings.ToLower(t.Text(i, "app")), t.Text(i, "class"), int(t.value(i, "n_processes"))
		file := ev.imageOf(app, class, np, np/max(1, int(t.value(i, "n_nodes"))))
		for _, c := range columns {
			tool, _, _ := strings.Cut(c, "_")
			ev.add(t.label, fmt.Sprintf("%s.%s.%d %s by %s", app, class, np, t.Text(i, "ckpt_file"), tool), "file", t.value(i, c), 0, file, "")
		}
	}
}

func (ev *evaluator) bursts(t *sheet) {
	written := map[string]float64{}
	for i := range t.Rows {
		written[t.Text(i, "environment")] += t.value(i, "size_MiB")
	}
	for _, where := range []string{"cluster", "cloud"} {
		ev.add(t.label, "bt.B.4 in the "+where+", both bursts", "file", written[where], 0, ev.imageOf("bt", "B", 4, 4), "")
	}
}

func (ev *evaluator) tracedSizes(t *sheet) {
	for i := range t.Rows {
		if strings.HasPrefix(t.Text(i, "quantity"), "checkpoint file size") {
			for _, tool := range []string{"dmtcp", "piom"} {
				ev.add(t.label, "bt.D.25 by "+tool, "file", t.value(i, tool), 0, ev.imageOf("bt", "D", 25, 25), "")
			}
		}
	}
}

// ioZones is one job without I/O, with collective and with simple I/O.
func (ev *evaluator) ioZones(t *sheet) {
	for i := range t.Rows {
		name := t.Text(i, "benchmark")
		io, note := predict.NoIO, "this build has ROMIO, a library zone of 7.96 MiB for 2.45"
		switch {
		case strings.Contains(name, "full"):
			io, note = predict.FullIO, ""
		case strings.Contains(name, "simple"):
			io, note = predict.SimpleIO, "the row gave the memory that data sieving adds"
		}
		aggregator := io == predict.FullIO && t.Text(i, "file") == "F0"
		fileOf := func(law fit.Law) predict.File {
			files := ev.size(predict.Request{App: ev.app("bt.B.4"), IO: io, Law: law}).Files
			return files[max(0, slices.IndexFunc(files, func(f predict.File) bool { return f.Aggregator == aggregator }))]
		}
		k, other := fileOf(""), fileOf(fit.Thesis)
		row := strings.Replace(name, "BT", "bt", 1) + " " + t.Text(i, "file")
		if io != predict.FullIO { // of which only the files are modelled
			ev.add(t.label, row, "data", t.value(i, "dtapp_MiB"), float64(other.Zones.Data), k.Sides[0].Around(float64(k.Zones.Data), 1), "")
		}
		ev.add(t.label, row, "file", t.value(i, "ckpt_file_MiB"), other.Estimate.Value, k.Estimate, note)
	}
}

// flash is FLASH I/O, whose structure is not known. Its first job calibrates the data zone,
// which stays (weak scaling); the other mappings are predicted.
func (ev *evaluator) flash(t *sheet) {
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
		_, err := fmt.Sscanf(t.Text(i, "file"), "F%d", &rank)
		ev.note(err)
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
		ev.add(t.label, fmt.Sprintf("flash.%d %dx%d F%d%s", np, nodes, pn, rank, kind), "file", size, 0, ours, "data zone from the job of four processes on one node")
	}
}

// cloud are the files of one job in a cluster and in the cloud, those of the processes
// that manage it included.
func (ev *evaluator) cloud(t *sheet) {
	for _, where := range []string{"cluster", "cloud"} {
		sums := map[int]float64{}
		for i := range t.Rows {
			nodes, _ := t.nodesOf(i, "mapping_cluster_/_cloud")
			size := t.value(i, where+"_file_MiB")
			sums[nodes] += size * t.value(i, where+"_n_files")
			if t.Text(i, "file_type") == "ckpt_bt" {
				ev.add(t.label, fmt.Sprintf("bt.B.4 %dx%d in the %s", nodes, 4/nodes, where), "file", size, 0, ev.imageOf("bt", "B", 4, 4/nodes), "")
			}
		}
		for _, nodes := range []int{1, 4} {
			ev.add(t.label, fmt.Sprintf("bt.B.4 %dx%d in the %s", nodes, 4/nodes, where), "total", sums[nodes], 0,
				managers(ev.imageOf("bt", "B", 4, 4/nodes).Scale(4), nodes), "with manager files")
		}
	}
}

// area is a zone of one image, added up from its areas.
func (ev *evaluator) area(t *sheet) {
	z := ev.heldOut("bt", "B", "mpich", 4, 4)
	law, _, err := fit.ThesisLaw(ev.base.SeriesOf("bt", "B", "mpich"), 1)
	if ev.note(err); err != nil {
		return
	}
	quantity, note, thesis, ours := "data", "", law.At(4), z.data
	if t.label == "5.21" {
		quantity, note = "shared", "with the library zone; an excerpt, 10 MiB below the 44.9 of Table 5.1"
		thesis, ours = fit.ThesisLibrary("mpich")+fit.ThesisShared("mpich", 4), fit.Independent(z.library, z.shared)
	}
	for i := range t.Rows {
		if t.Text(i, "image_area_hex") == "TOTAL_Bytes" {
			where, _, _ := strings.Cut(t.Text(i, "environment"), " (")
			ev.add(t.label, "bt.B.4 in the "+where, quantity, t.value(i, "size_B_(or_total_in_unit_of_label)")/(1<<20), thesis, ours, note)
		}
	}
}

// collectiveWrite is what BT-IO writes at once, which bounds what an aggregator holds: ten
// writes of 16 MiB and one more make a burst.
func (ev *evaluator) collectiveWrite(t *sheet) {
	full := t.value(0, "n_writes")/t.value(0, "n_bursts") - 1
	v := predict.CollectiveWrite(ev.app("bt.C.16").Instance())
	ev.add(t.label, "bt.C.16, one burst of the application", "write", full*t.value(0, "typical_write_MiB")+t.value(0, "last_or_largest_write_MiB"), 0,
		fit.Around(v, 0.005, 1), "five doubles for each grid point")
}
