package ui

import (
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	const text = "A paragraph that is\nlonger than a line.\n\n  time     the shortest checkpoint of all\n  storage  little\n\nEnd."
	for width, want := range map[int]string{
		80: "A paragraph that is longer than a line.\n\n  time     the shortest checkpoint of all\n  storage  little\n\nEnd.\n",
		28: "A paragraph that is longer\nthan a line.\n\n  time     the shortest\n           checkpoint of all\n  storage  little\n\nEnd.\n",
	} {
		if got := Fill(text, width); got != want {
			t.Errorf("at %d:\n%s\nwant:\n%s", width, got, want)
		}
	}
}

func TestShellLine(t *testing.T) {
	const line = "  ckpt predict plan bt.C --np 64 --overhead 10% --app-time 2h"
	got := shellLine(line, 30)
	for l := range strings.Lines(got) {
		if len(strings.TrimSuffix(l, "\n")) > 30 {
			t.Errorf("too long: %q", l)
		}
	}
	if back := strings.Join(strings.Fields(strings.ReplaceAll(got, "\\\n", "")), " "); back != strings.TrimSpace(line) {
		t.Errorf("a shell reads %q", back)
	}
}

// A value behind a label is broken below itself.
func TestFoldedLabels(t *testing.T) {
	text := "model structural\nbasis workload spec of bt, and eleven points of it\nnote  extrapolated by a factor of four beyond the points\nplain text that is long, without a label, stays as it is\n"
	want := "model structural\nbasis workload spec of bt, and\n      eleven points of it\nnote  extrapolated by a factor of\n      four beyond the points\nplain text that is long, without a\n  label, stays as it is\n"
	if got := Folded(text, 36); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
