package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// A Watch shows something once, or again and again.
type Watch struct {
	On     bool
	every  string
	looks  int // after which it ends, 0: never
	period time.Duration
}

// A View is what a Watch shows.
type View struct {
	JSON any
	Line string // one line, "" if only text tells
	Text func() error
	Over bool // nothing will change any more
}

// AddFlags adds the flags about its looks.
func (w *Watch) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.every, "period", "2s", "time between two looks")
	cmd.Flags().IntVar(&w.looks, "looks", 0, "end after so many looks (default: never)")
}

// Parse reads them.
func (w *Watch) Parse() (err error) {
	if w.period, err = ParseDuration("--period", w.every); err != nil {
		return err
	}
	if w.looks < 0 {
		return BadUsage(fmt.Sprintf("--looks %d: want a positive number", w.looks), "leave --looks out to watch without end")
	}
	if w.period < 50*time.Millisecond {
		return BadUsage(fmt.Sprintf("--period %s: want a duration of at least 50ms", w.every), "like --period 2s")
	}
	return nil
}

// Run shows what look returns. A watch ends when that is over, with an error of look, or
// with ^C.
func (w *Watch) Run(ctx context.Context, g *Globals, look func(context.Context) (View, error)) error {
	if !w.On {
		v, err := look(ctx)
		if v.Text == nil {
			return err
		}
		if serr := g.Show(v.JSON, v.Text); err == nil {
			err = serr
		}
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	tick := time.NewTicker(w.period)
	defer tick.Stop()
	s := newScreen(g)
	for n := 1; ; n++ {
		v, failed := look(ctx)
		switch {
		case ctx.Err() != nil:
			return ErrInterrupted
		case v.Text == nil:
			return failed
		}
		if err := s.show(v); err != nil || v.Over || n == w.looks {
			return errors.Join(failed, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ErrInterrupted
		}
	}
}

// A screen shows views one after the other: in place on a terminal.
type screen struct {
	g     *Globals
	fd    int // of the terminal, -1 without one
	lines int // shown now
}

func newScreen(g *Globals) *screen {
	s := &screen{g: g, fd: -1}
	if f := fileOf(g.Out); IsTerminal(g.Out) && !g.JSON {
		s.fd = int(f.Fd())
	}
	return s
}

func (s *screen) show(v View) error {
	if s.g.JSON {
		return json.NewEncoder(s.g.Out).Encode(v.JSON)
	}
	if s.fd < 0 && v.Line != "" {
		return s.g.Printf("%s\n", v.Line)
	}
	text, err := s.render(v)
	if err != nil {
		return err
	}
	if s.fd < 0 {
		return s.g.Printf("%s\n%s\n", time.Now().Format(time.DateTime), text)
	}
	lines := s.fit(strings.Split(strings.TrimRight(text, "\n"), "\n"))
	back := ""
	if s.lines > 0 {
		back = fmt.Sprintf("\x1b[%dA", s.lines)
	}
	s.lines = len(lines)
	return s.g.Printf("%s\r\x1b[J%s\n", back, strings.Join(lines, "\n"))
}

// render returns the text of a view.
func (s *screen) render(v View) (string, error) {
	var b bytes.Buffer
	out := s.g.Out
	s.g.Out = io.Writer(&b)
	defer func() { s.g.Out = out }()
	err := v.Text()
	return b.String(), err
}

// fit cuts what does not fit on the terminal, so that the next view covers this one.
func (s *screen) fit(lines []string) []string {
	width, height, err := term.GetSize(s.fd)
	if err != nil || width < 1 || height < 2 {
		return lines
	}
	if more := len(lines) - (height - 1); more > 0 {
		lines = append(lines[:height-2:height-2], fmt.Sprintf("and %d more", more+1))
	}
	for i, line := range lines {
		if runes := []rune(strings.TrimRight(line, " ")); len(runes) > width {
			lines[i] = string(runes[:width])
		} else {
			lines[i] = string(runes)
		}
	}
	return lines
}

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
