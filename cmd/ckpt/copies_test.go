package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestCopies counts literals that copy more than eight fields from one other struct: a fact
// that is declared twice.
func TestCopies(t *testing.T) {
	const most = 25
	var found []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			from := map[string]int{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if of := copiedFrom(kv.Value); of != "" {
						from[of]++
					}
				}
			}
			for _, fields := range from {
				if fields > 8 {
					found = append(found, set.Position(lit.Pos()).String())
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > most {
		t.Errorf("%d literals copy more than eight fields, want at most %d:\n%s", len(found), most, strings.Join(found, "\n"))
	}
}

// copiedFrom names the struct whose field a value is, perhaps converted; "" for another value.
func copiedFrom(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.CallExpr:
		if len(x.Args) == 1 {
			return copiedFrom(x.Args[0])
		}
		if len(x.Args) == 0 {
			return copiedFrom(x.Fun)
		}
	case *ast.SelectorExpr:
		switch of := x.X.(type) {
		case *ast.Ident:
			return of.Name
		case *ast.SelectorExpr:
			if in, ok := of.X.(*ast.Ident); ok {
				return in.Name + "." + of.Sel.Name
			}
		}
	case *ast.UnaryExpr:
		return copiedFrom(x.X)
	case *ast.StarExpr:
		return copiedFrom(x.X)
	case *ast.SliceExpr:
		return copiedFrom(x.X)
	}
	return ""
}
