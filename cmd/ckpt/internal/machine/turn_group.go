package machine

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ckpt/coordinator/launch"
	"ckpt/internal/family"
)

// A group is a command with all processes that it starts, which are suspended together. If ckpt
// is killed, the command gets SIGTERM; if it is suspended then, all its processes get SIGTERM and
// continue.
type group struct {
	cmd   *family.Command
	guard *guard // from when the command is suspended first; nil if it cannot be started
	moved int64  // bytes of ckpt and all below it, when somebody looked last
}

// stopping is how long suspend waits for processes that are in the middle of an operation.
const stopping = 5 * time.Second

// newGroup starts a command. Calls says which bytes its progress counts.
func newGroup(cmd *exec.Cmd, calls bool) (*group, error) {
	g := &group{}
	g.progress(calls)
	var err error
	g.cmd, err = family.Start(cmd)
	return g, err
}

// suspend stops all processes of the command. It returns when they stand still: a process
// finishes its current operation first.
func (g *group) suspend() {
	if g.guard == nil {
		g.guard, _ = newGuard() // without it, the kernel resumes most commands
	}
	g.guard.tell(suspended{Group: g.cmd.PID()})
	g.cmd.Signal(syscall.SIGSTOP)
	seen := []family.Process{}
	for late := time.Now().Add(stopping); time.Now().Before(late); time.Sleep(time.Millisecond) {
		// Launchers of MPI programs make groups of their own, and a process may start another one
		// meanwhile.
		var found []family.Process
		still := true
		for _, p := range g.family() {
			if !slices.Contains(seen, p) {
				found = append(found, p)
			}
			still = still && p.Suspended()
		}
		if still {
			return
		}
		seen = append(seen, found...)
		g.guard.tell(suspended{Group: g.cmd.PID(), Processes: seen})
		family.Signal(found, syscall.SIGSTOP)
	}
}

func (g *group) resume() {
	family.Signal(g.family(), syscall.SIGCONT)
	g.cmd.Signal(syscall.SIGCONT)
	g.guard.tell(suspended{})
}

// release ends what was started beside the command. Nothing is suspended any more.
func (g *group) release() { g.guard.release() }

func (g *group) signal(s os.Signal) {
	g.cmd.Signal(s)
	g.resume()
}

func (g *group) family() []family.Process { return family.Descendants(g.cmd.PID()) }

// blocked reports whether a process of the command waits for a device.
func (g *group) blocked() bool { return slices.ContainsFunc(g.family(), family.Process.Blocked) }

// progress returns how many bytes more the command has moved to and from storage, or of all its
// calls.
func (g *group) progress(calls bool) int64 {
	// When a process ends, the kernel adds its bytes to its parent's: in the end, to ckpt's own.
	var all int64
	switch {
	case !calls:
		all = family.BytesMoved(family.Descendants(os.Getpid()))
	case g.cmd != nil:
		all = family.BytesOfCalls(g.family()) // ckpt itself makes many
	}
	more := all - g.moved
	if more <= 0 {
		return 0 // processes that end are missing until their parent has noticed
	}
	g.moved += more
	return more
}

// A guard is a process that outlives ckpt: if ckpt is killed while its command is suspended, the
// guard ends the command. The kernel does so only for an orphaned process group, by SIGHUP, which
// misses commands that ignore it (nohup), containers whose first process is of the same session,
// and processes in groups of their own.
type guard struct{ pipe *os.File }

// suspended is what the guard resumes when ckpt ends: a process group, 0 without one, and
// processes in groups of their own.
type suspended struct {
	Group     int              `json:"group,omitempty"`
	Processes []family.Process `json:"processes,omitempty"`
}

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

// tell says to the guard what is suspended, before the signals that suspend.
func (g *guard) tell(s suspended) {
	if g != nil {
		_ = json.NewEncoder(g.pipe).Encode(s) // a guard that was killed is not missed
	}
}

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

// guardUntilEnd ends what is suspended when the writer ends.
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
