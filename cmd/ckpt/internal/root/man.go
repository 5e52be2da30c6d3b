package root

import (
	"os"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Hidden:  true, // packages call it
		Short:   "Write manual pages into a directory",
		Example: "  ckpt man /usr/local/share/man/man1",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			forManual(cmd.Root())
			return doc.GenManTree(cmd.Root(), manHeader(ui.ThisBuild()), args[0])
		},
	}
}

// manHeader has no title, so that each page gets its own. Its date is the date of the
// commit, so that the same commit makes the same pages.
func manHeader(b ui.Build) *doc.GenManHeader {
	h := &doc.GenManHeader{Section: "1", Source: "ckpt " + b.Version, Manual: "ckpt"}
	if t := b.Committed(); !t.IsZero() {
		h.Date = &t
	}
	return h
}

// forManual writes the texts of a command, and of all below it, as the Markdown that
// manual pages are made of: indented lists become blocks, and the exit statuses a
// section.
func forManual(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	var b strings.Builder
	text, exit, found := strings.Cut(cmd.Long, "\n\nEXIT STATUS\n")
	text = strings.Join(append([]string{text}, ui.GroupTexts(cmd)...), "\n\n")
	if found {
		text += "\n\n# EXIT STATUS\n" + exit
	}
	inside := false
	for line := range strings.Lines(text + "\n") {
		list := strings.HasPrefix(line, "  ")
		if list != inside {
			b.WriteString("\n")
		}
		if inside = list; list {
			line = "  " + line // a block of code has four spaces
		} else if !strings.HasPrefix(line, "# ") {
			line = literal.Replace(line)
		}
		b.WriteString(line)
	}
	cmd.Long = strings.TrimRight(b.String(), "\n")
	for _, sub := range cmd.Commands() {
		forManual(sub)
	}
}

// literal keeps Markdown from taking names of files for markup.
var literal = strings.NewReplacer("_", `\_`, "*", `\*`, "<", `\<`)
