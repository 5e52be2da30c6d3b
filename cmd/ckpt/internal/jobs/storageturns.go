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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/coordinator/turns"
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
