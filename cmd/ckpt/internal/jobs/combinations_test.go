package jobs

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

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
	"drain-rate": "10MiB", "storage-turns": "on", "grace": "5s", "engine": "dmtcp", "launcher": "srun", "np": "4", "nodes": "2", "async": "2", "next": "next",
}

// combinedElsewhere are flags that another test sets, or that name something that must be there.
var combinedElsewhere = []string{"fail", "model", "tune", "background", "group", "job", "store", "wait", "listen", "walltime", "silence", "patience", "on-full", "metrics-file", "otel-file", "help"}

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
			alone[name] = acceptLaunch(t, command, given(t, name)...)
			if err := alone[name]; err != nil && !errors.As(err, new(*job.CombinationError)) {
				t.Errorf("--%s alone: not a row of the table: %v", name, err)
			}
		}
		for i, a := range names {
			for _, b := range names[:i] {
				err := acceptLaunch(t, command, given(t, a, b)...)
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
}

// TestTable: ckpt help combinations says works of what launch accepts, gives the reason of what it
// refuses, and fits 80 columns.
func TestTable(t *testing.T) {
	values := strings.NewReplacer("DIR", "n/{node}", "--local --", "--local n/{node} --", "--log optimistic", "--mode uncoordinated --log optimistic",
		"=N", "=3", " N", " 3", "every 3", "every 5", "STORAGE", "local-nvme", " T", " 10s", "rank=R@t=DUR", "rank=0@t=1s", "--storage-turns", "--storage-turns=on")
	accepted := 0
	for _, p := range newCombinationTable().Pairs {
		if p.Works == (p.Because != "") {
			t.Errorf("%+v", p)
		}
		both := p.A + " " + p.B
		if strings.Contains(both, "restart") || strings.Contains(both, "program") && !p.Works {
			continue // TestCombinations has them
		}
		command := strings.Contains(both, "program") || strings.Contains(both, "dmtcp")
		var args []string
		for _, label := range []string{p.A, p.B} {
			if strings.HasPrefix(label, "--") {
				args = append(args, strings.Fields(values.Replace(label))...)
			}
		}
		if !command && slices.Contains(args, "--local") || slices.Contains(args, "semi") {
			args = append(args, "--nodes", "2")
		}
		err := acceptLaunch(t, command, args...)
		var refused *job.CombinationError
		switch {
		case p.Works && err != nil:
			t.Errorf("%v works, says the table: %v", args, err)
		case !p.Works && (!errors.As(err, &refused) || refused.Row.Because != p.Because):
			t.Errorf("%v: %s, says the table: %v", args, p.Because, err)
		case err == nil:
			accepted++
		}
	}
	if accepted < 100 {
		t.Errorf("%d pairs are accepted: the table proves little", accepted)
	}
	var out strings.Builder
	if err := ShowCombinations(&ui.Globals{Streams: ui.Streams{Out: &out, Err: t.Output()}}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// given are arguments that give flags of launch.
func given(t *testing.T, names ...string) (args []string) {
	t.Helper()
	var o launchOptions
	cmd := &cobra.Command{}
	o.addFlags(&ui.Globals{}, cmd)
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
		args = append(args, "--"+name+"="+value)
	}
	return args
}

// acceptLaunch returns why a launch with some flags is refused before it starts.
func acceptLaunch(t *testing.T, command bool, args ...string) error {
	t.Helper()
	var o launchOptions
	g := &ui.Globals{Streams: ui.Streams{Err: io.Discard}, Quiet: true}
	cmd := &cobra.Command{}
	o.addFlags(g, cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
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
	return job.CheckCombinations(func(name string) (value string, given bool) {
		if name == "tune" { // which takes time to carry out
			return o.lookup("simulated")(name)
		}
		return r.Lookup("one")(name)
	})
}
