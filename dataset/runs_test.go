package dataset

import (
	"slices"
	"strings"
	"testing"
)

// Table 5.14 has several runs of one number of processes; a user's table may count
// processes and nodes instead.
func TestMappedRuns(t *testing.T) {
	table, err := LoadTable("5.14")
	if err != nil {
		t.Fatal(err)
	}
	runs, err := MappedRunsOf(table)
	if err != nil || len(runs) != 6 || !slices.Contains(runs, RunTime{16, 2, 32, 86.49}) {
		t.Errorf("%v: %v", err, runs)
	}
	for text, want := range map[string]string{
		"n_processes,n_nodes,app_time_s\n16,2,80\n16,4,60\n": "",
		"mapping,app_time_s\n4N x 4P,60\n":                   "",
		"mapping,app_time_s\n2N x 4P + 1N x 1P,60\n":         "equal nodes",
		"mapping,app_time_s\n2n x 8p,60\n2n x 8p,61\n":       "repeats line 2: 16 processes on 2 nodes",
		"mapping,app_time_s\n2n x 8p,soon\n":                 "not a number",
		"mapping,app_time_s\n2n x 8p,\n":                     "not a time",
		"app_time_s\n60\n":                                   "n_processes",
		"mapping,aps_s\n2n x 8p,60\n":                        "aps_s",
	} {
		table, err := ReadTable(strings.NewReader(text), "runs.csv")
		if err == nil {
			_, err = MappedRunsOf(table)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
