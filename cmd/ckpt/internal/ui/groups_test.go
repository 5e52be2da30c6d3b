package ui

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestFlagGroups: the help shows the first flags, a group all of its own, and a topic that
// there is not is an error.
func TestFlagGroups(t *testing.T) {
	for args, want := range map[string]struct{ with, without string }{
		"--help":     {"--one", "--two"},
		"--help=all": {"--two", "--old"},
		"--help=b":   {"--three", "--one"},
		"--help=c":   {`--help "c": want one of all, a, b`, "--one"},
		"--old=3":    {"--old is now called --two", "Usage"},
		"former -h":  {"ckpt former is now called ckpt new", "--none"},
	} {
		var out bytes.Buffer
		g := &Globals{Streams: Streams{Out: &out, Err: &out}}
		root := &cobra.Command{Use: "ckpt", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
		root.AddCommand(&cobra.Command{Use: "new", Short: "New", Run: func(*cobra.Command, []string) {}}, Moved("former", "new"))
		for _, name := range []string{"one", "two", "three"} {
			root.Flags().String(name, "", "")
		}
		g.Renamed(root.Flags(), "old", "two")
		GroupFlags(root, []FlagGroup{{Name: "a", First: "one", More: "two"}, {Name: "b", More: "three"}})
		root.SetFlagErrorFunc(FlagError)
		root.SetOut(&out)
		root.SetErr(&out)
		present, err := Present(root, strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		root.SetArgs(present)
		g.Helps(root)
		if err := root.Execute(); err != nil {
			out.WriteString(err.Error())
		}
		if text := out.String(); !strings.Contains(text, want.with) || strings.Contains(text, want.without) {
			t.Errorf("%s: %s", args, text)
		}
	}
}
