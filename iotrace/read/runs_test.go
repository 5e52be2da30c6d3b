package read

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ckpt/iotrace"
)

// log is a recording of Darshan of so many processes, that began and lasted so many seconds.
func log(name, job string, processes int, began, took int64) Recording {
	t := &iotrace.Trace{Source: "darshan", Origin: time.Unix(1_700_000_000+began, 0).UTC(), Runtime: time.Duration(took) * time.Second,
		Properties: []iotrace.Property{{Name: "user", Value: "7"}, {Name: "job", Value: job}, {Name: "processes", Value: fmt.Sprint(processes)}}}
	for i := range processes {
		t.Ranks = append(t.Ranks, iotrace.Rank{Rank: i})
	}
	t.Files = []string{"/d"}
	t.Counters = []iotrace.Counters{iotrace.UnknownCounters}
	t.Counters[0].File, t.Counters[0].Rank = 0, iotrace.None
	return Recording{name, t}
}

func of(source, job string, began int64) Recording {
	r := log(source, "", 1, began, 10)
	r.Trace.Source, r.Trace.Job, r.Trace.Properties = source, job, nil
	return r
}

func TestRuns(t *testing.T) {
	const day = 86400
	undated := of("strace", "", 0)
	undated.Trace.Origin = time.Time{}
	for _, c := range []struct {
		what            string
		all             []Recording
		together, apart string // sizes of the runs, as files of a command, as files of a directory
	}{
		{"processes of a batch job", []Recording{log("a", "5", 1, 0, 9), log("b", "5", 1, 20, 9), log("c", "5", 1, 40, 9)}, "[3]", "[3]"},
		{"another day, the same number of the job", []Recording{log("a", "5", 1, 0, 9), log("b", "5", 1, 300*day, 9)}, "[1 1]", "[1 1]"},
		{"processes without a batch job at one time", []Recording{log("a", "71", 1, 0, 99), log("b", "72", 1, 5, 9), log("c", "73", 1, 50, 99)}, "[3]", "[1 1 1]"},
		{"processes without a batch job, one after the other", []Recording{log("a", "71", 1, 0, 9), log("b", "72", 1, 50, 9)}, "[1 1]", "[1 1]"},
		{"logs of two jobs", []Recording{log("a", "5", 64, 0, 9), log("b", "6", 64, 203*day, 9)}, "[1 1]", "[1 1]"},
		{"two steps of a batch job", []Recording{log("a", "5", 64, 0, 9), log("b", "5", 64, 20, 9)}, "[1 1]", "[1 1]"},
		{"a job and its helper without MPI", []Recording{log("a", "5", 64, 0, 9), log("b", "5", 1, 2, 9), log("c", "5", 1, 3, 9)}, "[1 2]", "[1 2]"},
		{"texts of strace at one time", []Recording{of("strace", "", 0), of("strace", "", 3)}, "[2]", "[1 1]"},
		{"texts of strace on two days", []Recording{of("strace", "", 0), of("strace", "", day)}, "[1 1]", "[1 1]"},
		{"texts of strace without dates", []Recording{undated, undated}, "[2]", "[1 1]"},
		{"checkpoints of a job of ckpt", []Recording{of("ckpt", "j", 0), of("ckpt", "j", day)}, "[2]", "[2]"},
		{"checkpoints of two jobs of ckpt", []Recording{of("ckpt", "j", 0), of("ckpt", "k", day)}, "[1 1]", "[1 1]"},
	} {
		for want, together := range map[string]bool{c.together: true, c.apart: false} {
			if c.together == c.apart {
				together = true
			}
			var sizes []int
			for _, run := range Runs(slices.Clone(c.all), together) {
				sizes = append(sizes, len(run))
			}
			if got := fmt.Sprint(sizes); got != want {
				t.Errorf("%s, together %v: runs of %s recordings, want %s", c.what, together, got, want)
			}
		}
	}
}

func TestRunsNumberProcesses(t *testing.T) {
	run := Runs([]Recording{log("x/u_p_id5-812_1-2-3-4_1.darshan", "5", 1, 0, 9), log("b.darshan", "5", 1, 0, 9), log("u_p_id5-812_1-2-3-4_2.darshan", "5", 1, 0, 9)}, true)[0]
	var got []int
	for _, r := range run {
		got = append(got, r.Trace.Ranks[0].Rank)
		if r.Trace.Counters[0].Rank != 0 {
			t.Errorf("%s: the sum of its process is of rank %d", r.Name, r.Trace.Counters[0].Rank)
		}
	}
	if want := []int{812, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("processes %d, want %d", got, want)
	}
	alone := Runs([]Recording{log("u_p_id5-812_1-2-3-4_1.darshan", "5", 1, 0, 9)}, true)[0][0].Trace
	if alone.Ranks[0].Rank != 0 {
		t.Errorf("a log alone has process %d", alone.Ranks[0].Rank)
	}
}
