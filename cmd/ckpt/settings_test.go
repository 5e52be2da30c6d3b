package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
)

// TestSettings: libraries name no flags of ckpt, and each setting or command that package
// coordinator names in braces is one of ckpt.
func TestSettings(t *testing.T) {
	flags, commands := map[string]bool{}, map[string]bool{}
	for _, c := range newRootCommand(&ui.Globals{}).Commands() {
		commands[c.Name()] = true
		collectFlags(c, flags)
	}
	flag := regexp.MustCompile(`"[^"]*--([a-z][a-z-]*)`)
	setting := regexp.MustCompile(`\{([a-z][a-z-]*)( [^{}"]*)?[}"]`)
	seen := 0
	for _, dir := range []string{"coordinator", "image", "iotrace", "zones", "predict", "interval", "dataset"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for line := range strings.Lines(string(text)) {
				if m := flag.FindStringSubmatch(line); m != nil && flags[m[1]] {
					t.Errorf("%s names a flag: %s", path, line)
				}
				if dir != "coordinator" || !strings.Contains(line, `"`) {
					continue
				}
				for _, m := range setting.FindAllStringSubmatch(line, -1) {
					if seen++; m[2] == "" && !flags[m[1]] || m[2] != "" && !commands[m[1]] {
						t.Errorf("%s: ckpt has no %s: %s", path, m[1], line)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 20 {
		t.Errorf("only %d settings were seen", seen)
	}
	text, want := "{restart a.B-1} and {group-size}; {prune JOB} {keep} 0; {Every:1}, {{np}}", "ckpt restart a.B-1 and --group-size; ckpt prune JOB --keep 0; {Every:1}, {np}"
	if got := ui.Worded(text); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func collectFlags(c *cobra.Command, flags map[string]bool) {
	c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	for _, sub := range c.Commands() {
		collectFlags(sub, flags)
	}
}
