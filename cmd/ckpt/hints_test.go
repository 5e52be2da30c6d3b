package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/ui"
)

// TestHints: each flag that a text of cmd/ckpt names, alone or after a command, is
// one of ckpt, and of that command.
func TestHints(t *testing.T) {
	ckpt := root.New(&ui.Globals{})
	all := map[string]bool{"help": true, "json": true, "quiet": true, "verbose": true}
	flags := map[string]bool{"no-gzip": true} // of DMTCP
	maps.Copy(flags, all)
	collectFlags(ckpt, flags)
	flag := regexp.MustCompile(`--([a-z][a-z0-9-]+)`)
	command := regexp.MustCompile(`ckpt ((?:[a-z]+ )+)[^;:,.()\n]*?--([a-z][a-z0-9-]+)`)
	seen := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Error(err)
			}
			for _, m := range flag.FindAllStringSubmatch(text, -1) {
				if seen++; !flags[m[1]] {
					t.Errorf("%s: ckpt has no --%s: %s", path, m[1], text)
				}
			}
			for _, m := range command.FindAllStringSubmatch(text, -1) {
				cmd, _, err := ckpt.Find(strings.Fields(m[1]))
				if err != nil || cmd == ckpt {
					t.Errorf("%s: ckpt has no command %s: %s", path, m[1], text)
				} else if cmd.Flags().Lookup(m[2]) == nil && !all[m[2]] {
					t.Errorf("%s: %s has no --%s: %s", path, cmd.CommandPath(), m[2], text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("only %d flags were seen", seen)
	}
}
