package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var shownDiff = regexp.MustCompile("(?ms)^<!-- diff: (\\S+) -->\n```diff\n(.*?)^```$")

// TestExampleDiffs: docs/PROGRAMS.md shows how each example differs from its plain form,
// in twelve lines or fewer.
func TestExampleDiffs(t *testing.T) {
	page, err := os.ReadFile("../../docs/PROGRAMS.md")
	if err != nil {
		t.Fatal(err)
	}
	found := shownDiff.FindAllStringSubmatch(string(page), -1)
	if len(found) != 3 {
		t.Errorf("the page shows %d differences, want those of 3 languages", len(found))
	}
	for _, m := range found {
		lines := differences(t, m[1])
		if got := strings.Join(lines, ""); got != m[2] {
			t.Errorf("%s differs by\n%sthe page shows\n%s", m[1], got, m[2])
		}
		changed := 0
		for _, l := range lines {
			if l[0] != ' ' {
				changed++
			}
		}
		if changed == 0 || changed > 12 {
			t.Errorf("%s differs by %d lines, want 1 to 12", m[1], changed)
		}
	}
}

// differences returns the lines of a unified diff with a line around each change.
func differences(t *testing.T, name string) (lines []string) {
	t.Helper()
	ext := filepath.Ext(name)
	dir := "../../docs/examples/"
	// The status is 1 if the files differ.
	out, _ := exec.Command("diff", "-U1", dir+strings.TrimSuffix(name, ext)+"_plain"+ext, dir+name).Output()
	for i, l := range strings.SplitAfter(string(out), "\n") {
		if i >= 2 && l != "" && !strings.HasPrefix(l, "@@") {
			lines = append(lines, l)
		}
	}
	return lines
}
