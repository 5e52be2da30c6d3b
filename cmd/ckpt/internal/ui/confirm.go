package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// ErrDeclined ends a command whose question was not answered with yes.
var ErrDeclined = errors.New("nothing was removed")

// Asks reports whether somebody can answer a question: the input is a terminal.
func (g *Globals) Asks() bool {
	in, ok := g.In.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}

// ask writes a question to the terminal, also if standard error goes to a file.
func (g *Globals) ask(question string) {
	if IsTerminal(g.Err) {
		fmt.Fprint(g.Err, question)
		return
	}
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprint(g.Err, question)
		return
	}
	defer tty.Close()
	fmt.Fprint(tty, question)
}

// Confirm asks a question. Without a yes it fails with ErrDeclined, and with the error of
// ctx if that ends first.
func (g *Globals) Confirm(ctx context.Context, question string) error {
	g.ask(question + " [y/N] ")
	answers := make(chan string, 1)
	go func() { // it reads on if ctx ends; the command does not
		line, err := bufio.NewReader(g.In).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = ""
		}
		answers <- line
	}()
	select {
	case line := <-answers:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return ErrDeclined
	case <-ctx.Done():
		fmt.Fprintln(g.Err)
		return ctx.Err()
	}
}

// Numbers lists ascending numbers as ranges, such as 1-3, 5. It leaves the middle out of
// a long list.
func Numbers(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		k := i
		for k+1 < len(list) && list[k+1] == list[k]+1 {
			k++
		}
		part := fmt.Sprint(list[i])
		if k > i {
			part = fmt.Sprintf("%d-%d", list[i], list[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	if n := len(parts); n > 6 {
		parts = append(append(parts[:3:3], "..."), parts[n-2:]...)
	}
	return strings.Join(parts, ", ")
}
