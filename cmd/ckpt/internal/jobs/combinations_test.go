package jobs

import (
	"errors"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
)

// combinedValues are values of the flags of launch that take one.
var combinedValues = map[string]string{
	"map": "2,2", "mpi": "openmpi", "mode": "semi", "level": "application", "log": "pessimistic-sender", "stagger": "random", "jitter": "10%", "every": "5",
	"interval": "10s", "overhead": "10%", "objective": "latency", "codec": "zstd", "layout": "shared", "aggregators": "2", "buffer": "4MiB",
	"stripe-size": "2MiB", "strategy": "static", "staging": "4MiB", "local": "n/{node}", "protect": "partner", "domains": "0,1", "drain": "none",
	"drain-rate": "10MiB", "storage-turns": "on", "grace": "5s", "engine": "dmtcp", "launcher": "srun", "np": "4", "nodes": "2", "async": "2",
}

// combinedElsewhere are flags that another test sets, or that name something that must be there.
var combinedElsewhere = []string{"fail", "model", "tune", "background", "group", "job", "store", "wait", "listen", "walltime", "silence", "patience", "on-full", "help"}

// TestPairs: where each of two flags of launch is accepted alone, and both are not, the table of
// combinations has the reason. So it does of a flag alone, if another value of it is accepted.
func TestPairs(t *testing.T) {
	var names []string
	skip := map[string]bool{}
	for _, name := range combinedElsewhere {
		skip[name] = true
	}
	newLaunchCommand(&ui.Globals{}).Flags().VisitAll(func(f *pflag.Flag) {
		if !skip[f.Name] {
			names = append(names, f.Name)
		}
	})
	alone, refused := map[string]error{}, 0
	for _, command := range []bool{false, true} {
		for _, name := range names {
			alone[name] = acceptLaunch(t, command, name)
			if err := alone[name]; err != nil && !errors.As(err, new(*job.CombinationError)) {
				t.Errorf("--%s alone: not a row of the table: %v", name, err)
			}
		}
		for i, a := range names {
			for _, b := range names[:i] {
				err := acceptLaunch(t, command, a, b)
				if err == nil {
					continue
				}
				refused++
				if alone[a] == nil && alone[b] == nil && !errors.As(err, new(*job.CombinationError)) {
					t.Errorf("--%s and --%s, of a program %t: not a row of the table: %v", a, b, command, err)
				}
			}
		}
	}
	if len(names) < 40 || refused < 500 {
		t.Errorf("%d flags, %d refusals: the pairs prove little", len(names), refused)
	}
	// The schedules, and other values, of pairs that the axes of the table have.
	for _, p := range newCombinationTable().Pairs {
		if p.Works == (p.Because != "") {
			t.Errorf("%+v", p)
		}
	}
}

// acceptLaunch returns why a launch with some flags is refused before it starts.
func acceptLaunch(t *testing.T, command bool, names ...string) error {
	t.Helper()
	var o launchOptions
	g := &ui.Globals{Streams: ui.Streams{Err: t.Output()}, Quiet: true}
	cmd := &cobra.Command{}
	o.addFlags(g, cmd)
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		value := combinedValues[name]
		switch {
		case value != "":
		case f.Value.Type() == "bool":
			value = map[string]string{"true": "false", "false": "true"}[f.DefValue]
		case f.Value.Type() == "int" || f.Value.Type() == "uint64":
			value = "3"
		default:
			t.Fatalf("--%s has no value here", name)
		}
		if err := cmd.Flags().Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if command {
		_, err := o.programSpec(g, []string{"true"})
		return err
	}
	if err := job.CheckCombinations(o.lookup("simulated")); err != nil {
		return err
	}
	spec, err := o.spec("bt.S.4")
	if err != nil {
		return err
	}
	r, err := spec.Resolve()
	if err != nil {
		return o.usage(err)
	}
	return job.CheckCombinations(r.Lookup("one"))
}
