package ui

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const (
	helpColumns = 80  // of an unknown terminal
	widest      = 100 // lines longer than this are hard to read
)

// Columns returns the width that output should fit: $COLUMNS, else the width of the
// terminal. It is 0, for no limit, in a file or pipe.
func (g *Globals) Columns() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f := fileOf(g.CommandOutput()); f != nil {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// Helps makes the help of a command and all below it fit the terminal.
func (g *Globals) Helps(root *cobra.Command) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		io.WriteString(g.Out, Text(g.help(cmd)))
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(g.Err, Text(g.help(cmd)))
		return err
	})
}

// help is the help of a command: its purpose, commands, flags and examples.
func (g *Globals) help(cmd *cobra.Command) string {
	width := min(g.Columns(), widest)
	if width == 0 {
		width = helpColumns
	}
	width = max(width, 40)
	var b strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	text, exit, _ := strings.Cut(text, "\n\nEXIT STATUS\n")
	topic := helpOf(cmd)
	if topic != nil && topic.groupAsked() {
		return strings.TrimPrefix(topic.flags(width), "\n")
	}
	b.WriteString(Fill(text, width))
	fmt.Fprintf(&b, "\nUsage:\n%s", hanging("  ", usageLine(cmd), width))
	if cmd.HasExample() {
		b.WriteString("\nExamples:\n")
		for line := range strings.Lines(cmd.Example + "\n") {
			b.WriteString(shellLine(strings.TrimRight(line, "\n"), width))
		}
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString(commandList(cmd, width))
	}
	if topic != nil {
		b.WriteString(topic.flags(width))
	} else if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsagesWrapped(width), " \n"))
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nFlags of all commands:\n%s\n", strings.TrimRight(cmd.InheritedFlags().FlagUsagesWrapped(width), " \n"))
	}
	if exit != "" {
		fmt.Fprintf(&b, "\nExit status:\n%s\n", exit)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help says more about a command.\n", cmd.CommandPath())
	}
	return b.String()
}

func usageLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND [flags]"
	}
	return cmd.UseLine()
}

// commandList lists the commands below one, group by group.
func commandList(cmd *cobra.Command, width int) string {
	var b strings.Builder
	longest := 0
	for _, sub := range cmd.Commands() {
		longest = max(longest, len(sub.Name()))
	}
	list := func(title, id string) {
		head := "\n" + title + ":\n"
		for _, sub := range cmd.Commands() {
			if sub.GroupID == id && sub.IsAvailableCommand() {
				b.WriteString(head)
				b.WriteString(hanging(fmt.Sprintf("  %-*s  ", longest, sub.Name()), sub.Short, width))
				head = ""
			}
		}
	}
	for _, group := range cmd.Groups() {
		list(group.Title, group.ID)
	}
	if len(cmd.Groups()) == 0 {
		list("Commands", "")
	} else {
		list("Other commands", "")
	}
	return b.String()
}

// Fill breaks the paragraphs of a text into lines of a width. Indented lines stay
// lines; their rest, if they are too long, is indented further.
func Fill(text string, width int) string {
	var b strings.Builder
	var paragraph []string
	flush := func() {
		if paragraph != nil {
			b.WriteString(hanging("", strings.Join(paragraph, " "), width))
			paragraph = nil
		}
	}
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		line = strings.TrimRight(line, " \n")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case trimmed == "":
			flush()
			b.WriteString("\n")
		case len(trimmed) < len(line):
			flush()
			indented(&b, line, width)
		default:
			paragraph = append(paragraph, trimmed)
		}
	}
	flush()
	return b.String()
}

// widestLabel is how wide a label before a value may be.
const widestLabel = 24

// labelled is where the value of a line with a label begins, 0 if it has none: after two spaces
// or more, or after one space where two other lines of the text have their values there.
func labelled(body string, all []string) int {
	if at := afterGap(body); at > 0 {
		return at
	}
	word, _, ok := strings.Cut(body, " ")
	if at := len(word) + 1; ok && word != "" {
		others := 0
		for _, other := range all {
			switch {
			case other == body:
			case afterGap(other) == at:
				others++
			case word == "basis" && strings.HasPrefix(other, "model "):
				return at
			}
		}
		if others > 1 {
			return at
		}
	}
	return 0
}

// afterGap is where the text after a label and two spaces or more begins, 0 without.
func afterGap(body string) int {
	label, rest, ok := strings.Cut(body, "  ")
	value := strings.TrimLeft(rest, " ")
	if at := len(body) - len(value); ok && label != "" && value != "" && at <= widestLabel && at == utf8.RuneCountInString(body[:at]) {
		return at
	}
	return 0
}

// Folded breaks the lines of a text that are longer than a width. Their rest is
// indented by two more, or as far as the value behind a label. Lines that move the cursor stay
// as they are.
func Folded(text string, width int) string {
	var b strings.Builder
	all := strings.Split(text, "\n")
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		if at := labelled(body, all); at > 0 && 2*at <= width && utf8.RuneCountInString(body) > width {
			b.WriteString(strings.TrimSuffix(hanging(body[:at], body[at:], width), "\n") + line[len(body):])
			continue
		}
		if utf8.RuneCountInString(body) <= width || strings.ContainsRune(body, '\x1b') {
			b.WriteString(line)
			continue
		}
		indent := body[:len(body)-len(strings.TrimLeft(body, " "))]
		folded := lines(indent, body, len(indent)+2, width)
		b.WriteString(strings.TrimSuffix(folded, "\n") + line[len(body):])
	}
	return b.String()
}

// indented writes a line of a list: the rest of "  name  text" goes below the text.
func indented(b *strings.Builder, line string, width int) {
	if utf8.RuneCountInString(line) <= width {
		b.WriteString(line + "\n")
		return
	}
	body := strings.TrimLeft(line, " ")
	prefix := line[:len(line)-len(body)]
	if name, text, ok := strings.Cut(body, "  "); ok {
		spaces := len(text) - len(strings.TrimLeft(text, " "))
		prefix += name + "  " + text[:spaces]
		body = text[spaces:]
	}
	b.WriteString(hanging(prefix, body, width))
}

// Hanging breaks a text into lines that fit the terminal, indented by the width of
// the prefix of the first.
func (g *Globals) Hanging(prefix, text string) string {
	width := g.Columns()
	if width == 0 {
		width = 1 << 20 // a file or pipe: one line each
	}
	return hanging(prefix, text, width)
}

// hanging breaks a text into lines, indented by the width of the prefix of the first.
func hanging(prefix, text string, width int) string {
	return lines(prefix, text, utf8.RuneCountInString(prefix), width)
}

// lines breaks a text into lines. The first begins with a prefix, the others are
// indented.
func lines(prefix, text string, indent, width int) string {
	var b strings.Builder
	b.WriteString(prefix)
	at, first := utf8.RuneCountInString(prefix), true
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case first:
		case at+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
		first = false
	}
	b.WriteString("\n")
	return b.String()
}

// shellLine breaks a command into lines that a shell reads as one.
func shellLine(line string, width int) string {
	const further = "      "
	var b strings.Builder
	for utf8.RuneCountInString(line) > width {
		cut := strings.LastIndex(line[:min(len(line), width-1)], " ")
		if cut <= len(further) {
			break
		}
		b.WriteString(strings.TrimRight(line[:cut], " ") + " \\\n")
		line = further + strings.TrimLeft(line[cut:], " ")
	}
	return b.String() + line + "\n"
}
