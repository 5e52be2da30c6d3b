package predictions

import (
	"context"
	"fmt"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/predict"
	"ckpt/predict/modes"
	"ckpt/predict/plan"
)

// timeModeResult is the time of a checkpoint of one group and of all, as --json prints it.
type timeModeResult struct {
	App        string      `json:"app"`
	Mapping    []int       `json:"mapping"`
	Mode       string      `json:"mode"`
	Log        string      `json:"log"`
	Groups     int         `json:"group_count"`
	GroupRanks int         `json:"group_ranks"`
	GroupS     float64     `json:"group_checkpoint_s"`
	Cost       float64     `json:"cost_s"`
	Low        float64     `json:"low_s"`
	High       float64     `json:"high_s"`
	Stored     predict.MiB `json:"stored_bytes"`
	PerIter    float64     `json:"iteration_log_bytes"`
	Crossing   float64     `json:"crossing_share"`
}

// runTimeOfMode predicts the checkpoints of a mode with groups.
func runTimeOfMode(ctx context.Context, g *ui.Globals, o *timeOptions, mo *modeOptions, app string) error {
	m, err := o.load()
	if err != nil {
		return err
	}
	way, err := o.way(ctx, m)
	if err != nil {
		return err
	}
	r, err := o.request(m, app)
	if err != nil {
		return err
	}
	if way.Probe, err = o.probe(ctx); err != nil {
		return err
	}
	// The costs depend on neither time.
	p := plan.Planning{App: r.App, Law: r.Law, Way: way, MPI: []string{r.MPI}, IO: r.IO, Mapping: r.Mapping, Codecs: []string{o.codec}, AppSeconds: 86400, MTBFS: 86400}
	if err := mo.groups(&p); err != nil {
		return err
	}
	if len(p.Modes) != 1 || len(p.Logs) > 1 {
		return ui.BadUsage("the time is that of one mode and one log", "ckpt predict plan --mtbf compares several")
	}
	if len(p.Logs) == 0 {
		p.Logs = p.Modes[0].Logs()[:1]
	}
	options, err := plan.Compare(m, p)
	if err != nil {
		return err
	}
	c := &options[0]
	result := timeModeResult{App: p.App.String(), Mapping: p.Mapping, Mode: string(c.Mode), Log: string(c.Log), Groups: c.GroupCount,
		GroupRanks: c.GroupRanks, GroupS: c.GroupS, Cost: c.CostS, Low: c.LowS, High: c.HighS,
		Stored: c.GstoredMiB, PerIter: c.Iteration, Crossing: c.ModeCosts.CrossingShare}
	return g.Show(result, func() error { return printTimeOfMode(g, &p, c) })
}

func printTimeOfMode(g *ui.Globals, p *plan.Planning, c *plan.Option) error {
	group, all := c.ModeCosts.GroupS, c.ModeCosts.AllS
	text := fmt.Sprintf("%s on nodes %s, %s: %s of %s\n", p.App, ranksOfNodes(p.Mapping), modeName(c.Mode, c.Log),
		ui.Count(c.GroupCount, "group"), ui.Count(c.GroupRanks, "rank")) +
		fmt.Sprintf("a group %s, between %s and %s\n", ui.Seconds(group.Value), ui.Seconds(group.Low), ui.Seconds(group.High)) +
		fmt.Sprintf("all     %s, between %s and %s\n", ui.Seconds(all.Value), ui.Seconds(all.Low), ui.Seconds(all.High))
	if c.Log != modes.NoGroups {
		text += fmt.Sprintf("log     %s MiB in an iteration; %s of the bytes sent cross between groups\n", decimal(c.Iteration/(1<<20)), ui.Percent(c.ModeCosts.CrossingShare))
	}
	return g.Printf("%s", text)
}
