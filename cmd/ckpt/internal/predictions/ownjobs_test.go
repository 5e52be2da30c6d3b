package predictions_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// ownJobs fits a model to small jobs of an application and compares large ones with their
// predictions: data and shared zones within 1 %, stored bytes of a full checkpoint within
// 3 % (5 % if they are packed), of an incremental one within 10 %, all inside their
// intervals.
//
//	ownjobs APP SMALL,… LARGE,… CODEC
func ownJobs(ts *testscript.TestScript, _ bool, args []string) {
	app, codec := args[0], args[3]
	launch := func(numbers string) (jobs []string) {
		for np := range strings.SplitSeq(numbers, ",") {
			name := fmt.Sprintf("%s.%s-%s", strings.NewReplacer("./", "", ":", "-").Replace(app), np, codec)
			ts.Check(ts.Exec("ckpt", "launch", app, "--np", np, "--iterations", "3", "--every", "1", "--codec", codec, "--job", name, "-q"))
			jobs = append(jobs, name)
		}
		return jobs
	}
	ts.Check(ts.Exec("ckpt", "predict", "fit", "--from-job", strings.Join(launch(args[1]), ","), "-o", "own.model"))
	for _, name := range launch(args[2]) {
		ts.Check(ts.Exec("ckpt", "predict", "eval", name, "--model", "own.model", "--json"))
		var s ownScore
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &s))
		s.check(ts, name, codec)
	}
}

type ownScore struct {
	Zones []struct {
		Zone  string  `json:"zone"`
		Error float64 `json:"relative_difference"`
	} `json:"zone_score_list"`
	Stored []struct {
		Number int     `json:"number"`
		Full   bool    `json:"full"`
		Error  float64 `json:"relative_difference"`
		Inside bool    `json:"inside"`
	} `json:"stored_score_list"`
}

func (s *ownScore) check(ts *testscript.TestScript, name, codec string) {
	if len(s.Zones) != 3 || len(s.Stored) != 2 || !s.Stored[0].Full || s.Stored[1].Full {
		ts.Fatalf("want three zones and two checkpoints, the first full: %+v", s)
	}
	for _, z := range s.Zones {
		ts.Logf("%s: %s off by %.2f %%", name, z.Zone, 100*z.Error)
		if z.Zone != "library" && math.Abs(z.Error) > 0.01 {
			ts.Fatalf("%s: %s zone off by %.2f %%", name, z.Zone, 100*z.Error)
		}
	}
	for _, c := range s.Stored {
		most := 0.1
		switch {
		case c.Full && codec == "none":
			most = 0.03
		case c.Full:
			most = 0.05
		}
		ts.Logf("%s@%d: stored bytes off by %.2f %%", name, c.Number, 100*c.Error)
		if math.Abs(c.Error) > most || !c.Inside {
			ts.Fatalf("%s@%d: stored bytes off by %.2f %%, inside the interval: %v", name, c.Number, 100*c.Error, c.Inside)
		}
	}
}
