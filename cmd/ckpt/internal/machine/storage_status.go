package machine

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
