package eval

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ckpt/predict/fit"
)

// A thesisTable is one of Tables 4.1-4.3, whose rows print estimates.
type thesisTable struct {
	app, class, law string
	multi           bool
}

var thesisTables = map[string]thesisTable{
	"4.1": {"bt", "D", fit.ThesisBTDOneNode, false},
	"4.2": {"sp", "B", fit.ThesisSPB, false},
	"4.3": {"bt", "D", fit.ThesisBTDNodes, true},
}

// printedZones are the zones of a process as a table prints them, in MiB.
type printedZones struct{ Library, Data, Shared float64 }

func (z printedZones) total() float64 { return z.Library + z.Data + z.Shared }

// An estimateRow is one estimate that the thesis prints, in MiB.
type estimateRow struct {
	name                          string
	np, pn, nodes                 int
	measured, estimated           printedZones
	measuredFile, estimatedFile   float64
	measuredTotal, estimatedTotal float64
	doubtful                      bool
}

// read returns the predicted rows of a table.
func (p thesisTable) read(t *sheet) (out []estimateRow) {
	for i := range t.Rows {
		if t.Text(i, "role") != "predicted" {
			continue
		}
		get := func(column string) float64 { return t.value(i, column) }
		r := estimateRow{pn: int(get("processes_per_node")), nodes: 1, doubtful: t.Text(i, "measured_shmem_equals_eq_3_11") == "yes"}
		if p.multi {
			r.np, r.nodes = int(get("n_processes_total")), int(get("n_nodes_in_this_row"))
			r.name = fmt.Sprintf("%s.%s.%d %s", p.app, p.class, r.np, t.Text(i, "mapping"))
			r.measuredTotal, r.estimatedTotal = get("measured_gstored_of_row_MiB"), get("est_gstored_of_row_MiB")
		} else {
			r.np = int(get("n_processes"))
			r.name = fmt.Sprintf("%s.%s.%d", p.app, p.class, r.np)
		}
		r.measured = printedZones{Data: get("measured_dtapp_MiB"), Library: get("measured_lb_MiB"), Shared: get("measured_shmem_MiB")}
		r.estimated = printedZones{Data: get("est_dtapp_MiB"), Library: get("est_lb_MiB"), Shared: get("est_shmem_MiB")}
		r.measuredFile, r.estimatedFile = get("measured_ckpt_file_MiB"), get("est_ckpt_file_MiB")
		out = append(out, r)
	}
	return out
}

// misprints lists the numbers of the thesis that its own formulas contradict. It runs
// the thesis's models as stated and compares the results with the printed numbers.
// Matching ones are not listed.
func (ev *evaluator) misprints() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, label := range []string{"4.1", "4.2", "4.3"} {
		p := thesisTables[label]
		c := ev.laws[p.law]
		for _, r := range p.read(ev.sheet(label)) {
			if d := c.A * math.Pow(float64(r.np), c.B); math.Abs(d-r.estimated.Data) > 0.05 {
				say("Table %s, %s: data zone estimated %.2f, the law gives %.2f", label, r.name, r.estimated.Data, d)
			}
			if a := fit.Algorithm2(r.pn); math.Abs(a-r.estimated.Shared) > 0.05 {
				why := "neither Algorithm 2 nor Eq 3.11"
				if e := fit.Eq311(r.pn); math.Abs(e-r.estimated.Shared) <= 0.05 {
					why = "that is Eq 3.11"
				}
				say("Table %s, %s: shared zone estimated %.2f, Algorithm 2 gives %.2f; %s", label, r.name, r.estimated.Shared, a, why)
			}
			if s := r.estimated.total(); math.Abs(s-r.estimatedFile) > 0.05 {
				say("Table %s, %s: file estimated %.2f, the zones add up to %.2f", label, r.name, r.estimatedFile, s)
			}
			n := float64(r.pn * r.nodes)
			if s := r.estimatedFile * n; r.estimatedTotal > 0 && math.Abs(s-r.estimatedTotal) > 0.005*n+0.05 {
				say("Table %s, %s: Gstored estimated %.2f, %g files give %.2f", label, r.name, r.estimatedTotal, n, s)
			}
		}
	}
	for _, label := range []string{"4.5", "4.6"} {
		e := exampleOf(ev.sheet(label))
		n := math.Floor(e.overhead * e.appTime / e.estCheckpoint)
		if v := (1 + e.overhead) * e.appTime / n; math.Abs(v-e.interval) > 0.05 {
			say("Table %s: interval printed %.2f s, the rule that gives the other example exactly gives %.2f s", label, e.interval, v)
		}
		if s := e.measured.total(); math.Abs(s-e.measuredFile) > 1 {
			say("Table %s: file measured %.2f MiB, its zones add up to %.2f", label, e.measuredFile, s)
		}
	}
	return append(out,
		"Eq 5.1-5.3: x is called the time of each zone; the examples are reproduced with its size in bytes",
		`Algorithm 2: ranges print "or" for "and", C1 and C2 are missing, 64 processes lie outside of all ranges`,
		"Section 3.3.3: BT.E.512 is impossible, BT runs on square numbers; a rank of BT.E.529 has 85 times the data of one of BT.B.64",
		"Table 4.2: estimates are labelled 49 and 64 processes, they are those of 36 and 49",
		"Table 4.3, 36 processes (2Nx18P): the shared zone of 248.21 MiB is that of 36 processes on one node",
		"Table 5.2, Lulesh: file 104.41 MiB, its zones add up to 114.39",
		"Table 5.3, BT.D.64: Gstored 47.02 GiB, 64 files of 982.73 MiB are 61.42",
		"Table 5.8, BT.C.9: mapping 3N x 3P, the sizes are those of 2N x 4P + 1N x 1P",
		"Table 4.9, 32 processes: 4882.82 MiB is the size of the increased workload, the default one gives 1220.7")
}

// An example is one worked example of s. 4.1.3: Tables 4.5 and 4.6.
type example struct {
	app, class                    string
	np, pn, nodes                 int
	overhead, appTime             float64
	measured, estimated           printedZones
	measuredFile                  float64
	measuredTimes, estimatedTimes [3]float64
	measCheckpoint, estCheckpoint float64
	count                         int
	interval, measTotal, estTotal float64
}

// exampleOf reads an example.
func exampleOf(t *sheet) example {
	meas, est := map[string]string{}, map[string]string{}
	for i := range t.Rows {
		q := t.Text(i, "quantity")
		meas[q], est[q] = t.Text(i, "measured_or_input"), t.Text(i, "estimated")
	}
	f := func(m map[string]string, key string) float64 {
		v, err := strconv.ParseFloat(m[key], 64)
		t.ev.note(err)
		return v
	}
	e := example{app: strings.ToLower(meas["application"]), class: meas["workload_class"],
		np: int(f(meas, "total_processes")), pn: int(f(meas, "processes_per_node")), nodes: int(f(meas, "n_nodes")),
		overhead: f(meas, "overhead_allowed_pct_of_Tapp") / 100, appTime: f(meas, "application_time_s"),
		measuredFile:   f(meas, "total_size_one_ckpt_file_MiB"),
		measCheckpoint: f(meas, "total_time_one_ckpt_s"), estCheckpoint: f(est, "total_time_one_ckpt_s"),
		count: int(f(est, "n_checkpoints")), interval: f(est, "ckpt_interval_s"),
		measTotal: f(meas, "total_time_app_plus_2_ckpts_s"), estTotal: f(est, "total_time_app_plus_2_ckpts_s")}
	for i, z := range []string{"dtapp", "lb", "shmem"} {
		e.measuredTimes[i], e.estimatedTimes[i] = f(meas, z+"_zone_time_s"), f(est, z+"_zone_time_s")
	}
	zones := func(m map[string]string) printedZones {
		return printedZones{Data: f(m, "dtapp_zone_size_MiB"), Library: f(m, "lb_zone_size_MiB"), Shared: f(m, "shmem_zone_size_MiB")}
	}
	e.measured, e.estimated = zones(meas), zones(est)
	return e
}
