package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
	"ckpt/internal/vfs"
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
are suspended (SIGSTOP); while it computes, they are not. StorageCommands of one pipeline have
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
