package predictions_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// rankSizes compares what each rank of a job holds with the prediction out of a workload file:
// to the byte, rank by rank. With "sizes" it is open which of the ranks have how much: as many hold
// each amount, and each rank's lies between the ends of its own prediction.
//
//	ranksizes ranks|sizes FILE JOB
func rankSizes(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("ckpt", "show", args[2]+"@1", "--json"))
	var job struct {
		Ranks []struct {
			Data int64 `json:"data"`
		} `json:"rank_zones"`
		Stored int64 `json:"stored_bytes"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &job))
	var measured []int64
	for _, r := range job.Ranks {
		measured = append(measured, r.Data)
	}
	ts.Check(ts.Exec("ckpt", "predict", "size", args[1], "--np", strconv.Itoa(len(measured)), "--json"))
	var p struct {
		Kinds []rankKind `json:"rank_kinds"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &p))
	predicted := make([]int64, len(measured))
	for _, k := range p.Kinds {
		k.fill(ts, predicted)
	}
	if args[0] == "sizes" {
		for _, k := range p.Kinds {
			k.spans(ts, measured)
		}
		slices.Sort(measured)
		slices.Sort(predicted)
	}
	if !slices.Equal(measured, predicted) {
		ts.Fatalf("%s holds %v bytes, predicted are %v", args[2], measured, predicted)
	}
}

type rankKind struct {
	Ranks string `json:"rank_range"`
	Held  int64  `json:"held_bytes"`
	Low   int64  `json:"low_bytes"`
	High  int64  `json:"high_bytes"`
}

// fill sets what its ranks hold.
func (k *rankKind) fill(ts *testscript.TestScript, of []int64) {
	if k.Held < k.Low || k.Held > k.High {
		ts.Fatalf("%d bytes are not between %d and %d", k.Held, k.Low, k.High)
	}
	k.each(func(rank int) { of[rank] = k.Held })
}

// spans checks that its interval holds what its ranks were measured to hold.
func (k *rankKind) spans(ts *testscript.TestScript, measured []int64) {
	k.each(func(rank int) {
		if n := measured[rank]; n < k.Low || n > k.High {
			ts.Fatalf("rank %d holds %d bytes, not between %d and %d", rank, n, k.Low, k.High)
		}
	})
}

func (k *rankKind) each(f func(rank int)) {
	for run := range strings.SplitSeq(k.Ranks, ",") {
		var first, last int
		if n, _ := fmt.Sscanf(run, "%d-%d", &first, &last); n < 2 {
			last = first
		}
		for rank := first; rank <= last; rank++ {
			f(rank)
		}
	}
}
