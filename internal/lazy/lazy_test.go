package lazy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRegexps compiles each expression that is compiled late, and looks for those that are
// compiled at the start of a process.
func TestRegexps(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			vars, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range vars.Specs {
				spec, ok := s.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for _, v := range spec.Values {
					switch text, by := call(v); by {
					case "regexp.MustCompile":
						t.Errorf("%v: compiled at the start of each process; use lazy.Regexp", set.Position(v.Pos()))
					case "lazy.Regexp":
						found++
						if _, err := regexp.Compile(text); err != nil {
							t.Errorf("%v: %v", set.Position(v.Pos()), err)
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Fatalf("found %d expressions; %v", found, err)
	}
}

// call returns the function that an expression calls, as package and name, and its argument if
// that is a literal.
func call(e ast.Expr) (text, by string) {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) != 1 {
		return "", ""
	}
	f, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	of, ok := f.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	if lit, ok := c.Args[0].(*ast.BasicLit); ok {
		text, _ = strconv.Unquote(lit.Value)
	}
	return text, of.Name + "." + f.Sel.Name
}
