package ui

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// Busy tells on a terminal, from two seconds on, for how long a command has computed, until done
// is called or the command prints.
func (g *Globals) Busy(what string) (done func()) {
	if g.Quiet || g.JSON || !IsTerminal(g.Err) {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	start, errs := time.Now(), g.Err
	go func() {
		defer close(ended)
		shown, next := false, time.NewTimer(barDelay)
		defer next.Stop()
		for {
			select {
			case <-stop:
				if shown {
					io.WriteString(errs, "\r\x1b[K")
				}
				return
			case <-next.C:
				line := fmt.Sprintf("%s: computing, %s elapsed", what, Span(time.Since(start).Round(time.Second)))
				io.WriteString(errs, "\r\x1b[K"+cut(errs, Text(line)))
				shown = true
				next.Reset(time.Second)
			}
		}
	}()
	var once sync.Once
	done = func() { once.Do(func() { close(stop); <-ended }) }
	g.Out = &firstWrite{g.Out, done}
	return done
}

// A firstWrite calls a function before what is written.
type firstWrite struct {
	w      io.Writer
	before func()
}

// Unwrap returns the stream behind it.
func (f *firstWrite) Unwrap() io.Writer { return f.w }

func (f *firstWrite) Write(p []byte) (int, error) {
	f.before()
	return f.w.Write(p)
}

// TellsProgress has the commands tell when they compute for long.
func (g *Globals) TellsProgress(commands ...*cobra.Command) {
	for _, c := range commands {
		if run := c.RunE; run != nil && !c.HasSubCommands() {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				defer g.Busy(cmd.CommandPath())()
				return run(cmd, args)
			}
		}
		g.TellsProgress(c.Commands()...)
	}
}
