package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/images"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/turns"
	"ckpt/image/iosched"
)

func StorageCommands(g *ui.Globals) []*cobra.Command { return []*cobra.Command{newStorageCommand(g)} }

func newStorageCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "Give jobs that share a storage turns at it",
		Long: `Let the jobs and commands that share a disk or server use it one after the other.
Side by side each of them is slow, since the storage moves between their files. One
after the other, each is done sooner on average.

ckpt storage serve is the controller of one storage unit, in a terminal of its own;
ckpt launch --storage-turns takes part with a job, ckpt storage turn -- COMMAND with any
command, and ckpt storage status shows whose turn it is. docs/TURNS.md explains how.`,
		Example: `  ckpt storage serve /scratch
  ckpt storage turn /scratch -- tar cf results.tar results
  ckpt storage status /scratch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newServeCommand(g), newStatusCommand(g), newTurnCommand(g), images.NewStorageMountCommand(g), images.NewStorageRecoverCommand(g), newGuardCommand())
	return cmd
}

type serveFlags struct {
	policy, window, lease, longest, listen, idle string
	weights                                      []string
	group                                        string
}

func newServeCommand(g *ui.Globals) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Give turns to the jobs and commands that use a storage",
		Long: `Be the controller of the storage of DIR: give turns to jobs and commands
(ckpt storage turn) that use DIR or what is below it. It runs until ^C, SIGTERM or
--idle-exit, and keeps its socket in DIR/.ckpt-turns. Only the owner of DIR and its group
can connect.

In a directory of root, or one that all may write, --group names the group of users that
take turns: its members find the controller, whoever of them has started it.

A line says when it listens. With -v it says who comes, has the turn, gives it back and
goes; with --json it prints a line for each of these events. If it is killed, jobs and
commands go on without turns; another one can be started at any time.

Policies: wsjf, shortest burst first, with equal shares for users; srpt, shortest first;
mlf, that of aIOLi, in growing windows; fifo, in the order of arrival, each to its end; rr, a
window each; none, all at once.`,
		Example: "  ckpt storage serve /scratch &\n  ckpt storage serve /scratch --policy fifo --weight ana=2 -v\n  ckpt storage serve /scratch --listen 10.77.0.1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			return runServe(cmd.Context(), g, args[0], o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", iosched.DefaultPolicy, "who has the next turn: "+strings.Join(iosched.TurnPolicies(), ", "))
	ui.Choices(flags, "policy", iosched.TurnPolicies()...)
	flags.StringVar(&f.window, "window", "500ms", "time of a turn after which others are looked at")
	flags.StringVar(&f.lease, "lease", "5s", "a holder that is silent for so long loses its turn")
	flags.StringVar(&f.longest, "longest-wait", "1min", "who has waited so long goes next, whatever the policy")
	flags.StringVar(&f.listen, "listen", "", "HOST or HOST:PORT of this machine for jobs on other hosts, over TLS")
	flags.StringVar(&f.group, "group", "", "group whose members may take turns (default: that of DIR)")
	flags.StringVar(&f.idle, "idle-exit", "", "end when nobody was connected for so long, like 30s (default: never)")
	flags.StringArrayVar(&f.weights, "weight", nil, "USER=W: a user with weight 2 gets twice the share of one with 1; may be given several times")
	return cmd
}

func (f *serveFlags) options() (turns.ServeOptions, error) {
	var q ui.Quantities
	o := turns.ServeOptions{Listen: f.listen, IdleExit: q.Duration("--idle-exit", f.idle)}
	o.Arbiter = iosched.TurnOptions{Policy: f.policy, Window: q.Duration("--window", f.window), Lease: q.Duration("--lease", f.lease),
		MaxWait: q.Duration("--longest-wait", f.longest)}
	if q.Err != nil {
		return o, q.Err
	}
	if !slices.Contains(iosched.TurnPolicies(), f.policy) {
		return o, ui.BadUsage(fmt.Sprintf("--policy %q: want %s", f.policy, strings.Join(iosched.TurnPolicies(), ", ")), "")
	}
	for flag, d := range map[string]bool{"--window " + f.window: o.Arbiter.Window > 0, "--lease " + f.lease: o.Arbiter.Lease > 0,
		"--longest-wait " + f.longest: o.Arbiter.MaxWait > 0, "--idle-exit " + f.idle: f.idle == "" || o.IdleExit > 0} {
		if !d {
			return o, ui.BadUsage(flag+": want a duration over 0", "")
		}
	}
	if f.group != "" {
		gid, err := ui.GroupID(f.group)
		if err != nil {
			return o, err
		}
		o.Group = gid
	}
	shares := map[string]float64{}
	for _, w := range f.weights {
		user, weight, _ := strings.Cut(w, "=")
		share, err := strconv.ParseFloat(weight, 64)
		if err != nil || user == "" || !(share > 0) || math.IsInf(share, 0) {
			return o, ui.BadUsage(fmt.Sprintf("--weight %q: want USER=WEIGHT with a weight over 0", w), "like --weight ana=2")
		}
		shares[user] = share
	}
	o.Arbiter.Share = func(user string) float64 {
		if share, ok := shares[user]; ok {
			return share
		}
		return 1
	}
	return o, nil
}

func runServe(ctx context.Context, g *ui.Globals, dir string, o turns.ServeOptions) error {
	if err := isDirectory(dir); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			end(errors.New(s.String()))
		case <-ctx.Done():
		}
	}()
	signal.Ignore(syscall.SIGPIPE) // ckpt storage serve … | head must not end the turns
	o.Observer = &teller{g: g, o: &o}
	err := turns.Serve(ctx, dir, o)
	switch {
	case errors.Is(err, turns.ErrServed):
		return ui.WithHint(err, "ckpt storage status "+dir+" shows it")
	case errors.Is(err, fs.ErrPermission):
		return ui.WithHint(err, "its owner can serve it, and who may write there; several users can share a directory below it: mkdir DIR, chgrp GROUP DIR, chmod 2770 DIR, ckpt storage serve DIR")
	case errors.Is(err, turns.ErrManyAddresses), errors.Is(err, turns.ErrGroup):
		return ui.AsUsage(err)
	}
	return err
}

type teller struct {
	g *ui.Globals
	o *turns.ServeOptions
}

// Observe prints an event. Without -v it prints only those that a user should see.
func (t *teller) Observe(e turns.Event) {
	if t.g.JSON {
		e.Text = ui.OneLine(e.Text)
		_ = json.NewEncoder(t.g.Out).Encode(e) // a closed pipe must not end the turns
		return
	}
	often := e.What == turns.Joined || e.What == turns.Left || e.What == turns.Granted || e.What == turns.Revoking || e.What == turns.Omitted
	if t.g.Quiet || often && !t.g.Verbose {
		return
	}
	_ = t.g.Printf("%s %s\n", e.Time.Local().Format(time.TimeOnly), t.describe(&e))
}

func (t *teller) describe(e *turns.Event) string {
	who := fmt.Sprintf("%s of %s", e.App, e.User)
	if rank := e.Rank; rank != nil && (*rank > 0 || e.PID == 0) {
		who += fmt.Sprintf(", rank %d,", *rank)
	} else {
		who += fmt.Sprintf(", process %d,", e.PID)
	}
	switch e.What {
	case turns.Serving:
		text := fmt.Sprintf("%s: giving turns: policy %s, windows of %v, leases of %v",
			e.Dir, e.Policy, t.o.Arbiter.Window, t.o.Arbiter.Lease)
		if e.Address != "" {
			text += ", on " + e.Address + " for other hosts"
		}
		return text
	case turns.Joined:
		return who + " wants turns"
	case turns.Left:
		return who + " has left"
	case turns.Granted:
		return who + " has the turn"
	case turns.Revoking:
		return who + " is to give the turn back"
	case turns.Evicted:
		return who + " was evicted: it was silent, or did not give the turn back in time"
	case turns.Refused:
		return "a connection was refused: " + e.Text
	case turns.Omitted:
		return e.Text + " are not shown"
	case turns.Ending:
		return "ended: " + e.Text
	}
	return e.What
}
