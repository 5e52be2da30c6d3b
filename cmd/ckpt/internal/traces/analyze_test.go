package traces

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"ckpt/cmd/ckpt/internal/jobs"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// TestPatternLines: lines of a pattern fit, whatever the names; all of it is whole.
func TestPatternLines(t *testing.T) {
	long := "/usr/lib/" + strings.Repeat("site-packages/", 8) + "été/__init__.cpython-311.pyc"
	item := []pattern.Item{{Op: "read", Bytes: 4096, Count: 1}}
	p := pattern.Pattern{Groups: []pattern.Group{
		{File: long, Files: 1, Ranks: "0", Count: 1, Items: item},
		{File: long, Files: 12345, Ranks: "7-8, 10-11, 13-15, 17-18, 21-22, 24, 27-31/2, 35, 44", Count: 20, Items: item},
		{File: long, Files: 1, Items: item},
		{File: "/short", Files: 1, Ranks: "1", Count: 1, Items: item},
	}, More: 3}
	// One column too many, with what says that there is more.
	for n := range int64(20) {
		many := pattern.Group{File: "/short", Files: 1, Ranks: "2", Count: 1}
		for i := range int64(12) {
			many.Items = append(many.Items, pattern.Item{Op: "read", Bytes: 4096, Count: 3, Offset: i * i << n, Step: 12288})
		}
		p.Groups = append(p.Groups, many)
	}
	lines := patternLines(p, math.MaxInt-1)
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > patternWidth {
			t.Errorf("%d columns: %s", n, l)
		}
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{"été/__init__.cpython-311.pyc (1): rank 0 (1)\n  read 1×4096", "init__.cpython-311.pyc (12345): ranks 7-8, ", "pyc (1): no rank\n", "\n/short (1): rank 1 (1)\n", "\nand 3 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if p.Groups[0].File != long || strings.Join(patternLines(p, math.MaxInt), "\n")+"\n" != p.String() {
		t.Error("the whole pattern is not whole")
	}
	p.Groups[3].Bytes = [2]int64{1 << 20, 1 << 20}
	if got := strings.Join(patternLines(p, 1), "\n"); !strings.HasPrefix(got, "/short (1): rank 1 (1)\n") || !strings.HasSuffix(got, "\nand 26 more") {
		t.Errorf("one group:\n%s", got)
	}
}

// TestRemedyFlags: every remedy is a flag of ckpt launch, with a value that it takes.
func TestRemedyFlags(t *testing.T) {
	launch := jobs.Commands(&ui.Globals{})[0]
	for r := finding.Remedy(1); r < finding.RemedyEnd; r++ {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(remedyFlags[r], "--"), " ")
		f := launch.Flags().Lookup(name)
		if f == nil {
			t.Errorf("remedy %d: ckpt launch has no flag %q", r, name)
			continue
		}
		if hasValue {
			if err := f.Value.Set(value); err != nil {
				t.Errorf("--%s: %v", name, err)
			}
		}
	}
}

// TestFitNames: files that differ have names that differ.
func TestFitNames(t *testing.T) {
	rows := [][]string{{"/data/particle/electron_1.h5", "8100.00"}, {"/data/hydro/hydro_electron_1.h5", "141.76"}, {"/data/hydro/hydro_electron_1.h5", ""}}
	fitNames([]string{"file", "|" + strings.Repeat("x", 80)}, rows, 0)
	if rows[0][0] != ui.Text("…/electron_1.h5") || rows[1][0] != ui.Text("…_electron_1.h5") || rows[2][0] != rows[1][0] {
		t.Errorf("%q", rows)
	}
}
