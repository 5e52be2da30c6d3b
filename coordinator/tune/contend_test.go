package tune_test

import (
	"testing"

	"ckpt/coordinator/tune"
	"ckpt/image/iosched"
	"ckpt/image/pfs"
)

// oneDisk is a server with one disk that all jobs share.
func oneDisk() *pfs.System {
	sys := system()
	sys.Servers.Count, sys.Targets.Count = 1, 1
	return sys
}

func contend(t *testing.T, sys *pfs.System, turns []string, jobs ...tune.Contender) *tune.Contention {
	t.Helper()
	c, err := tune.Contend(t.Context(), sys, jobs, tune.Policies{Turns: turns})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Side by side two equal checkpoints take twice as long each. One after the other the
// first takes as long as alone: three quarters of the mean.
func TestContendEqualJobs(t *testing.T) {
	job := tune.Contender{Case: caseOf(t, "bt.B.16", 4)}
	turns := iosched.TurnPolicies()[1:]
	c := contend(t, oneDisk(), turns, job, job)
	none := c.Orders[0]
	if none.Kind != tune.NoOrder || !near(none.Jobs[0].Stretch, 2, .05) || !near(none.Jobs[1].Stretch, 2, .05) {
		t.Errorf("side by side: %+v", none)
	}
	for _, o := range c.Orders[1:] {
		if o.Policy == "rr" || o.Policy == "mlf" {
			continue // windows take turns, so that both end late
		}
		if !near(o.Mean/none.Mean, .75, .03) || !near(o.Total/none.Total, 1, .02) {
			t.Errorf("%s: mean %g of %g, total %g of %g", o.Policy, o.Mean, none.Mean, o.Total, none.Total)
		}
		if !near(min(o.Jobs[0].Stretch, o.Jobs[1].Stretch), 1, .01) || !near(max(o.Jobs[0].Stretch, o.Jobs[1].Stretch), 2, .02) {
			t.Errorf("%s: stretches %v", o.Policy, o.Jobs)
		}
	}
	if len(c.Orders) != 1+len(turns) || c.Jobs[0].Bytes != c.Jobs[1].Bytes || c.Jobs[0].Seconds != c.Jobs[1].Seconds {
		t.Errorf("%d orders, jobs %+v", len(c.Orders), c.Jobs)
	}
}

// A short job that comes while a long one has the storage waits under fifo, and goes first
// under policies of the shortest.
func TestContendShortJob(t *testing.T) {
	long := tune.Contender{Case: caseOf(t, "bt.B.16", 4), User: "ann"}
	short := tune.Contender{Case: caseOf(t, "bt.W.4", 2), User: "ben", Start: .5}
	c := contend(t, oneDisk(), []string{"fifo", "srpt", "wsjf"}, long, short)
	if c.Jobs[1].Seconds > c.Jobs[0].Seconds/4 {
		t.Fatalf("alone %v: the second is not short", c.Jobs)
	}
	fifo, srpt, wsjf := c.Orders[1], c.Orders[2], c.Orders[3]
	if want := c.Jobs[0].Seconds - .5 + c.Jobs[1].Seconds; !near(fifo.Jobs[1].Seconds, want, .02) || fifo.Jobs[0].Turns != 1 {
		t.Errorf("fifo: flow %g, want %g; %v turns", fifo.Jobs[1].Seconds, want, fifo.Jobs)
	}
	for _, o := range []tune.Order{srpt, wsjf} {
		if !near(o.Jobs[1].Stretch, 1, .1) || o.Jobs[0].Turns != 2 || !near(o.Jobs[0].Seconds, c.Jobs[0].Seconds+c.Jobs[1].Seconds, .02) {
			t.Errorf("%s: %+v, alone %+v", o.Policy, o.Jobs, c.Jobs)
		}
	}
	if want := c.Jobs[0].Seconds + c.Jobs[1].Seconds; !near(srpt.Total, want, .02) {
		t.Errorf("srpt: total %g, want %g", srpt.Total, want)
	}
}

// A restart reads. Jobs that do not meet do not wait.
func TestContendReader(t *testing.T) {
	sys := oneDisk()
	sys.Targets.ReadRate = 200e6
	job := tune.Contender{Case: caseOf(t, "bt.W.4", 2)}
	reader := tune.Contender{Case: caseOf(t, "bt.W.4", 2), Read: true, Start: 100}
	c := contend(t, sys, []string{"fifo"}, job, reader)
	if !near(c.Jobs[1].Seconds, c.Jobs[0].Seconds/2, .2) {
		t.Errorf("alone %v: reading is twice as fast", c.Jobs)
	}
	for _, o := range c.Orders {
		if !near(o.Jobs[0].Stretch, 1, .01) || !near(o.Jobs[1].Stretch, 1, .01) {
			t.Errorf("%s %s: stretches %v", o.Kind, o.Policy, o.Jobs)
		}
	}
	// Nodes with disks of their own share nothing: turns only cost time.
	sys.Targets.Local = true
	job.Case, reader.Case, reader.Start = caseOf(t, "bt.B.16", 4), caseOf(t, "bt.B.16", 4), 0
	c = contend(t, sys, []string{"fifo"}, job, reader)
	if o := c.Orders[0]; !near(o.Jobs[0].Stretch, 1, .01) {
		t.Errorf("disks of their own: stretches %v", o.Jobs)
	}
	if o := c.Orders[1]; o.Mean <= c.Orders[0].Mean {
		t.Errorf("disks of their own: mean %g in turns, %g side by side", o.Mean, c.Orders[0].Mean)
	}
}

func TestContendMistakes(t *testing.T) {
	if _, err := tune.Contend(t.Context(), oneDisk(), nil, tune.Policies{}); err == nil {
		t.Error("no jobs are accepted")
	}
	job := tune.Contender{Case: caseOf(t, "bt.W.4", 2)}
	if _, err := tune.Contend(t.Context(), oneDisk(), []tune.Contender{job}, tune.Policies{Turns: []string{"lottery"}}); err == nil {
		t.Error("policy lottery is accepted")
	}
	if _, err := tune.Contend(t.Context(), oneDisk(), []tune.Contender{job}, tune.Policies{Targets: []string{"lottery"}}); err == nil {
		t.Error("policy lottery is accepted by targets")
	}
	job.Start = -1
	if _, err := tune.Contend(t.Context(), oneDisk(), []tune.Contender{job}, tune.Policies{}); err == nil {
		t.Error("a start of -1 is accepted")
	}
}

// A target with a policy of its own orders the requests of all jobs: where it seeks for
// each chunk that comes in between, a policy that stays with a file is faster.
func TestContendTargets(t *testing.T) {
	sys := oneDisk()
	sys.Targets.Seek = .02
	job := tune.Contender{Case: caseOf(t, "bt.A.4", 2)}
	c, err := tune.Contend(t.Context(), sys, []tune.Contender{job, job}, tune.Policies{Targets: iosched.Names()})
	if err != nil {
		t.Fatal(err)
	}
	totals := make(map[string]float64)
	for _, o := range c.Orders[1:] {
		totals[o.Policy] = o.Total
		if o.Kind != tune.TargetOrder || o.Jobs[0].Turns+o.Jobs[1].Turns != 0 || min(o.Jobs[0].Stretch, o.Jobs[1].Stretch) < .5 {
			t.Errorf("%s %s: %+v", o.Kind, o.Policy, o.Jobs)
		}
	}
	if len(totals) != len(iosched.Names()) || totals["offset"] > .7*totals["fifo"] {
		t.Errorf("totals %v: offset is not much faster than fifo", totals)
	}
}
