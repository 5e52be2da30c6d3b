package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/ui"
)

// TestSettings: libraries name no flags of ckpt. Each setting or command that they name in
// braces is one of ckpt, and stands in a format of package wording, which names it.
func TestSettings(t *testing.T) {
	flags, commands := map[string]bool{}, map[string]bool{}
	for _, c := range root.New(&ui.Globals{}).Commands() {
		commands[c.Name()] = true
		collectFlags(c, flags)
	}
	flag := regexp.MustCompile(`--([a-z][a-z-]*)`)
	setting := regexp.MustCompile(`\{([a-z][a-z-]*)( [^{}]*)?\}`)
	seen := 0
	for _, dir := range []string{"coordinator", "image", "iotrace", "zones", "predict", "interval", "dataset"} {
		eachText(t, filepath.Join("..", "..", dir), func(at, text string, worded bool) {
			if m := flag.FindStringSubmatch(text); m != nil && flags[m[1]] {
				t.Errorf("%s names a flag: %s", at, text)
			}
			for _, m := range setting.FindAllStringSubmatch(text, -1) {
				known := m[2] == "" && flags[m[1]] || m[2] != "" && commands[m[1]]
				switch {
				case worded && !known:
					t.Errorf("%s: ckpt has no %s: %s", at, m[1], text)
				case worded:
					seen++
				case known && (dir == "coordinator" || dir == "dataset"):
					t.Errorf("%s: %s stays as it is in %q: make the text with wording.Sprintf", at, m[0], text)
				}
			}
		})
	}
	if seen < 20 {
		t.Errorf("only %d settings were seen", seen)
	}
}

// eachText calls do with each text of the source below a directory, and whether it stands in
// the format of wording.Sprintf.
func eachText(t *testing.T, dir string, do func(at, text string, worded bool)) {
	files := token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		var formatEnd token.Pos
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				called, ok := n.Fun.(*ast.SelectorExpr)
				if ok && called.Sel.Name == "Sprintf" && fmt.Sprint(called.X) == "wording" {
					formatEnd = n.Args[0].End()
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					do(files.Position(n.Pos()).String(), text, n.Pos() < formatEnd)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func collectFlags(c *cobra.Command, flags map[string]bool) {
	c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	for _, sub := range c.Commands() {
		collectFlags(sub, flags)
	}
}
