package finding

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPage holds docs/FINDINGS.md to the package: a section for each code, a row for
// each threshold with its value, the source of each hint, and Drishti's triggers.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/FINDINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	codes, sources, evidence := written(t)

	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^### (CK\d\d): `).FindAllStringSubmatch(page, -1) {
		sections = append(sections, m[1])
	}
	slices.Sort(sections)
	if !slices.Equal(sections, codes) {
		t.Errorf("the page has sections for %v, the package has findings %v", sections, codes)
	}
	for _, part := range strings.Split(page, "\n### ")[1:] {
		part, _, _ = strings.Cut(part, "\n## ")
		for _, item := range []string{"Meaning", "Seen", "Gain", "ckpt", "Others"} {
			if !strings.Contains(part, "\n- **"+item+"**: ") {
				t.Errorf("section %.4s says nothing of %s", part, item)
			}
		}
	}
	for name := range evidence {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page says nothing of the evidence %s", name)
		}
	}

	want := map[string]float64{}
	v := reflect.ValueOf(*Default())
	for i := range v.NumField() {
		f := v.Field(i)
		if f.CanInt() {
			want[v.Type().Field(i).Tag.Get("yaml")] = float64(f.Int())
		} else {
			want[v.Type().Field(i).Tag.Get("yaml")] = f.Float()
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([0-9.]+) \\| ").FindAllStringSubmatch(page, -1) {
		x, err := strconv.ParseFloat(m[2], 64)
		if value, ok := want[m[1]]; err != nil || !ok || x != value {
			t.Errorf("the page has %s = %s; the threshold is %v (known: %v)", m[1], m[2], value, ok)
		}
		delete(want, m[1])
	}
	for name := range want {
		t.Errorf("the page has no threshold %s", name)
	}

	_, remedies, _ := strings.Cut(page, "\n## Remedies for other programs\n")
	remedies, triggers, _ := strings.Cut(remedies, "\n## ")
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| .* \| [^|]*CK[^|]* \| ([^|]+) \|$`).FindAllStringSubmatch(remedies, -1) {
		listed[m[1]] = true
	}
	for source := range sources {
		if !listed[source] {
			t.Errorf("the page has no remedy with the source %q", source)
		}
		delete(listed, source)
	}
	for source := range listed {
		t.Errorf("no remedy has the source %q of the page", source)
	}

	var seen []string
	for _, line := range strings.Split(triggers, "\n") {
		if cell := regexp.MustCompile(`^\| ([SPM]\d\d(?:, [SPM]\d\d)*) \|`).FindStringSubmatch(line); cell != nil {
			seen = append(seen, strings.Split(cell[1], ", ")...)
		}
	}
	slices.Sort(seen)
	if n := len(slices.Compact(slices.Clone(seen))); n != 32 || len(seen) != 32 {
		t.Errorf("the page has %d of Drishti's 32 triggers: %v", n, seen)
	}
	known := slices.Clone(codes)
	for _, code := range regexp.MustCompile(`CK\d\d`).FindAllString(page, -1) {
		if !slices.Contains(known, code) {
			t.Errorf("the page names %s, which is unknown", code)
		}
	}
}

// written returns the codes of findings, sorted, the sources of hints, and the names
// of evidence, as the source code of the package has them.
func written(t *testing.T) (codes []string, sources, evidence map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no source code: %v", err)
	}
	isCode := regexp.MustCompile(`^CK\d\d$`)
	sources, evidence = map[string]bool{}, map[string]bool{}
	// text returns the literal text of an element, such as the source of a hint.
	text := func(lit *ast.CompositeLit, i int) string {
		if i >= len(lit.Elts) {
			return "" // the zero value
		}
		e, ok := lit.Elts[i].(*ast.BasicLit)
		if !ok {
			t.Fatalf("element %d of a hint or a number is no literal", i)
		}
		s, err := strconv.Unquote(e.Value)
		if err != nil || s == "" {
			t.Fatalf("element %d of a hint or a number: %s, %v", i, e.Value, err)
		}
		return s
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil && isCode.MatchString(s) {
					codes = append(codes, s)
				}
			case *ast.CompositeLit:
				switch of := n.Type.(type) {
				case *ast.Ident:
					if of.Name == "Hint" && len(n.Elts) > 0 {
						sources[text(n, 1)] = true
					} else if of.Name == "Number" {
						evidence[text(n, 0)] = true
					}
				case *ast.ArrayType:
					if id, ok := of.Elt.(*ast.Ident); ok && id.Name == "Number" {
						for _, e := range n.Elts {
							evidence[text(e.(*ast.CompositeLit), 0)] = true
						}
					}
				}
			}
			return true
		})
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	if len(codes) < 20 || len(sources) < 20 || len(evidence) < 20 {
		t.Fatalf("only %d codes, %d sources and %d names of evidence", len(codes), len(sources), len(evidence))
	}
	return codes, sources, evidence
}
