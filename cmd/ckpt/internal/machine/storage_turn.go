package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
	"ckpt/internal/vfs"

	"github.com/spf13/cobra"
)

type turnOptions struct {
	bytes, kind, name, wait string
	sync                    bool
}

func newTurnCommand(g *ui.Globals) *cobra.Command {
	var o turnOptions
	cmd := &cobra.Command{
		Use:   "turn [DIR] -- COMMAND [ARGUMENT]...",
		Short: "Have a command move its bytes in turns at a storage",
		Long: `Run a command that reads or writes much on the storage of DIR (default: the current
directory), and have it move its bytes when the controller there gives it a turn. The
command begins at once. While it moves bytes and others have their turn, all its processes
are suspended (SIGSTOP); while it computes, they are not. The commands of one pipeline have
their turns together.

The exit status is that of the command, or 128 and the number of the signal that
ended it. Signals, also ^C, go to the command. Its input is that of ckpt, but not a
terminal. Without a controller the command runs at once, and a line says so.

Most commands leave their last bytes in memory, and the system writes them later. With
--sync the turn lasts until they are on the storage.`,
		Example: "  ckpt storage turn -- cp -r results /archive\n  ckpt storage turn /scratch --bytes 20GiB --sync -- tar cf run.tar run",
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case dash < 0 && len(args) > 0:
				return ui.BadUsage("storage turn: the command must come after --", "like ckpt storage turn -- "+strings.Join(args, " "))
			case dash < 0 || dash == len(args):
				return ui.BadUsage("storage turn: no command given", "like ckpt storage turn /scratch -- cp -r results /archive")
			case dash > 1:
				return ui.BadUsage(fmt.Sprintf("storage turn: %d directories, want at most one before --", dash), "see ckpt storage turn --help")
			}
			dir := "."
			if dash == 1 {
				dir = args[0]
			}
			return runTurn(cmd.Context(), g, dir, &o, args[dash:])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.bytes, "bytes", "", "how much the command reads and writes there, if that is known, like 20GiB")
	f.StringVar(&o.kind, "kind", turns.Command, "what it does there: "+strings.Join(burstKinds, ", "))
	ui.Choices(f, "kind", burstKinds...)
	f.StringVar(&o.name, "name", "", "name in ckpt storage status; commands with one name have their turns together (default: COMMAND.PID)")
	f.StringVar(&o.wait, "wait", "10min", "wait at most so long for a turn, then run without one")
	f.BoolVar(&o.sync, "sync", false, "give a turn back only when all bytes written so far are on the storage")
	return cmd
}

var burstKinds = []string{turns.Command, turns.Checkpoint, turns.Drain, turns.Restart}

type turnResult struct {
	Dir        string  `json:"dir"`
	Name       string  `json:"name"`
	ExitStatus int     `json:"program_status"`
	Wall       float64 `json:"wall_s"`
	Waits      int     `json:"turn_waits"`
	Waited     float64 `json:"turn_wait_s"`
	Moved      int64   `json:"moved_bytes"`
	Without    string  `json:"without_turns"`
}

func runTurn(ctx context.Context, g *ui.Globals, dir string, o *turnOptions, command []string) error {
	var q ui.Quantities
	p := &player{g: g, dir: dir, command: command, sync: o.sync, left: -1}
	if o.bytes != "" {
		p.left = q.Size("--bytes", o.bytes)
	}
	wait := q.Duration("--wait", o.wait)
	switch {
	case q.Err != nil:
		return q.Err
	case wait <= 0:
		return ui.BadUsage("--wait "+o.wait+": want a duration over 0", "like --wait 10min")
	case !slices.Contains(burstKinds, o.kind):
		return ui.BadUsage(fmt.Sprintf("--kind %q: want %s", o.kind, strings.Join(burstKinds, ", ")), "")
	}
	p.kind = o.kind
	if err := isDirectory(dir); err != nil {
		return err
	}
	if err := ui.CheckProgram(command[0]); err != nil {
		return err
	}
	if on, err := MediumOf(dir); err == nil {
		// Of these, the kernel may count no bytes.
		p.calls = slices.Contains([]Class{Network, Memory, Unknown}, on.Class)
	}
	p.name = cmp.Or(o.name, upstream(os.Getpid()), nameOf(command, os.Getpid()))
	var without string
	if _, err := turns.Find(vfs.OS{}, dir); errors.Is(err, turns.ErrNone) {
		without = err.Error() // a stranger may be told why
		if err == turns.ErrNone {
			without = "no controller serves " + dir
		}
		g.Warn("%s: %s runs without turns (ckpt storage serve DIR starts one, with --group for several users)", without, command[0])
	}
	p.connect = func() *turns.Client {
		return turns.NewClient(dir, turns.Who{App: p.name}, turns.ClientOptions{
			MaxWait: wait,
			OnPass:  func(why string) { g.Warn("%s", why) },
		})
	}
	result, err := p.play(ctx)
	if err != nil {
		return err
	}
	result.Dir, result.Name = dir, p.name
	if without != "" {
		result.Without = without
	}
	if err := tellTurn(g, result); err != nil {
		return err
	}
	if result.ExitStatus != 0 {
		return ui.CommandStatus(result.ExitStatus)
	}
	return nil
}

// tellTurn says how a command went: with -v beside its output.
func tellTurn(g *ui.Globals, r *turnResult) error {
	if g.JSON {
		return g.PrintJSON(r)
	}
	if g.Verbose {
		g.Warn("%s waited %s, %s in all, and moved %s MiB in %s", r.Name, ui.Count(r.Waits, "time"), ui.Seconds(r.Waited), ui.MiB(r.Moved), ui.Seconds(r.Wall))
	}
	return nil
}

func isDirectory(dir string) error {
	fi, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return ui.AsNotFound(err)
	case err != nil:
		return err
	case !fi.IsDir():
		return ui.BadUsage(dir+" is no directory", "name a directory on the storage")
	}
	return nil
}

func newStatusCommand(g *ui.Globals) *cobra.Command {
	var w ui.Watch
	cmd := &cobra.Command{
		Use:   "status [DIR]",
		Short: "Show whose turn it is at a storage",
		Long: `Show what the controller of the storage of DIR (default: the current directory) knows:
whose turn it is, and of each job and command how much it has left, its requests for
turns, aggregates (requests granted together), bytes, waits, mean flow time (from asking
until all bytes are moved) and stretch (flow time over the time alone).

With --watch it shows that again and again: in place on a terminal, else a line each
time, with --json a JSON line. It ends with the controller, or with ^C.`,
		Example: "  ckpt storage status /scratch\n  ckpt storage status /scratch --watch --period 1s",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !w.On && (cmd.Flags().Changed("period") || cmd.Flags().Changed("looks")) {
				return ui.BadUsage("--period and --looks: only --watch shows a storage again and again", "add --watch")
			}
			if err := w.Parse(); err != nil {
				return err
			}
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return runStatus(cmd.Context(), g, dir, &w)
		},
	}
	cmd.Flags().BoolVarP(&w.On, "watch", "w", false, "show it again and again")
	w.AddFlags(cmd)
	g.Renamed(cmd.Flags(), "every", "period")
	return cmd
}

func runStatus(ctx context.Context, g *ui.Globals, dir string, w *ui.Watch) error {
	if err := isDirectory(dir); err != nil {
		return err
	}
	seen := false
	return w.Run(ctx, g, func(ctx context.Context) (ui.View, error) {
		u, err := askUnit(ctx, dir)
		if seen && errors.Is(err, turns.ErrNone) {
			return ui.View{}, ui.WithHint(fmt.Errorf("the controller of %s has ended", dir), "ckpt storage serve "+dir+" starts one")
		}
		if err != nil {
			return ui.View{}, err
		}
		seen = true
		return ui.View{JSON: u, Line: u.line(), Text: func() error { return u.print(g) }}, nil
	})
}

func askUnit(ctx context.Context, dir string) (*unitStatus, error) {
	s, err := turns.Ask(ctx, dir)
	if err != nil {
		return nil, controllerError(dir, err)
	}
	return (*unitStatus)(s), nil
}

func controllerError(dir string, err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return ui.WithHint(err, "only the owner of "+dir+" and its group may take turns there")
	case errors.Is(err, turns.ErrNone):
		return ui.AsNotFound(ui.WithHint(fmt.Errorf("%s: %w", dir, err), "ckpt storage serve "+dir+" starts one"))
	}
	return err
}

func (u *unitStatus) line() string {
	var waiting []string
	for _, a := range u.Apps {
		if a.State == "waits" {
			waiting = append(waiting, u.short(a.App))
		}
	}
	text := fmt.Sprintf("%s %s, %s MiB moved", time.Now().Format(time.TimeOnly), u.now(), ui.MiB(u.Bytes))
	if len(waiting) > 0 {
		text += ", waiting: " + strings.Join(waiting, ", ")
	}
	return text
}

// spanOf formats seconds, of which a controller counts whole milliseconds.
func spanOf(s float64) string {
	return ui.Span(time.Duration(s * float64(time.Second)).Round(time.Millisecond))
}

// unitStatus is what a controller knows of its storage unit.
type unitStatus turns.Status

// print shows a unit and a row for each application.
func (u *unitStatus) print(g *ui.Globals) error {
	if err := g.Printf("%s: policy %s, windows of %s, leases of %s; serving for %s\n%s\n%s in %s, %s, %s MiB moved in %s\n",
		u.Unit, u.Policy, spanOf(u.Window), spanOf(u.Lease), spanOf(u.Uptime), u.now(),
		ui.Count(int(u.Turns), "turn"), ui.Count(int(u.Windows), "window"), ui.Count(int(u.Evictions), "eviction"),
		ui.MiB(u.Bytes), spanOf(u.Busy)); err != nil {
		return err
	}
	if g.Verbose {
		if err := g.Printf("process %d on host %s\n", u.PID, u.Host); err != nil {
			return err
		}
	}
	if len(u.Apps) == 0 {
		return g.Printf("no job or command has asked for a turn\n")
	}
	var rows [][]string
	for _, a := range u.Apps {
		flow, stretch, remaining := "-", "-", "-"
		if a.FlowTime != nil {
			flow = ui.Seconds(*a.FlowTime)
		}
		if a.Stretch != nil {
			stretch = fmt.Sprintf("%.2f", *a.Stretch)
		}
		switch {
		case a.Waiting+a.Granted == 0:
		case a.Remaining == nil:
			remaining = "?"
		default:
			remaining = ui.MiB(*a.Remaining)
		}
		rows = append(rows, []string{u.short(a.App), a.User, a.State, a.Kind, remaining,
			fmt.Sprint(a.Requests), fmt.Sprint(a.Aggregates), ui.MiB(a.Bytes), ui.Seconds(a.Waited),
			flow, stretch, fmt.Sprint(a.Windows), fmt.Sprint(a.Evictions)})
	}
	return g.Table([]string{"application", "user", "state", "burst", "|MiB left", "|requests", "~|aggregates", "|MiB moved", "|waited",
		"|flow time", "|stretch", "~|windows", "~|evictions"}, rows)
}

func (u *unitStatus) now() string {
	switch {
	case u.Holder == "":
		return "nobody has the turn"
	case u.Revoked:
		return fmt.Sprintf("%s has the turn for %s and is to give it back", u.short(u.Holder), spanOf(u.Held))
	}
	return fmt.Sprintf("%s has the turn for %s", u.short(u.Holder), spanOf(u.Held))
}

// short leaves the directory of the unit out of the name of a job, which has its store's.
func (u *unitStatus) short(name string) string {
	return strings.Replace(name, " in "+strings.TrimSuffix(u.Unit, "/")+"/", " in ", 1)
}
