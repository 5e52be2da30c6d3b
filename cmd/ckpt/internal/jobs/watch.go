package jobs

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
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"ckpt/cmd/ckpt/internal/ui"
)

// watch shows something once, or again and again.
type watch struct {
	on     bool
	every  string
	looks  int // after which it ends, 0: never
	period time.Duration
}

// A view is what a watch shows.
type view struct {
	json any
	line string // one line, "" if only text tells
	text func() error
	over bool // nothing will change any more
}

func (w *watch) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.every, "every", "2s", "time between two looks")
	cmd.Flags().IntVar(&w.looks, "looks", 0, "end after so many looks (default: never)")
}

func (w *watch) parse() (err error) {
	if w.period, err = ui.ParseDuration("--every", w.every); err != nil {
		return err
	}
	if w.looks < 0 {
		return ui.BadUsage(fmt.Sprintf("--looks %d: want a positive number", w.looks), "leave --looks out to watch without end")
	}
	if w.period < 50*time.Millisecond {
		return ui.BadUsage(fmt.Sprintf("--every %s: want a duration of at least 50ms", w.every), "like --every 2s")
	}
	return nil
}

// run shows what look returns. A watch ends when that is over, with an error of look, or
// with ^C.
func (w *watch) run(ctx context.Context, g *ui.Globals, look func(context.Context) (view, error)) error {
	if !w.on {
		v, err := look(ctx)
		if v.text == nil {
			return err
		}
		if serr := g.Show(v.json, v.text); err == nil {
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
			return ui.ErrInterrupted
		case v.text == nil:
			return failed
		}
		if err := s.show(v); err != nil || v.over || n == w.looks {
			return errors.Join(failed, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ui.ErrInterrupted
		}
	}
}

// A screen shows views one after the other: in place on a terminal.
type screen struct {
	g     *ui.Globals
	fd    int // of the terminal, -1 if there is none
	lines int // shown now
}

func newScreen(g *ui.Globals) *screen {
	s := &screen{g: g, fd: -1}
	out := g.Out
	if n, ok := out.(*ui.Noticing); ok {
		out = n.W
	}
	if f, ok := out.(*os.File); ok && ui.IsTerminal(out) && !g.JSON {
		s.fd = int(f.Fd())
	}
	return s
}

func (s *screen) show(v view) error {
	if s.g.JSON {
		return json.NewEncoder(s.g.Out).Encode(v.json)
	}
	if s.fd < 0 && v.line != "" {
		return s.g.Printf("%s\n", v.line)
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
func (s *screen) render(v view) (string, error) {
	var b bytes.Buffer
	out := s.g.Out
	s.g.Out = io.Writer(&b)
	defer func() { s.g.Out = out }()
	err := v.text()
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
