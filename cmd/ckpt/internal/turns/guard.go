package turns

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ckpt/coordinator/launch"
	"ckpt/internal/family"
)

// A guard is a process that outlives ckpt. If ckpt is killed while its command is
// suspended, the guard ends the command. The kernel does that only for an orphaned process
// group, with SIGHUP: not for commands that ignore SIGHUP (nohup), not in containers whose
// first process is of the same session, and not for processes in groups of their own.
type guard struct{ pipe *os.File }

// suspended is all that is not to stay so when ckpt ends: a process group, 0 for none, and
// processes in groups of their own.
type suspended struct {
	Group     int              `json:"group,omitempty"`
	Processes []family.Process `json:"processes,omitempty"`
}

// newGuard starts a guard.
func newGuard() (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command(launch.Self, "storage", "guard")
	cmd.Args[0] = "ckpt"
	cmd.Dir, cmd.Stdin = "/", r
	// Signals to the session or process group of ckpt do not reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, err
	}
	return &guard{w}, cmd.Process.Release()
}

// tell has the guard know what is suspended. It comes before the signals that suspend.
func (g *guard) tell(s suspended) {
	if g != nil {
		_ = json.NewEncoder(g.pipe).Encode(s) // a guard that was killed is missed by nobody
	}
}

// release ends the guard.
func (g *guard) release() {
	if g != nil {
		g.tell(suspended{})
		g.pipe.Close()
	}
}

func newGuardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "guard",
		Short:  "End a suspended command when ckpt storage turn is killed; started by it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			guardUntilEnd(cmd.InOrStdin())
			return nil
		},
	}
}

// guardUntilEnd reads what is suspended until the writer ends, and ends what was suspended
// then.
func guardUntilEnd(in io.Reader) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	var last suspended
	for d := json.NewDecoder(in); ; {
		var next suspended
		if err := d.Decode(&next); err != nil {
			break // a message that is torn came before its signals
		}
		last = next
	}
	last.end()
}

// end has all processes continue with SIGTERM.
func (s suspended) end() {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if s.Group > 0 {
			_ = syscall.Kill(-s.Group, sig) // it may have ended
		}
		family.Signal(s.Processes, sig)
	}
}
