package machine

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ckpt/coordinator/launch"
	"ckpt/internal/family"

	"github.com/spf13/cobra"
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

// StorageCommands of one pipeline wait for each other: one that waits for its turn fills or empties the
// pipe, and stops the others in theirs. So a command has the name of the first one of its
// pipeline, and commands with one name have their turns together.

// forking is for how long a process of the pipeline may take to become its program.
const forking = 500 * time.Millisecond

func nameOf(command []string, pid int) string {
	return filepath.Base(command[0]) + "." + strconv.Itoa(pid)
}

// upstream returns the name of the first command in turns of the pipeline that leads to the input
// of a process, or "".
func upstream(pid int) string {
	for end := time.Now().Add(forking); ; time.Sleep(5 * time.Millisecond) {
		name, forked := pipeline(pid)
		if name != "" || !forked || time.Now().After(end) {
			return name
		}
	}
}

// A pipeID is the identity of a pipe.
type pipeID struct{ dev, ino uint64 }

type ends struct{ reads, writes []pipeID }

// pipeline follows the pipes from the input of a process to where they begin. Forked says that a
// process on the way may still join: a copy of the shell that makes the pipeline, or one that
// begins its program.
func pipeline(pid int) (name string, forked bool) {
	all := map[int]ends{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all[n] = endsOf(n)
		}
	}
	input, _, ok := pipeAt(fmt.Sprintf("/proc/%d/fd/0", pid))
	if !ok {
		return "", false
	}
	parent := os.Getppid()
	seen := map[int]bool{pid: true, parent: true}
	for level := []pipeID{input}; len(level) > 0; {
		var next []pipeID
		var writers []int
		for n, p := range all {
			if !seen[n] && slices.ContainsFunc(p.writes, func(id pipeID) bool { return slices.Contains(level, id) }) {
				writers = append(writers, n)
			}
		}
		slices.Sort(writers)
		first := ""
		for _, n := range writers {
			seen[n] = true
			next = append(next, all[n].reads...)
			words := wordsOf(n)
			if found := turnName(n, words); first == "" {
				first = found
			}
			forked = forked || len(words) == 0 || isCopyOf(n, parent)
		}
		if first != "" {
			name = first
		}
		level = next
	}
	return name, forked
}

// endsOf returns the pipes of a process, as far as this user may know them.
func endsOf(pid int) (e ends) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return e
	}
	for _, fd := range entries {
		id, mode, ok := pipeAt(filepath.Join(dir, fd.Name()))
		if ok && mode&0o400 != 0 {
			e.reads = append(e.reads, id)
		}
		if ok && mode&0o200 != 0 {
			e.writes = append(e.writes, id)
		}
	}
	return e
}

// pipeAt identifies the pipe of a descriptor. Its mode says whether it reads or writes.
func pipeAt(path string) (id pipeID, mode fs.FileMode, ok bool) {
	link, err := os.Lstat(path)
	if err != nil {
		return id, 0, false
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode()&fs.ModeNamedPipe == 0 {
		return id, 0, false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return id, 0, false
	}
	return pipeID{uint64(st.Dev), st.Ino}, link.Mode(), true
}

func wordsOf(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == 0 })
}

// turnName returns the name under which another process of ckpt storage turn asks, or "".
func turnName(pid int, words []string) string {
	dash := slices.Index(words, "--")
	if dash < 1 || dash == len(words)-1 {
		return ""
	}
	flags := words[1:dash]
	if at := slices.Index(flags, "storage"); at < 0 || !slices.Contains(flags[at:], "turn") {
		return ""
	}
	for i, word := range flags {
		if given, ok := strings.CutPrefix(word, "--name="); ok {
			return given
		}
		if word == "--name" && i+1 < len(flags) {
			return flags[i+1]
		}
	}
	return nameOf(words[dash+1:], pid)
}

// isCopyOf reports whether a process is a child that has not begun a program of its own.
func isCopyOf(pid, parent int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const parentField, flagsField, forkNoExec = 1, 6, 0x40 // fields 4 and 9 of proc(5); PF_FORKNOEXEC
	if len(fields) <= flagsField || fields[parentField] != strconv.Itoa(parent) {
		return false
	}
	flags, _ := strconv.ParseUint(fields[flagsField], 10, 64)
	return flags&forkNoExec != 0
}
