package coordinator

import (
	"errors"
	"fmt"
	"strings"

	"ckpt/coordinator/wire"
	"ckpt/internal/wording"
)

// maxRanks bounds the ranks of a program, as manifests do.
const maxRanks = 1 << 20

// errStopped says that a program was interrupted before it was protected.
var errStopped = errors.New("stopped before all ranks had come")

// An EarlyError says that the command of a program ended before all its ranks had come.
type EarlyError struct {
	Came, Size int // ranks; 0: none
	Status     int // of the command
	Cause      string
}

func (e *EarlyError) Error() string {
	if e.Came == 0 {
		return "the program never called ckpt_init: it was not protected, and its end is not known; " + e.Cause
	}
	return fmt.Sprintf("%d of %d ranks called ckpt_init before the program ended: %s", e.Came, e.Size, e.Cause)
}

// Hint says what to do about it.
func (e *EarlyError) Hint() string {
	if e.Came == 0 && e.Status == 0 {
		return wording.Sprintf("call ckpt_init and ckpt_finalize on each rank, and have the command pass the variables CKPT_* on to the ranks; {engine} dmtcp runs a program that is not changed")
	}
	return ""
}

// A ProgramError says that a program has completed with an exit status other than 0.
type ProgramError struct{ Status int }

func (e *ProgramError) Error() string {
	return fmt.Sprintf("the program completed, and its command exited with status %d", e.Status)
}

// A GatherError says that the ranks that came do not make one program that can be run.
type GatherError struct {
	Text, Fix string
	lost      bool // one of them died
}

func (e *GatherError) Error() string { return e.Text }

// Hint says what to do about it.
func (e *GatherError) Hint() string { return e.Fix }

// take notes a rank that has come. An error says that the ranks do not fit together.
func (g *gathering) take(a *arrival) error {
	p, rank := a.greeting.Process, a.greeting.Rank
	if err := a.check(); err != nil {
		return err
	}
	if g.come == nil {
		if g.want > 0 && g.want != p.Size {
			return otherSize(p.Size, g.want)
		}
		g.come, g.missing = make([]*arrival, p.Size), p.Size
	}
	if p.Size != len(g.come) {
		return g.oneOfMany(a, fmt.Sprintf("rank %d says that the program has %d ranks, others say %d", rank, p.Size, len(g.come)))
	}
	if other := g.come[rank]; other != nil {
		return g.oneOfMany(a, fmt.Sprintf("rank %d came twice, from processes %d and %d on %s", rank, other.greeting.Process.PID, p.PID, p.Name))
	}
	g.come[rank] = a
	g.missing--
	return nil
}

// otherSize refuses to restart a program with another number of ranks than was asked for.
func otherSize(came, want int) error {
	return &GatherError{Text: fmt.Sprintf("the program has %s now, not %d", plainRanks(came), want),
		Fix: wording.Sprintf("start it with %s again; or restart the job with {np} %d, if all regions are global or replicated", plainRanks(want), came)}
}

// check refuses what cannot take part in any program.
func (a *arrival) check() error {
	p, rank := a.greeting.Process, a.greeting.Rank
	switch {
	case p.Version != wire.Version:
		return &GatherError{Text: fmt.Sprintf("the agent of rank %d on %s speaks version %d, this ckpt speaks version %d", rank, p.Name, p.Version, wire.Version),
			Fix: "install the same ckpt on all hosts"}
	case p.Trouble != "":
		return &GatherError{Text: fmt.Sprintf("rank %d on %s: %s", rank, p.Name, p.Trouble),
			Fix: wording.Sprintf("take the source that {sdk %s} prints into the program again", p.Language)}
	case p.Size < 1 || p.Size > maxRanks || rank < 0 || rank >= p.Size:
		return &GatherError{Text: fmt.Sprintf("rank %d of %d called ckpt_init: there is no such rank", rank, p.Size), Fix: "pass what MPI_Comm_rank and MPI_Comm_size say"}
	}
	return nil
}

// odd reports whether the launcher of a rank says that there are others, and MPI that
// there are none.
func (a *arrival) odd() bool { return a.greeting.Process.Size == 1 && a.more() != "" }

// more is how the launcher counts ranks, "" if it knows of no more than MPI does.
func (a *arrival) more() string {
	for _, s := range a.greeting.Process.Sizes {
		if s.Ranks > a.greeting.Process.Size {
			return fmt.Sprintf("%s=%d", s.Variable, s.Ranks)
		}
	}
	return ""
}

// oneOfMany says why a rank does not fit to the others: perhaps the launcher has started
// many programs.
func (g *gathering) oneOfMany(a *arrival, text string) error {
	e := &GatherError{Text: text, Fix: "start one program, and pass what MPI_Comm_rank and MPI_Comm_size say to ckpt_init"}
	if more := a.more(); more != "" {
		e.Text += fmt.Sprintf("; the launcher has started programs of %s (%s)", plainRanks(a.greeting.Process.Size), more)
		e.Fix = "use the mpiexec of the MPI library that the program was built with"
		if strings.HasPrefix(more, "SLURM") {
			e.Fix = "set SLURM_MPI_TYPE=pmi2 for srun, which then starts one program; or use the mpiexec of the MPI library that the program was built with"
		}
	}
	return e
}

func plainRanks(n int) string {
	if n == 1 {
		return "1 rank"
	}
	return fmt.Sprintf("%d ranks", n)
}
