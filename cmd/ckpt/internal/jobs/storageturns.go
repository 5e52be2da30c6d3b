package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/tune"
	"ckpt/coordinator/turns"
	"ckpt/image/iosched"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// turnsOption is the flag for turns on the storage.
type turnsOption struct {
	text string
	word string // that stands by itself, and means the value
}

const turnsFlag = "storage-turns"

// turnsWords are the values of the flag. Without one it is the first.
var turnsWords = []string{"on", "off", "auto"}

func (o *turnsOption) addFlags(f *pflag.FlagSet, otherwise string) {
	f.StringVar(&o.text, turnsFlag, "", "take turns with other jobs on the storage: on (if it has a controller), off or auto (and start one if it has none) (default: "+otherwise+")")
	f.Lookup(turnsFlag).NoOptDefVal = turnsWords[0]
	ui.Choices(f, turnsFlag, turnsWords...)
}

// setting is the value of the flag, nil if it was not given.
func (o *turnsOption) setting() (*job.StorageTurns, error) {
	if o.text == "" {
		return nil, nil
	}
	t, err := job.ParseTurns(cmp.Or(o.word, o.text))
	return &t, err
}

// arguments returns what comes before -- and the command after it, without a value of the
// flag that stands by itself, as in --storage-turns auto. Want is how many arguments there
// are to be. Dash says that -- was given.
func (o *turnsOption) arguments(cmd *cobra.Command, args []string, want int) (before, command []string, dash bool) {
	before = args
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		before, command, dash = args[:n], args[n:], true
	}
	given := cmd.Flags().Changed(turnsFlag) && o.text == turnsWords[0]
	if !given || len(before) != want+1 {
		return before, command, dash
	}
	for i, word := range slices.Backward(before) {
		if slices.Contains(turnsWords, word) {
			o.word = word
			return slices.Delete(slices.Clone(before), i, i+1), command, dash
		}
	}
	return before, command, dash
}

// How long a controller may take to be found after it was started, how often to look, and
// how long it stays without anything to do.
const (
	controllerStart = 5 * time.Second
	controllerLook  = 10 * time.Millisecond
	controllerIdle  = 30 * time.Second
)

// startTurns starts a controller for a directory, which ends by itself, and waits until it
// is found. It is in a session of its own, and has nothing of ours open. Of several that
// are started at once, one stays.
func startTurns(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	said, err := os.CreateTemp("", "ckpt-turns-")
	if err != nil {
		return err
	}
	defer said.Close()
	if err := os.Remove(said.Name()); err != nil {
		return err
	}
	cmd := exec.Command(self, "storage", "serve", dir, "--idle-exit", controllerIdle.String())
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = "/", said, &syscall.SysProcAttr{Setsid: true}
	if err := startAlone(cmd.Start); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.After(controllerStart)
	look := time.NewTicker(controllerLook)
	defer look.Stop()
	for {
		_, err := turns.Ask(ctx, dir)
		if err == nil {
			return nil
		}
		if !errors.Is(err, turns.ErrNone) {
			return err
		}
		select {
		case <-look.C:
		case err := <-ended:
			if _, found := turns.Ask(ctx, dir); found == nil {
				return nil // another one was faster
			}
			return errors.Join(err, whatSaid(said))
		case <-late:
			return fmt.Errorf("no controller for %s is to be found %v after process %d was started", dir, controllerStart, cmd.Process.Pid)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// whatSaid is the text that a process has left as an error, or nil.
func whatSaid(f *os.File) error {
	b := make([]byte, 1<<10)
	n, err := f.ReadAt(b, 0)
	if text := strings.TrimSpace(string(b[:n])); text != "" {
		return errors.New(text)
	}
	if err != io.EOF {
		return err
	}
	return nil
}

// startAlone starts a process that gets no descriptor which this one was started
// with, such as the lock of a script or a pipe that its reader waits for the end of. Those
// that this process has opened itself never pass on.
func startAlone(start func() error) error {
	list := inherited()
	mark := func(flag int) {
		for _, fd := range list {
			_, _ = unix.FcntlInt(fd, unix.F_SETFD, flag) // fails if it was closed meanwhile
		}
	}
	mark(unix.FD_CLOEXEC)
	defer mark(0)
	return start()
}

// inherited lists the descriptors beside the standard ones that a child would get.
func inherited() []uintptr {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var list []uintptr
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			list = append(list, uintptr(fd))
		}
	}
	return list
}

// contendOptions are the flags about jobs that use the storage at the same time.
type contendOptions struct {
	with     []string
	policies string
}

func (o *contendOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.with, "with", nil, "with --on: another job at the same time: an application like bt.C.64, a workload or job file, with settings like ,start=30s,nodes=2,read (repeatable)")
	f.StringVar(&o.policies, "policy", "all", "with --with: policies of turns and of targets, like fifo,wsjf")
	ui.Choices(f, "policy", append(policyNames(), "all")...)
}

// turnPolicies are the policies of turns that keep an order.
func turnPolicies() []string {
	return slices.DeleteFunc(iosched.TurnPolicies(), func(p string) bool { return p == "none" })
}

// policyNames are all policies, of turns first, then of targets.
func policyNames() []string {
	names := turnPolicies()
	for _, p := range iosched.Names() {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	return names
}

// chosen returns the policies to compare.
func (o *contendOptions) chosen() (p tune.Policies, err error) {
	if o.policies == "all" {
		return tune.Policies{Turns: turnPolicies(), Targets: iosched.Names()}, nil
	}
	names := policyNames()
	for name := range strings.SplitSeq(o.policies, ",") {
		if name == "none" {
			continue // it is always there
		}
		if !slices.Contains(names, name) {
			hint := "the policies are " + strings.Join(names, ", ") + ", or all"
			if near := ui.Nearest(name, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			return p, ui.BadUsage(fmt.Sprintf("--policy %s: no policy is called %q", o.policies, name), hint)
		}
		if slices.Contains(turnPolicies(), name) {
			p.Turns = append(p.Turns, name)
		}
		if slices.Contains(iosched.Names(), name) {
			p.Targets = append(p.Targets, name)
		}
	}
	return p, nil
}

// check refuses flags that need others.
func (o *contendOptions) check(cmd *cobra.Command, on string) error {
	switch {
	case len(o.with) > 0 && on == "":
		return ui.BadUsage("--with "+o.with[0]+": jobs meet on a described storage only", "add --on")
	case len(o.with) == 0 && cmd.Flags().Changed("policy"):
		return ui.BadUsage("--policy "+o.policies+": a policy orders the requests of several jobs", "add --with, like --with bt.C.64")
	}
	return nil
}

// contend predicts the job of the plan beside the jobs of --with; nil without any.
func (o *layoutOptions) contend(ctx context.Context, c tune.Case) (*tune.Contention, error) {
	if len(o.contendOptions.with) == 0 {
		return nil, nil
	}
	policies, err := o.chosen()
	if err != nil {
		return nil, err
	}
	sys, err := o.storage.Load()
	if err != nil {
		return nil, err
	}
	if c.Background, err = o.storage.Background(); err != nil {
		return nil, err
	}
	jobs := []tune.Contender{{Case: c}}
	for _, with := range o.contendOptions.with {
		other, err := contender(with)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, other)
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	return tune.Contend(ctx, sys, jobs, policies)
}

// orderName names an order in a table.
func orderName(o *tune.Order) string {
	if o.Policy == "" {
		return "as they come"
	}
	return string(o.Kind) + ": " + o.Policy
}

// shownContenders is how many jobs have a column of their own without --all.
const shownContenders = 3

// printContention prints the jobs, and how they fare in each order.
func printContention(g *ui.Globals, d *tune.Contention, all bool) error {
	g.Printf("\nat the same time\n")
	var rows [][]string
	for i, j := range d.Jobs {
		what := "writes"
		if j.Read {
			what = "reads"
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), j.App, j.User, what, ui.MiB(j.Bytes), ui.Seconds(j.Begin), ui.Seconds(j.Seconds)})
	}
	if err := g.Sparse([]string{"|job", "app", "user", "it", "|MiB", "|start", "|alone"}, rows); err != nil {
		return err
	}
	g.Printf("\n")
	shown := len(d.Jobs)
	if !all {
		shown = min(shown, shownContenders)
	}
	header := []string{"order", "|total", "|mean flow", "|of none"}
	for i := range shown {
		header = append(header, fmt.Sprintf("%s|job %d", map[bool]string{true: "~"}[i > 1], i+1))
	}
	rows = nil
	for _, o := range d.Orders {
		row := []string{orderName(&o), ui.Seconds(o.Total), ui.Seconds(o.Mean), fmt.Sprintf("%.2f", o.MeanRatio)}
		for _, j := range o.Jobs[:shown] {
			row = append(row, fmt.Sprintf("%s ×%.2f", ui.Seconds(j.Seconds), j.Stretch))
		}
		rows = append(rows, row)
	}
	if err := g.Table(header, rows); err != nil {
		return err
	}
	return printMore(g, len(d.Jobs)-shown)
}
