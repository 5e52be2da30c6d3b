package predictions

import (
	"context"
	"fmt"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/modes"
	"ckpt/predict/plan"
)

// timeModeResult is the time of a checkpoint of one group and of all, as --json prints it.
type timeModeResult struct {
	App        string  `json:"app"`
	Mapping    []int   `json:"mapping"`
	Mode       string  `json:"mode"`
	Log        string  `json:"log"`
	Groups     int     `json:"group_count"`
	GroupRanks int     `json:"group_ranks"`
	GroupS     float64 `json:"group_checkpoint_s"`
	Cost       float64 `json:"cost_s"`
	Low        float64 `json:"low_s"`
	High       float64 `json:"high_s"`
	Stored     int64   `json:"stored_bytes"`
	PerIter    float64 `json:"iteration_log_bytes"`
	Crossing   float64 `json:"crossing_share"`
}

// runTimeOfMode predicts the checkpoints of a mode with groups.
func runTimeOfMode(ctx context.Context, g *ui.Globals, o *timeOptions, mo *modeOptions, app string) error {
	m, err := o.load()
	if err != nil {
		return err
	}
	p := plan.ModePlanning{Codec: o.codec, AppS: 86400, MTBFS: 86400, GroupSize: mo.groupSize} // the costs depend on neither time
	own, err := o.own(m)
	if err != nil {
		return err
	}
	if own {
		p.Engine, p.Storing = dataset.Ckpt, predict.Storing{Layout: o.layout, Async: o.async, Codec: o.codec}
	}
	if p.Request, err = o.request(m, app); err != nil {
		return err
	}
	if p.Probe, err = o.probe(ctx); err != nil {
		return err
	}
	if p.Modes, p.Logs, err = mo.parse(); err != nil {
		return err
	}
	if p.Together, err = mo.together(); err != nil {
		return err
	}
	if len(p.Modes) != 1 || len(p.Logs) > 1 {
		return ui.BadUsage("the time is that of one mode and one log", "ckpt predict plan --mtbf compares several")
	}
	if len(p.Logs) == 0 {
		p.Logs = p.Modes[0].Logs()[:1]
	}
	options, err := plan.Modes(m, p)
	if err != nil {
		return err
	}
	c := options[0]
	r := timeModeResult{App: p.App.String(), Mapping: p.Mapping, Mode: string(c.Mode), Log: string(c.Log), Groups: c.GroupCount,
		GroupRanks: c.GroupRanks, GroupS: c.GroupS.Value, Cost: c.AllS.Value, Low: c.AllS.Low, High: c.AllS.High,
		Stored: bytesOf(c.StoredMiB), PerIter: c.Logged.Bytes, Crossing: c.CrossingShare}
	return g.Show(r, func() error { return printTimeOfMode(g, &p, &c) })
}

func printTimeOfMode(g *ui.Globals, p *plan.ModePlanning, c *plan.ModeOption) error {
	text := fmt.Sprintf("%s on nodes %s, %s: %s of %s\n", p.App, ranksOfNodes(p.Mapping), modeName(c.Mode, c.Log),
		ui.Count(c.GroupCount, "group"), ui.Count(c.GroupRanks, "rank")) +
		fmt.Sprintf("a group %s, between %s and %s\n", ui.Seconds(c.GroupS.Value), ui.Seconds(c.GroupS.Low), ui.Seconds(c.GroupS.High)) +
		fmt.Sprintf("all     %s, between %s and %s\n", ui.Seconds(c.AllS.Value), ui.Seconds(c.AllS.Low), ui.Seconds(c.AllS.High))
	if c.Log != modes.NoGroups {
		text += fmt.Sprintf("log     %s MiB in an iteration; %s of the bytes sent cross between groups\n", decimal(c.Logged.Bytes/(1<<20)), ui.Percent(c.CrossingShare))
	}
	return g.Printf("%s", text)
}
