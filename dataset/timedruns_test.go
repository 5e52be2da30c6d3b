package dataset

import (
	"strings"
	"testing"
)

func timedRuns(t *testing.T, text string) ([]JobRun, error) {
	t.Helper()
	table, err := ReadTable(strings.NewReader(text), "mine.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := MeasurementsOf(table)
	if err != nil {
		return nil, err
	}
	return TimedRunsOf(table, rows)
}

// TestTimedRuns: a column for each phase, or a word for it beside the time, say the same.
func TestTimedRuns(t *testing.T) {
	for name, text := range map[string]string{
		"columns": "app,class,np,n_nodes,ckpt_file_MiB,coordination_s,storage_s,restart_s\nsolver,-,8,2,100,0.5,3,2\nsolver,-,8,2,100,0.7,5,\n",
		"latency": "app,class,np,n_nodes,ckpt_file_MiB,coordination_s,latency_s,restart_s\nsolver,-,8,2,100,0.5,3.5,2\nsolver,-,8,2,100,0.7,5.7,\n",
		"words": "app,class,np,n_nodes,ckpt_file_MiB,phase,time_s\nsolver,-,8,2,100,coordination,0.5\nsolver,-,8,2,,storage,3\n" +
			"solver,-,8,2,,storage,5\nsolver,-,8,2,,Coordination,0.7\nsolver,-,8,2,,restart,2\n",
	} {
		runs, err := timedRuns(t, text)
		if err != nil || len(runs) != 1 || len(runs[0].Checkpoints) != 2 || len(runs[0].Restarts) != 1 {
			t.Fatalf("%s: %v: %+v", name, err, runs)
		}
		r := runs[0]
		a, b := r.Checkpoints[0], r.Checkpoints[1]
		if a.CoordinationS != 0.5 || a.StorageS != 3 || b.CoordinationS != 0.7 || b.StorageS != 5 || a.StoredBytes != 800<<20 || a.Files != 8 {
			t.Errorf("%s: %+v", name, r.Checkpoints)
		}
		if len(r.Mapping) != 2 || r.Restarts[0].TotalS != 2 || r.Restarts[0].ReadBytes != 800<<20 || r.Engine != DMTCP {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Without phases in some rows all of the latency is storage.
	runs, err := timedRuns(t, "app,class,np,dtapp_MiB,latency_s,coordination_s\na,-,4,10,3,1\na,-,8,5,4,\n")
	if err != nil || len(runs) != 2 || runs[0].Checkpoints[0].StorageS != 3 || runs[0].Checkpoints[0].CoordinationS != 0 {
		t.Errorf("%v: %+v", err, runs)
	}
	if runs, err := timedRuns(t, "app,class,np,dtapp_MiB\na,-,4,10\n"); runs != nil || err != nil {
		t.Errorf("%v: %+v", err, runs)
	}
}

func TestBadTimes(t *testing.T) {
	for text, want := range map[string]string{
		"app,class,np,dtapp_MiB,phase\na,-,4,10,storage\n":                   "needs the other",
		"app,class,np,dtapp_MiB,time_s\na,-,4,10,3\n":                        "needs the other",
		"app,class,np,dtapp_MiB,phase,time_s\na,-,4,10,writing,3\n":          "unknown",
		"app,class,np,dtapp_MiB,phase,time_s\na,-,4,10,,3\n":                 "is empty beside a time",
		"app,class,np,dtapp_MiB,latency_s\na,-,4,10,-3\n":                    "is not a time",
		"app,class,np,dtapp_MiB,latency_s\na,-,4,10,soon\n":                  "not a number",
		"app,class,np,dtapp_MiB,latency_s,storage_s\na,-,4,10,3,5\n":         "a latency of 3 s and phases of 5 s",
		"app,class,np,dtapp_MiB,coordination_s\na,-,4,10,3\n":                "no storage and no latency",
		"app,class,np,dtapp_MiB,latency_s,ckpt_time_s\na,-,4,10,1,99\n":      "is filled in beside latency_s",
		"app,class,np,ckpt_file_MiB,latency_s\na,-,4,100,1\na,-,4,1000,10\n": "of the same configuration",
		"app,class,np,dtapp_MiB,latency_s\na,-,4,,3\n":                       "size of what was written",
		"app,class,np,dtapp_MiB,phase,time_s\na,-,4,10,pause,3\na,-,8,5,,\n": "no storage and no latency",
		"app,class,np,dtapp_MiB,latency_s,app_time_s\na,-,4,10,3,100\n":      "no phase that is known",
	} {
		if _, err := timedRuns(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
