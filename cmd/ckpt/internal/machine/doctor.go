// Package machine has the command that examines this machine and a store before a
// job is run: what works, what is scarce, what is missing, and what to do about it. And it has
// the commands of storage turns: a controller, a look at it, and commands that take part.
//
// Promises of the first: each probe comes in through [Machine], so that tests can make each fail
// (TestEachProbe). Nothing is left behind in the store or beside it (TestNothingLeft).
package machine

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// A State is how bad something is.
type State string

// The states. A problem prevents jobs from running.
const (
	OK      State = "ok"
	Warning State = "warning"
	Problem State = "problem"
)

// A Check is one thing that was examined.
type Check struct {
	Name   string `json:"check"`
	State  State  `json:"verdict"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"` // "" if there is nothing to do
}

// A Fit is how many more checkpoints of a job the store holds.
type Fit struct {
	Job    string `json:"job"`
	Number int    `json:"number"` // of the newest checkpoint
	Stored int64  `json:"stored_bytes"`
	More   int64  `json:"more"`
}

// A Report is the result of an examination.
type Report struct {
	Store  string  `json:"store"`
	Usable bool    `json:"usable"`
	Checks []Check `json:"checks"`
	Jobs   []Fit   `json:"jobs"`
	// NodeDirectory is there if one was to be examined.
	NodeDirectory *NodeDirectory `json:"node_directory,omitempty"`
	problems      int
}

func (r *Report) add(name string, state State, remedy, format string, args ...any) {
	if state == Problem {
		r.problems++
	}
	r.Checks = append(r.Checks, Check{name, state, fmt.Sprintf(format, args...), remedy})
}

// fine adds a check that found nothing wrong.
func (r *Report) fine(name, format string, args ...any) { r.add(name, OK, "", format, args...) }

// Examine runs all checks; local names the directory of each node, or is "".
func Examine(m *Machine, store, local string) *Report {
	r := &Report{Store: store, Jobs: []Fit{}}
	m.store(r)
	if local != "" {
		m.nodeDirectory(r, local)
	}
	m.temporary(r)
	m.sharedMemory(r)
	m.memory(r)
	m.descriptors(r)
	m.processes(r)
	m.clock(r)
	m.otherMemory(r)
	m.programs(r)
	m.build(r)
	r.Usable = r.problems == 0
	return r
}

// NewCommand returns ckpt doctor.
func NewCommand(g *ui.Globals) *cobra.Command {
	var local string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine this machine and a store: ready for a job?",
		Long: `Examine this machine and a store. Each line says ok, warning or problem, and what
to do: whether checkpoints can be written, around the page cache too, for how many
of each job there is space, shared memory, memory, limits, the clock, whether
ckpt zones can read other processes, and which programs are installed.

With --local, also a directory that is to take checkpoints before the store does:
what it is on, its space, and its rate beside that of the store.

The command leaves nothing behind, and makes no store. Its exit status is 0 if
jobs can run, and 2 if a problem prevents that; warnings do not count.`,
		Example: "  ckpt doctor\n  ckpt doctor --store /scratch/ckpt-store --json\n  ckpt doctor --local '/nvme/{node}'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.CheckStore(); err != nil {
				return err
			}
			if cmd.Flags().Changed("local") && local == "" {
				return ui.BadUsage("--local is empty", "name the directory of a node, like /nvme/{node}")
			}
			r := Examine(ThisMachine(), g.Store, local)
			if err := g.Show(r, func() error { return r.print(g) }); err != nil {
				return err
			}
			return r.verdict()
		},
	}
	cmd.Flags().StringVar(&local, "local", "", "also examine the directory of a node, like /nvme/{node}")
	g.AddStoreFlag(cmd)
	return cmd
}

// print prints a line per check. Warnings and problems have their remedy below.
func (r *Report) print(g *ui.Globals) error {
	const indent = 22
	for _, c := range r.Checks {
		if g.Quiet && c.State == OK {
			continue
		}
		lines := []string{c.Text}
		if c.Remedy != "" {
			lines = append(lines, "-> "+c.Remedy)
		}
		for i, text := range lines {
			prefix := fmt.Sprintf("%-8s %-12s ", c.State, c.Name)
			if i > 0 {
				prefix = fmt.Sprintf("%*s", indent, "")
			}
			g.Printf("%s", g.Hanging(prefix, text))
		}
	}
	return nil
}

// verdict is nil if jobs can run.
func (r *Report) verdict() error {
	if r.Usable {
		return nil
	}
	for _, c := range r.Checks {
		if c.State == Problem {
			err := fmt.Errorf("jobs cannot run here: %s", ui.Count(r.problems, "problem"))
			return ui.WithHint(err, c.Name+": "+c.Remedy)
		}
	}
	return errors.New("jobs cannot run here")
}
