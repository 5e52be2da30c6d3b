package ui

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ckpt/internal/durable"
)

func TestNearest(t *testing.T) {
	names := []string{"launch", "list", "show", "stop", "status", "verify", "interval"}
	for word, want := range map[string]string{
		"lanch": "launch", "luanch": "launch", "Launch": "launch", "interva": "interval", "int": "interval", "verfiy": "verify",
		"lst": "list", "nosuch": "", "x": "", "": "", "stattus": "status", "lunchtime": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}, {"größe", "grösse", 2}} {
		if got := edits(c.a, c.b); got != c.want || edits(c.b, c.a) != got {
			t.Errorf("%s, %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestPlaceHint: a hint names --store only where the command has it and the error is
// about the store.
func TestPlaceHint(t *testing.T) {
	with, without := &cobra.Command{Use: "list"}, &cobra.Command{Use: "bench"}
	g := &Globals{}
	g.AddStoreFlag(with)
	g.Store = "/data/store"
	denied := func(name string) error { return &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission} }
	for _, c := range []struct {
		cmd    *cobra.Command
		err    error
		stored bool
	}{
		{with, denied("/data/store/jobs/a"), true}, {with, denied("/data"), true}, {with, denied("/home/a"), false},
		{with, fs.ErrPermission, true}, {without, denied("/data/store"), false}, {without, fs.ErrPermission, false},
		{without, durable.ErrStorageFull, false},
	} {
		if hint := HintOf(g.Advised(c.cmd, nil, c.err)); hint == "" || strings.Contains(hint, "--store") != c.stored {
			t.Errorf("%s, %v: %s", c.cmd.Use, c.err, hint)
		}
	}
}
