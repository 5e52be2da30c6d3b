package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// addCompletion adds cobra's command for completion scripts. An unknown shell is an
// error, and the script for bash also works without the package bash-completion.
func addCompletion(g *ui.Globals, root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // without it, cobra looks at no argument
	for _, shell := range completion.Commands() {
		if shell.Name() != "bash" {
			continue
		}
		shell.Long = `Write the completion script for bash. To load it into this shell:

  source <(ckpt completion bash)

To load it into every new shell:

  mkdir -p ~/.local/share/bash-completion/completions
  ckpt completion bash > ~/.local/share/bash-completion/completions/ckpt

The second needs the package bash-completion; without it, put the first line into
~/.bashrc.

` + ui.ExitHelp
		shell.RunE = func(cmd *cobra.Command, _ []string) error {
			without, err := cmd.Flags().GetBool("no-descriptions")
			if err != nil {
				return err
			}
			return writeBashCompletion(g.Out, root, !without)
		}
	}
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
