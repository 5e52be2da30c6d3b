package predictions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/predict/fit"
)

// The commands by which docs/PREDICT.md redraws the thesis's figures are those
// that the script runs.
func TestPredictDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "PREDICT.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join("testdata", "script", "predict_fit.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	figures := 0
	for line := range strings.Lines(string(doc)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "ckpt predict fit ") || !strings.Contains(line, "--plot") {
			continue
		}
		figures++
		if !strings.Contains(string(script), "exec "+line+"\n") {
			t.Errorf("not tested: %s", line)
		}
	}
	if figures != 7 {
		t.Errorf("%d figures, want 3.21, 3.22, 4.3 to 4.6 and 5.1", figures)
	}
}

// TestPredictHints: every remedy of a prediction has words that name a flag, a command
// or a file.
func TestPredictHints(t *testing.T) {
	for r := fit.Remedy(1); r < fit.RemedyEnd; r++ {
		if hint := predictHints[r]; !strings.Contains(hint, "--") && !strings.Contains(hint, "ckpt ") {
			t.Errorf("remedy %d: %q", r, hint)
		}
	}
	err := InputErrors(&fit.InputError{Remedy: fit.GiveProcs})
	if got := ui.HintOf(err); !strings.Contains(got, "--np") || ui.ExitCode(err) != ui.ExitUsage {
		t.Errorf("%v: hint %q, status %d", err, got, ui.ExitCode(err))
	}
}
