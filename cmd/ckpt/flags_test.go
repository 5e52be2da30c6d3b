package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/ui"
)

// rooms are the commands of the service, the simulation, the mounts, sealed stores
// and copies between stores.
var rooms = []string{"ckpt bench sieve", "ckpt copy", "ckpt seal", "ckpt serve", "ckpt simulate", "ckpt mount", "ckpt storage mount", "ckpt storage recover"}

// TestFlagsInDocs holds the list of flags on docs/CLI.md to the commands: a line for
// each command with flags of its own, in the order of the help.
func TestFlagsInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Flags\n")
	if !found {
		t.Fatal("docs/CLI.md has no section Flags")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var want, leaves []string
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		var flags []string
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				flags = append(flags, "`--"+f.Name+"`")
			}
		})
		if len(flags) > 0 && c.HasParent() {
			want = append(want, fmt.Sprintf("- `%s`: %s", c.CommandPath(), strings.Join(flags, ", ")))
		}
		if !c.HasAvailableSubCommands() && c.Name() != "help" {
			leaves = append(leaves, c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				visit(sub)
			}
		}
	}
	visit(root.New(&ui.Globals{}))
	if len(want) < 40 {
		t.Fatalf("only %d commands were seen", len(want))
	}
	// 48 commands are as many as a user can carry. Those of a room of their own come on top: a
	// command that is not there yet may be named.
	leaves = slices.DeleteFunc(leaves, func(l string) bool { return slices.Contains(rooms, l) })
	if len(leaves) > 48 {
		t.Errorf("%d commands, want at most 48: %s", len(leaves), strings.Join(leaves, ", "))
	}
	var got []string
	for l := range strings.Lines(section) {
		if strings.HasPrefix(l, "- ") {
			got = append(got, strings.TrimSuffix(l, "\n"))
		}
	}
	if text := strings.Join(want, "\n"); text != strings.Join(got, "\n") {
		t.Errorf("docs/CLI.md: the list of flags is not that of the commands, which is:\n%s", text)
	}
}
