package benchmarks

import (
	"fmt"
	"strings"
	"testing"

	"ckpt/image/pfs"
	"ckpt/image/plan"
)

// points lists the runs of a sweep of 32 ranks on a preset, group by group.
func points(t *testing.T, text string) []string {
	t.Helper()
	system, err := pfs.Load("eos-spider2")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSweep(system, nil, &storageOptions{sweep: text, ranks: 32, bytes: "16MiB", seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, g := range s.Groups {
		var words []string
		for _, p := range g.points {
			word := fmt.Sprintf("%v%v%v%v", bit(p.settings.P1), bit(p.settings.P2), bit(p.settings.P3), bit(p.settings.P4))
			if g.Setting != "switches" && g.Setting != "run" {
				word += "/" + strings.ReplaceAll(g.terms[0].get(&p), " ", "")
			}
			words = append(words, word)
		}
		lines = append(lines, g.Setting+" "+strings.Join(words, " "))
	}
	return lines
}

func bit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// TestSweep: switches are combined, other settings vary alone, one value holds for all,
// and usual values that suit no plan are left out.
func TestSweep(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "run 1100",
		"p3=on,p4=on":         "run 1111",
		"p1,p2":               "switches 0000 0100 1000 1100",
		"aggregators":         "aggregators 1100/1 1100/2 1100/4 1100/8 1100/16",
		"osts=4,aggregators":  "aggregators 1100/1 1100/2 1100/4",
		"stripes,p4,p1=off":   "switches 0100 0101; stripes 0100/1MiB 0100/4MiB 0100/10MiB",
		"buffer=4MiB,stripes": "stripes 1100/1MiB 1100/4MiB",
		"ranks=1:48, p2=off":  "ranks 1000/1 1000/48",
		"strategy=individual:static,layout=aggregated": "strategy 1100/individual 1100/static",
	} {
		if got := strings.Join(points(t, text), "; "); got != want {
			t.Errorf("--sweep %s:\n got %s\nwant %s", text, got, want)
		}
	}
	if got := points(t, "p1,p2,p3,p4"); strings.Count(got[0], " ") != 16 {
		t.Errorf("all switches: %s", got)
	}
}

// TestSweepPlan: each rank has its bytes, and ranks are spread over the nodes.
func TestSweepPlan(t *testing.T) {
	s := &sweep{system: &pfs.System{Targets: pfs.Targets{Count: 2}}, nodes: 2, Bytes: 1 << 20}
	p, err := s.plan(sweepPoint{ranks: 5, settings: plan.Settings{Layout: plan.Shared, StripeCount: 2, Aggregators: plan.Auto}})
	if err != nil {
		t.Fatal(err)
	}
	if sum := p.Summary(); sum.Nodes != 2 || sum.Ranks != 5 || sum.Bytes != 5<<20 || len(p.Writers) != 2 || p.Writers[1].Rank != 3 {
		t.Errorf("%d nodes, %d ranks, %d bytes, writers %+v", sum.Nodes, sum.Ranks, sum.Bytes, p.Writers)
	}
}
