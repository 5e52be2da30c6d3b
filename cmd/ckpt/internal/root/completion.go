package root

import (
	"fmt"
	"io"
	"os"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newCompletionCommand is cobra's in one command. The script for bash also works without the
// package bash-completion.
func newCompletionCommand(g *ui.Globals) *cobra.Command {
	var plain bool
	shells := []string{"bash", "fish", "powershell", "zsh"}
	cmd := &cobra.Command{
		Use:   "completion SHELL",
		Short: "Write the completion script for a shell",
		Long: `Write the completion script for bash, fish, powershell or zsh. To load that of bash
into this shell:

  source <(ckpt completion bash)

To load it into every new shell:

  mkdir -p ~/.local/share/bash-completion/completions
  ckpt completion bash > ~/.local/share/bash-completion/completions/ckpt

The second needs the package bash-completion; without it, put the first line into
~/.bashrc. The scripts of zsh and fish go into a directory of $fpath as _ckpt, and into
~/.config/fish/completions as ckpt.fish.`,
		Example:           "  source <(ckpt completion bash)",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(shells, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return writeBashCompletion(g.Out, root, !plain)
			case "fish":
				return root.GenFishCompletion(g.Out, !plain)
			case "powershell":
				if plain {
					return root.GenPowerShellCompletion(g.Out)
				}
				return root.GenPowerShellCompletionWithDesc(g.Out)
			case "zsh":
				if plain {
					return root.GenZshCompletionNoDesc(g.Out)
				}
				return root.GenZshCompletion(g.Out)
			}
			fix := "ckpt completion takes " + strings.Join(shells, ", ")
			if near := ui.Nearest(args[0], shells); near != "" {
				fix = "did you mean ckpt completion " + near + "?"
			}
			return ui.BadUsage(fmt.Sprintf("no completion for %q", args[0]), fix)
		},
	}
	cmd.Flags().BoolVar(&plain, "no-descriptions", false, "complete without descriptions")
	return cmd
}

func writeBashCompletion(w io.Writer, root *cobra.Command, describe bool) error {
	var b strings.Builder
	if err := root.GenBashCompletionV2(&b, describe); err != nil {
		return err
	}
	const equals = "    __ckpt_handle_special_char \"$cur\" =\n"
	script := strings.Replace(b.String(), equals, equals+"    __ckpt_handle_at \"$cur\"\n", 1)
	_, err := io.WriteString(w, script+plainBash)
	return err
}

// plainBash replaces a function of cobra's script that needs the package
// bash-completion. The last definition counts.
const plainBash = `
# Where bash ends words at @, it replaces the @ and what follows.
__ckpt_handle_at()
{
    [[ "$1" == *@* && "$COMP_WORDBREAKS" == *@* ]] || return
    local idx
    for idx in "${!COMPREPLY[@]}"; do
        COMPREPLY[idx]=${COMPREPLY[idx]#"${1%%@*}"}
    done
}

# The words up to the cursor, also without the package bash-completion.
__ckpt_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword-1]}
}
`

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

func newVersionCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Hidden:  true, // --version says the same
		Short:   "Print the version",
		Long:    "Print the version, the commit and its date, the version of Go, and the version of the image format.",
		Example: "  ckpt version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return printVersion(g) },
	}
}

func printVersion(g *ui.Globals) error {
	b := ui.ThisBuild()
	if g.JSON {
		return g.PrintJSON(b)
	}
	return g.Printf("ckpt %s\n%s %s, image format %d\n", b, b.Go, b.Platform, b.Format)
}
