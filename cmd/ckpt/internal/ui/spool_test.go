package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"ckpt/internal/testkit"
)

// gated is a stream that takes nothing until its gate opens.
type gated struct {
	gate chan struct{}
	bytes.Buffer
}

func (g *gated) Write(p []byte) (int, error) {
	<-g.gate
	return g.Buffer.Write(p)
}

// TestSpool: writing never waits. A reader that goes on gets the newest lines, whole and in
// order. One that does not read holds nothing up.
func TestSpool(t *testing.T) {
	w := &gated{gate: make(chan struct{})}
	s := newSpool(100)
	out := &spoolEnd{s: s, w: w}
	for i := range 1000 {
		fmt.Fprintf(out, "line %3d\n", i)
	}
	if left, stuck := s.close(time.Millisecond); !stuck || left < 990 {
		t.Errorf("nobody reads: %d left out, stuck %v", left, stuck)
	}
	close(w.gate)
	<-s.done
	lines := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
	if n := len(lines); n < 11 || n > 12 || lines[n-1] != "line 999" || lines[n-11] != "line 989" {
		t.Errorf("%d lines: %q", n, lines)
	}
}

// TestSpoolAll: a reader that reads gets everything, both streams in order if they are one.
func TestSpoolAll(t *testing.T) {
	var all bytes.Buffer
	g := &Globals{Streams: Streams{Out: &Noticing{W: &all}}}
	g.Err = g.Out
	finish := g.Spool()
	want := ""
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want += line
		io.WriteString([]io.Writer{g.Out, g.Err}[i%2], line)
	}
	if silent, err := finish(); silent || err != nil || all.String() != want {
		t.Errorf("silent %v, %v, %d of %d bytes", silent, err, all.Len(), len(want))
	}
}

// TestSpoolFails: an error of the output is told in the end, and of one stream only.
func TestSpoolFails(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		testkit.Skip(t, err.Error())
	}
	defer full.Close()
	var errs bytes.Buffer
	g := &Globals{Streams: Streams{Out: &Noticing{W: full}, Err: &errs}}
	finish := g.Spool()
	g.Printf("lost\n")
	g.Warn("told")
	silent, err := finish()
	if silent || !errors.Is(err, g.Out.(*Noticing).Err) || err == nil {
		t.Errorf("silent %v, %v", silent, err)
	}
	if errs.String() != "ckpt: told\n" {
		t.Errorf("%q", errs.String())
	}
}
