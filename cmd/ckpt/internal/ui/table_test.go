package ui

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func sample() *grid {
	return newGrid([]string{"", "mapping", "~|image MiB", "|time s", "~|95 %", "remark"}, [][]string{
		{"*", "64×1", "476.54", "11.93", "0.00 to 23.96", "extrapolated ×16, the store is too small"},
		{"", "32×2", "480.78", "16.54", "3.83 to 29.25", "ckpt-store/jobs/a_name_without_spaces/0001/rank-0.img"},
	})
}

// TestNarrow: a table fits any width, and loses nothing but optional columns, which
// it names.
func TestNarrow(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
	for width := 24; width <= 120; width++ {
		var b bytes.Buffer
		if err := sample().narrow(&b, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && len(strings.Fields(line)) > 2 {
				t.Errorf("%d columns, want %d: %q", n, width, line)
			}
		}
		for _, must := range []string{"64×1", "11.93", "32×2", "16.54"} {
			if !strings.Contains(b.String(), must) {
				t.Errorf("at %d %s is missing:\n%s", width, must, &b)
			}
		}
		for name, value := range map[string]string{"image MiB": "476.54", "95 %": "0.00to23.96"} {
			_, note, _ := strings.Cut(squeeze(b.String()), "leftouthere:")
			if strings.Contains(squeeze(b.String()), value) == strings.Contains(note, squeeze(name)) {
				t.Errorf("at %d, %s is neither there nor named, or both:\n%s", width, name, &b)
			}
		}
	}
}

// TestRight: columns align to the right by what a terminal shows, in which some characters take two
// places, and so do the columns behind them.
func TestRight(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	var b bytes.Buffer
	if err := newGrid([]string{"|size", "of"}, [][]string{{"7", "x"}, {"日本", "x"}, {"12345", "x"}}).render(&b, 2); err != nil {
		t.Fatal(err)
	}
	if want := " size  of  \n    7  x   \n 日本  x   \n12345  x   \n"; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestWide: without a limit, or with space enough, a table looks the same.
func TestWide(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	var plain, narrow bytes.Buffer
	if err := sample().render(&plain, 2); err != nil {
		t.Fatal(err)
	}
	if err := sample().narrow(&narrow, 200); err != nil {
		t.Fatal(err)
	}
	var trimmed []string
	for line := range strings.Lines(plain.String()) {
		trimmed = append(trimmed, strings.TrimRight(line, " \n"))
	}
	if got := slices.Collect(strings.SplitSeq(strings.TrimSuffix(narrow.String(), "\n"), "\n")); !slices.Equal(got, trimmed) {
		t.Errorf("%q, want %q", got, trimmed)
	}
}

func TestFolded(t *testing.T) {
	const text = "short\n  a line that is too long for this\nno newline at the end"
	for width, want := range map[int]string{
		80: text,
		20: "short\n  a line that is too\n    long for this\nno newline at the\n  end",
	} {
		if got := Folded(text, width); got != want {
			t.Errorf("at %d: %q, want %q", width, got, want)
		}
	}
	if moves := "\x1b[2J a line that moves the cursor"; Folded(moves, 20) != moves {
		t.Errorf("%q", Folded(moves, 20))
	}
	if got := Folded(fmt.Sprintf("digest %064d\n", 1), 40); strings.Count(got, "\n") != 2 {
		t.Errorf("%q", got)
	}
}
