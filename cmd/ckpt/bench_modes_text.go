package main

import (
	"fmt"
	"strings"
)

// printModes prints two tables of the same rows: the cost of the checkpoints, and
// the cost of the failures.
func (g *globals) printModes(b *benchModes, o *benchModesOptions) error {
	if g.json {
		return g.printJSON(b)
	}
	injected := "no failures"
	if len(b.Failures) > 0 {
		injected = "failures: " + strings.Join(b.Failures, ", ")
	}
	if err := g.printf("%s on nodes %s, %s, a checkpoint every %d\n%s\nwithout checkpoints and failures: %s; the same digest in all %s\n\n",
		b.App, b.Mapping, count(b.Iterations, "iteration"), b.Every, injected, seconds(b.Base), count(o.runs*(len(b.Modes)+1), "run")); err != nil {
		return err
	}
	var costs, failures [][]string
	for _, r := range b.Modes {
		costs = append(costs, []string{shortName(&r), fmt.Sprint(r.Checkpoints), seconds(r.Latency), seconds(r.Pause),
			mib(r.Stored), mib(r.LogBytes), fmt.Sprint(r.LogFsyncs)})
		failures = append(failures, []string{shortName(&r), fmt.Sprint(r.Failures), fmt.Sprint(r.Restarted), fmt.Sprint(r.WorkLost),
			seconds(r.Restart), seconds(r.Total), fmt.Sprintf("%.1f %%", 100*r.Overhead)})
	}
	if err := g.table([]string{"mode, log", "|ckpts", "|latency", "|pause", "|stored MiB", "|log MiB", "|fsyncs"}, costs); err != nil {
		return err
	}
	if err := g.printf("\n"); err != nil {
		return err
	}
	if err := g.table([]string{"mode, log", "|failures", "|restarted", "|work lost", "|restart", "|total", "|overhead"}, failures); err != nil {
		return err
	}
	if !o.failOne || o.mtbf != "" || b.Modes[0].Restart == 0 {
		return nil
	}
	if err := g.printf("\nrestart, as a share of the coordinated one of all %s:\n", count(b.NP, "rank")); err != nil {
		return err
	}
	for _, r := range b.Modes[1:] {
		if err := g.printf("  %-24s %.2f\n", shortName(&r), r.Faster); err != nil {
			return err
		}
	}
	return nil
}

// shortName leaves space for the numbers in 80 columns.
func shortName(r *benchRow) string {
	return strings.NewReplacer("uncoordinated", "uncoord.", "pessimistic-", "").Replace(r.name())
}
