package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/iosched"
)

// contendOptions are the flags about jobs that use the storage at the same time.
type contendOptions struct {
	with     []string
	policies string
}

func (o *contendOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.with, "with", nil, "with --on: another job at the same time: an application like bt.C.64, a workload or job file, with settings like ,start=30s,nodes=2,read (repeatable)")
	f.StringVar(&o.policies, "policy", "all", "with --with: policies of turns and of targets, like fifo,wsjf")
	ui.Choices(f, "policy", append(policyNames(), "all")...)
}

// turnPolicies are the policies of turns that keep an order.
func turnPolicies() []string {
	return slices.DeleteFunc(iosched.TurnPolicies(), func(p string) bool { return p == "none" })
}

// policyNames are all policies, of turns first, then of targets.
func policyNames() []string {
	names := turnPolicies()
	for _, p := range iosched.Names() {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	return names
}

// chosen returns the policies to compare.
func (o *contendOptions) chosen() (p tune.Policies, err error) {
	if o.policies == "all" {
		return tune.Policies{Turns: turnPolicies(), Targets: iosched.Names()}, nil
	}
	names := policyNames()
	for name := range strings.SplitSeq(o.policies, ",") {
		if name == "none" {
			continue // it is always there
		}
		if !slices.Contains(names, name) {
			hint := "the policies are " + strings.Join(names, ", ") + ", or all"
			if near := ui.Nearest(name, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			return p, ui.BadUsage(fmt.Sprintf("--policy %s: no policy is called %q", o.policies, name), hint)
		}
		if slices.Contains(turnPolicies(), name) {
			p.Turns = append(p.Turns, name)
		}
		if slices.Contains(iosched.Names(), name) {
			p.Targets = append(p.Targets, name)
		}
	}
	return p, nil
}

// check refuses flags that need others.
func (o *contendOptions) check(cmd *cobra.Command, on string) error {
	switch {
	case len(o.with) > 0 && on == "":
		return ui.BadUsage("--with "+o.with[0]+": jobs meet on a described storage only", "add --on")
	case len(o.with) == 0 && cmd.Flags().Changed("policy"):
		return ui.BadUsage("--policy "+o.policies+": a policy orders the requests of several jobs", "add --with, like --with bt.C.64")
	}
	return nil
}

// contend predicts the job of the plan beside the jobs of --with; nil without any.
func (o *layoutOptions) contend(ctx context.Context, c tune.Case) (*tune.Contention, error) {
	if len(o.contendOptions.with) == 0 {
		return nil, nil
	}
	policies, err := o.chosen()
	if err != nil {
		return nil, err
	}
	sys, err := o.storage.Load()
	if err != nil {
		return nil, err
	}
	if c.Background, err = o.storage.Background(); err != nil {
		return nil, err
	}
	jobs := []tune.Contender{{Case: c}}
	for _, with := range o.contendOptions.with {
		other, err := contender(with)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, other)
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	return tune.Contend(ctx, sys, jobs, policies)
}

// orderName names an order in a table.
func orderName(o *tune.Order) string {
	if o.Policy == "" {
		return "as they come"
	}
	return string(o.Kind) + ": " + o.Policy
}

// shownContenders is how many jobs have a column of their own without --all.
const shownContenders = 3

// printContention prints the jobs, and how they fare in each order.
func printContention(g *ui.Globals, d *tune.Contention, all bool) error {
	g.Printf("\nat the same time\n")
	var rows [][]string
	for i, j := range d.Jobs {
		what := "writes"
		if j.Read {
			what = "reads"
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), j.App, j.User, what, ui.MiB(j.Bytes), ui.Seconds(j.Begin), ui.Seconds(j.Seconds)})
	}
	if err := g.Sparse([]string{"|job", "app", "user", "it", "|MiB", "|start", "|alone"}, rows); err != nil {
		return err
	}
	g.Printf("\n")
	shown := len(d.Jobs)
	if !all {
		shown = min(shown, shownContenders)
	}
	header := []string{"order", "|total", "|mean flow", "|of none"}
	for i := range shown {
		header = append(header, fmt.Sprintf("%s|job %d", map[bool]string{true: "~"}[i > 1], i+1))
	}
	rows = nil
	for _, o := range d.Orders {
		row := []string{orderName(&o), ui.Seconds(o.Total), ui.Seconds(o.Mean), fmt.Sprintf("%.2f", o.MeanRatio)}
		for _, j := range o.Jobs[:shown] {
			row = append(row, fmt.Sprintf("%s ×%.2f", ui.Seconds(j.Seconds), j.Stretch))
		}
		rows = append(rows, row)
	}
	if err := g.Table(header, rows); err != nil {
		return err
	}
	return printMore(g, len(d.Jobs)-shown)
}
