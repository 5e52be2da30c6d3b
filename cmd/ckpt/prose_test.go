package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/scripttest"
)

// plain says which packages, with all below them, must be in plain English; the
// longest entry decides, and a package without one must be. The entries that
// are false are still to be rewritten: an entry whose packages have all become
// plain fails TestProse, so the list only shrinks.
var plain = map[string]bool{}

// subjectClause finds a sentence that begins with a clause in place of a
// subject, up to its end. A sentence that ends with ? is a question, and fine.
var subjectClause = scripttest.Lazily(`(?:^|[.!?:;|][)"'*]*\s+|\n\s*(?:[-*+]|\d+\.)?\s*)((?:\*\*|\()?(?:Who|Whoever|What)\s[^.?!|]*[.?!|]?)`)

// losers are the words of docs/GLOSSARY.md that are not to be used, as far as no
// other sense of the word is in use here.
var losers = scripttest.Lazily(`(?i)\b(freez(e|es|ing)|froze|frozen|thaw(s|ed)?|generations?|flavou?rs?|` +
	`giv(e|es|en|ing) up|gave up|common files?|group files?|beg(in|ins|an|un|inning) anew|` +
	`(go|goes|going|went|gone) on from|haunt(s|ed)?|no room|is none of|(is|are|was|were) told of|taken for)\b`)

var (
	broken   = regexp.MustCompile(`([^\n])\n {0,4}([^\n\s|*+-])`) // a line that continues the one before
	fences   = regexp.MustCompile("(?ms)^```.*?^```")
	indented = regexp.MustCompile(`(?m)^\t.*$`)
	waves    = regexp.MustCompile(`\b[Ww]aves?\b`)
	spans    = regexp.MustCompile("`[^`\n]*`")
)

func TestProseRules(t *testing.T) {
	for text, want := range map[string]int{
		"Who comes late waits.":                         1,
		"It waits. Whoever comes late does too.":        1,
		"A list:\n  - What is left is swept.":           1,
		"**What has not changed** becomes a reference.": 1,
		"| What it costs | much |":                      1,
		"It is done. What comes next?":                  0,
		"Nobody knows what to do. Somehow, it works.":   0,
		"The job goes on from checkpoint 2.":            1,
		"The job goes on.":                              0,
		"the flavour of MPI that was given up":          2,
		"The rank is told of it and taken for dead.":    2,
	} {
		if got := offences(text); len(got) != want {
			t.Errorf("%q has %d offences, want %d: %q", text, len(got), want, got)
		}
	}
}

// TestDocs holds README.md and docs to the rules, and their links into the
// glossary to its terms. A wave is one of a domino effect only, in JSON.
func TestDocs(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("only %d pages: %v", len(files), err)
	}
	glossary, err := os.ReadFile("../../docs/GLOSSARY.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`GLOSSARY\.md#([\w-]+)`)
	for _, file := range append(files, "../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md", "../../SECURITY.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(string(glossary), `<a id="`+m[1]+`">`) {
				t.Errorf("%s: the glossary has no term %q", file, m[1])
			}
		}
		if filepath.Base(file) == "GLOSSARY.md" {
			continue // it names the losers
		}
		prose := withoutCode(string(text))
		for _, o := range append(offences(prose), waves.FindAllString(prose, -1)...) {
			t.Errorf("%s: %s", file, o)
		}
	}
}

// TestProse holds the comments and texts of Go files to the rules.
func TestProse(t *testing.T) {
	t.Parallel()
	found := map[string][]string{} // by directory
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || d.Name() == "prose_test.go" {
			return nil
		}
		dir, err := filepath.Rel("../..", filepath.Dir(path))
		if err != nil {
			return err
		}
		of, err := offencesOfGo(path)
		found[dir] = append(found[dir], of...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 20 {
		t.Fatalf("only %d packages were seen", len(found))
	}
	pending := map[string]int{}
	for dir, list := range found {
		entry, isPlain := ruleOf(dir)
		if !isPlain {
			pending[entry] += len(list)
			continue
		}
		for _, o := range list {
			t.Error(o)
		}
	}
	for entry, isPlain := range plain {
		if !isPlain && pending[entry] == 0 {
			t.Errorf("%s has become plain English: remove its entry", entry)
		}
	}
}

// ruleOf returns the entry of plain that decides for a directory.
func ruleOf(dir string) (entry string, isPlain bool) {
	isPlain = true
	for e, p := range plain {
		if within(e, dir) && len(e) >= len(entry) {
			entry, isPlain = e, p
		}
	}
	return entry, isPlain
}

// offencesOfGo returns the offences in the comments and strings of a file, each
// with its position.
func offencesOfGo(path string) ([]string, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var out []string
	add := func(pos token.Pos, text string) {
		for _, o := range offences(text) {
			out = append(out, fmt.Sprintf("%s: %s", set.Position(pos), o))
		}
	}
	for _, group := range file.Comments {
		add(group.Pos(), withoutCode(group.Text()))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field: // its tag has names for programs
			if n.Tag != nil {
				n.Tag = nil
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if n.Kind == token.STRING && err == nil && strings.Contains(text, " ") {
				add(n.Pos(), withoutCode(text))
			}
		}
		return true
	})
	slices.Sort(out)
	return out, nil
}

// offences returns what is against the rules in a text.
func offences(text string) []string {
	text = broken.ReplaceAllString(text, "$1 $2")
	var out []string
	for _, m := range subjectClause().FindAllStringSubmatch(text, -1) {
		if !strings.HasSuffix(m[1], "?") {
			out = append(out, fmt.Sprintf("a clause is the subject: %q", m[1]))
		}
	}
	for _, m := range losers().FindAllString(text, -1) {
		out = append(out, fmt.Sprintf("docs/GLOSSARY.md has another word for %q", m))
	}
	return out
}

// withoutCode removes fenced and indented blocks and code spans from a text in
// Markdown or of a comment.
func withoutCode(text string) string {
	text = fences.ReplaceAllString(text, "")
	text = indented.ReplaceAllString(text, "")
	return spans.ReplaceAllString(text, "CODE")
}
