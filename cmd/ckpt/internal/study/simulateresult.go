package study

import (
	"fmt"
	"slices"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/predict/life"
)

// simulateResult is what lives tell, as --json prints it.
type simulateResult struct {
	Nodes     int             `json:"nodes"`
	NodeBytes int64           `json:"node_image_bytes"`
	Protect   string          `json:"protection"`
	MTBFS     float64         `json:"mtbf_s"`
	WorkS     float64         `json:"app_s"`
	Runs      int             `json:"runs"`
	Seed      uint64          `json:"seed"`
	Lives     []simulatedLife `json:"simulated_list"`
	Assumed   []string        `json:"assumption_list"`
	// Without are the ways that fail more often than they get further: they have no end.
	Without []string `json:"no_progress_list,omitempty"`
	// Varied is the flag that --vary or --solve changes, and Second the flag of another --vary.
	// Points are the results of their values.
	Varied string           `json:"varied_flag,omitempty"`
	Second string           `json:"second_varied_flag,omitempty"`
	Points []simulatedPoint `json:"varied_list,omitempty"`
	// Solved is the value that reaches the target.
	Solved *simulatedPoint `json:"solved,omitempty"`

	ways    []way // that were asked for
	target  float64
	jobs    []life.Job // those of tries
	tries   []try
	machine life.Machine
}

// A try is a way with an interval.
type try struct {
	way      way
	interval float64
	waste    wasted
}

// wasted is the share of the time that is no work, of the mean run, with its 95 % interval.
type wasted struct{ mean, low, high float64 }

func wastedOf(work float64, end *life.Quantity) wasted {
	return wasted{1 - work/end.Mean, 1 - work/max(work, end.Low), 1 - work/end.High}
}

// A simulatedLife is the best interval of a mode.
type simulatedLife struct {
	Mode        job.Mode `json:"mode"`
	Stagger     string   `json:"stagger,omitempty"`
	GroupCount  int      `json:"group_count"`
	Unlogged    bool     `json:"without_logs,omitempty"`
	Best        bool     `json:"best"`
	IntervalS   float64  `json:"interval_s"`
	CostS       float64  `json:"cost_s"`
	MeanS       float64  `json:"mean_s"`
	LowS        float64  `json:"low_s"`
	HighS       float64  `json:"high_s"`
	P5          float64  `json:"run_p5_s"`
	P95         float64  `json:"run_p95_s"`
	ETTR        float64  `json:"ettr"`
	ETTRP5      float64  `json:"ettr_p5"`
	ETTRP95     float64  `json:"ettr_p95"`
	Longer      float64  `json:"longer_share"`
	LongerLow   float64  `json:"longer_low_share"`
	LongerHigh  float64  `json:"longer_high_share"`
	Failures    float64  `json:"mean_failures"`
	LostNodes   float64  `json:"mean_lost_nodes"`
	Restarts    float64  `json:"mean_restarts"`
	FromStore   float64  `json:"mean_store_restarts"`
	Checkpoints float64  `json:"mean_checkpoints"`
	Drains      float64  `json:"mean_drains"`
	// Completed checkpoints put these bytes into the store and onto the nodes. The worst failure of a
	// run destroys DeepestS of work.
	StoreBytes float64 `json:"mean_store_bytes"`
	StorePeak  float64 `json:"peak_store_bytes_per_s"`
	StoreBusy  float64 `json:"busy_store_share"`
	LocalBytes float64 `json:"mean_node_level_bytes"`
	StoreHeld  float64 `json:"store_held_bytes"` // at most
	NodeHeld   float64 `json:"node_held_bytes"`
	// DeepestCount is how many intervals lie between the two ends of that work.
	DeepestS     float64       `json:"mean_deepest_lost_s"`
	DeepestCount float64       `json:"mean_deepest_lost_intervals"`
	Time         []timeOfCause `json:"time_list"`

	way way
}

// timeOfCause is the share of the time of the runs that goes to a cause.
type timeOfCause struct {
	Cause string  `json:"time_cause"`
	Share float64 `json:"time_share"`
}

// add takes the best interval of each mode, the best mode first.
func (r *simulateResult) add(c *costs, jobs []life.Job, ways []way, s *life.Simulation) {
	best := map[way]int{}
	for i, w := range ways {
		r.tries = append(r.tries, try{w, jobs[i].Interval, wastedOf(r.WorkS, &s.Lives[i].End)})
	}
	for i, w := range ways {
		if k, ok := best[w]; !ok || s.Lives[i].End.Mean < s.Lives[k].End.Mean {
			best[w] = i
		}
	}
	for i, w := range ways {
		if best[w] != i {
			continue
		}
		l := &s.Lives[i]
		x := simulatedLife{way: w, Unlogged: w.bare, Mode: w.mode, Stagger: w.staggered(), GroupCount: max(1, jobs[i].Groups), Best: l.Best, IntervalS: jobs[i].Interval, CostS: jobs[i].Pause(),
			MeanS: l.End.Mean, LowS: max(r.WorkS, l.End.Low), HighS: l.End.High, P5: l.End.P5, P95: l.End.P95,
			ETTR: l.ETTR.Mean, ETTRP5: l.ETTR.P5, ETTRP95: l.ETTR.P95, Longer: l.More.Mean, LongerLow: l.More.Low, LongerHigh: l.More.High,
			Failures: l.Failures, LostNodes: l.LostNodes, Restarts: l.Restarts, FromStore: l.FromLast, Checkpoints: l.Checkpoints, Drains: l.Drains}
		x.move(c, &jobs[i], l)
		for cause, share := range l.By {
			x.Time = append(x.Time, timeOfCause{life.Cause(cause).String(), share})
		}
		r.Lives = append(r.Lives, x)
	}
	slices.SortStableFunc(r.Lives, func(a, b simulatedLife) int {
		if a.MeanS < b.MeanS {
			return -1
		}
		return 1
	})
}

// move says what goes to which level.
func (x *simulatedLife) move(c *costs, j *life.Job, l *life.Lives) {
	all, rounds := float64(c.bytes)*float64(c.nodes), l.Checkpoints
	if len(j.Levels) > 1 {
		x.LocalBytes, rounds = rounds*all*(1+c.protection()), l.Drains
	}
	moves := j.Moves()
	x.StoreBytes, x.StorePeak, x.StoreBusy, x.DeepestS = rounds*all, all/moves, min(1, rounds*moves/l.End.Mean), l.Deepest.Mean
	x.StoreHeld, x.NodeHeld = c.held(x.way, rounds)
	x.DeepestCount = l.Deepest.Mean / j.Interval
}

func (l *simulatedLife) name() string { return l.way.name() }

func (r *simulateResult) print(g *ui.Globals) error {
	switch {
	case r.Second != "":
		return r.printMap(g)
	case r.Varied != "":
		return r.printPoints(g)
	}
	if !g.Quiet {
		g.Printf("%s, %s each in a checkpoint; work %s, a failure every %s\n\n", ui.Count(r.Nodes, "node"), ui.Bytes(float64(r.NodeBytes)), ui.Seconds(r.WorkS), ui.Seconds(r.MTBFS))
	}
	header := []string{"", "mode", "stagger", "|every", "|cost", "|total", "|90 of 100 runs", "|ETTR", "|longer", "|failures", "|restarts"}
	var rows [][]string
	for i := range r.Lives {
		l := &r.Lives[i]
		longer := ""
		if !l.Best {
			longer = fmt.Sprintf("%s (%s)", ui.Percent1(l.Longer), ui.Between(l.LongerLow, l.LongerHigh, ui.Percent1))
		}
		rows = append(rows, []string{map[bool]string{true: "*"}[l.Best], string(l.Mode), l.way.groups(), ui.Seconds(l.IntervalS), ui.Seconds(l.CostS), ui.Seconds(l.MeanS),
			ui.Between(l.P5, l.P95, ui.Seconds), ui.Percent1(l.ETTR), longer, fmt.Sprintf("%.1f", l.Failures), fmt.Sprintf("%.1f", l.Restarts)})
	}
	if err := g.Table(header, rows); err != nil || g.Quiet {
		return err
	}
	var text strings.Builder
	text.WriteString("\n")
	for i := range r.Lives {
		l := &r.Lives[i]
		var parts []string
		for _, c := range l.Time {
			if c.Share >= 0.0005 {
				parts = append(parts, fmt.Sprintf("%s %s", c.Cause, ui.Percent1(c.Share)))
			}
		}
		fmt.Fprintf(&text, "%s: %s\n", l.name(), strings.Join(parts, ", "))
		held := ui.Bytes(l.StoreHeld)
		if l.NodeHeld > 0 {
			held += ", a node " + ui.Bytes(l.NodeHeld)
		}
		fmt.Fprintf(&text, "  %s into the store, at %s, %s of the time; it holds %s\n  the worst failure destroys %s of work, %.1f intervals\n", ui.Bytes(l.StoreBytes), ui.Rate(l.StorePeak), ui.Percent1(l.StoreBusy), held, ui.Seconds(l.DeepestS), l.DeepestCount)
	}
	best := &r.Lives[0]
	fmt.Fprintf(&text, "* the mean of %d runs is %s in 95 %%; longer: in the same failures, with its 95 %% interval\n", r.Runs, ui.Between(best.LowS, best.HighS, ui.Seconds))
	for i := range r.Lives {
		if l := &r.Lives[i]; !l.Best && l.LongerLow <= 0 {
			fmt.Fprintf(&text, "  %s may be as fast\n", l.name())
		}
	}
	for _, name := range r.Without {
		fmt.Fprintf(&text, "  %s never ends: it fails more often than it gets further\n", name)
	}
	for _, a := range r.Assumed {
		text.WriteString("assumed: " + a + "\n")
	}
	return g.Printf("%s", text.String())
}
