package eval

import (
	"fmt"
	"math"
	"slices"

	"ckpt/dataset"
)

// A TableUse tells what the evaluation does with a built-in table: it compares its
// numbers with predictions, or it says why it cannot.
type TableUse struct {
	// Table is the short name of the table, Name that of ckpt dataset show.
	Table string `json:"table"`
	Name  string `json:"name"`
	// Evaluated is false for tables that are only described; Reason then says why.
	Evaluated bool   `json:"evaluated"`
	Reason    string `json:"reason,omitempty"`
	// Compared are the quantities, in the order of their rows.
	Compared []string `json:"compared"`
	// Rows have a measurement and a prediction of ours. Median and Max are over
	// their absolute errors. Cases have a 95 % interval, and Covered counts those of
	// them whose measurement lies inside; a rule that gives a number exactly has none.
	Rows    int     `json:"row_count"`
	Median  float64 `json:"our_median"`
	Max     float64 `json:"our_max"`
	Covered int     `json:"covered"`
	Cases   int     `json:"cases"`
}

// described are the tables without any quantity that ckpt predicts.
var described = map[string]string{
	"fig_3_14_3_15_bt_b4_write_counts":   "counts of writes: a property of the checkpointer, not predicted",
	"fig_3_17_bt_b_4_offsets":            "an excerpt of writes and their offsets, not predicted",
	"fig_5_1_bt_d_mapping":               "mappings only: the times exist as a picture",
	"fig_5_6_filesystem_mapping":         "mappings only: sizes and times exist as a picture",
	"fig_validation_set_time_equations":  "a list of runs: their times exist as a picture",
	"models_coefficients":                "the laws of the thesis, not its measurements",
	"platforms":                          "the machines",
	"table_2_4_instrumentation_overhead": "what tracing costs, not predicted",
	"tables_2_1_2_2_2_3_tool_features":   "features of tracers, in words",
	"text_numbers":                       "numbers of the running text, most of them in other tables",
}

// tableUses lists every built-in table with what rows say of it. It is an error if a
// table is neither evaluated nor described, or both.
func tableUses(rows []Row) ([]TableUse, error) {
	var out []TableUse
	for _, name := range dataset.TableNames() {
		u := TableUse{Table: dataset.TableLabel(name), Name: name, Reason: described[name], Compared: []string{}}
		var errs []float64
		for _, r := range rows {
			if r.Table != u.Table {
				continue
			}
			u.Evaluated = true
			if !slices.Contains(u.Compared, r.Quantity) {
				u.Compared = append(u.Compared, r.Quantity)
			}
			if r.OurError == nil {
				continue
			}
			errs = append(errs, math.Abs(*r.OurError))
			if *r.Low < *r.High {
				u.Cases++
			}
			if *r.Low < *r.High && *r.Low <= *r.Measured && *r.Measured <= *r.High {
				u.Covered++
			}
		}
		u.Rows = len(errs)
		u.Median, u.Max = medianMax(errs)
		if u.Evaluated == (u.Reason != "") {
			return nil, fmt.Errorf("table %s must be either evaluated or described", name)
		}
		out = append(out, u)
	}
	return out, nil
}
