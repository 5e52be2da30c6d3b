package turns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
)

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
		Example: "  ckpt storage status /scratch\n  ckpt storage status /scratch --watch --every 1s",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !w.On && (cmd.Flags().Changed("every") || cmd.Flags().Changed("looks")) {
				return ui.BadUsage("--every and --looks: only --watch shows a storage again and again", "add --watch")
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

// askUnit asks the controller of a directory.
func askUnit(ctx context.Context, dir string) (*unitStatus, error) {
	s, err := turns.Ask(ctx, dir)
	if err != nil {
		return nil, controllerError(dir, err)
	}
	u := unitStatusOf(&s.Status)
	u.Dir, u.Host, u.PID, u.Address = s.Unit, s.Host, s.PID, s.Address
	return u, nil
}

// controllerError says what to do about a controller that does not answer.
func controllerError(dir string, err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return ui.WithHint(err, "only the owner of "+dir+" and its group may take turns there")
	case errors.Is(err, turns.ErrNone):
		return ui.AsNotFound(ui.WithHint(fmt.Errorf("%s: %w", dir, err), "ckpt storage serve "+dir+" starts one"))
	}
	return err
}

// line is a status in one line, for files and pipes.
func (u *unitStatus) line() string {
	var waiting []string
	for _, a := range u.Apps {
		if a.State == "waits" {
			waiting = append(waiting, u.short(a.Name))
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
