package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	walkLine  = regexp.MustCompile(`^\d+\. (.*)`)
	walkCount = regexp.MustCompile(`: (\d+) calls`)
	walkName  = regexp.MustCompile("^`([A-Za-z.0-9]+)`")
)

// TestWalks checks the lists of "A datum's way" in docs/ARCHITECTURE.md: each function
// exists, one of those before it in its line mentions it, and the counts are right.
func TestWalks(t *testing.T) {
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n## A datum's way\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	uses := mentions(t, "../..")
	walks := strings.Split(section, "\n### ")[1:]
	if len(walks) != 6 {
		t.Errorf("%d walks, want 6", len(walks))
	}
	for _, walk := range walks {
		title, body, _ := strings.Cut(walk, "\n")
		calls := 0
		for line := range strings.SplitSeq(body, "\n") {
			if step := walkLine.FindStringSubmatch(line); step != nil {
				calls += checkLine(t, title, step[1], uses)
			}
		}
		if count := walkCount.FindStringSubmatch(title); count == nil || count[1] != strconv.Itoa(calls) {
			t.Errorf("%s: its lines have %d calls", title, calls)
		}
	}
}

// checkLine returns the number of calls of a line.
func checkLine(t *testing.T, title, line string, uses map[string]map[string]bool) int {
	var names []string
	for part := range strings.SplitSeq(line, " → ") {
		name := walkName.FindStringSubmatch(part)
		if name == nil || uses[name[1]] == nil {
			t.Errorf("%s: %.60s: no such function", title, part)
			return 0
		}
		called := len(names) == 0
		for _, before := range names {
			called = called || uses[before][name[1][strings.LastIndex(name[1], ".")+1:]]
		}
		if !called {
			t.Errorf("%s: no function before %s calls it", title, name[1])
		}
		names = append(names, name[1])
	}
	return len(names) - 1
}
