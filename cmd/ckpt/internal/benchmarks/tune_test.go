package benchmarks

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/plan"
)

// TestTuneCut has an interrupt leave the cases that were measured before it, and other
// errors as they are.
func TestTuneCut(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	job := trial{App: "minighost.A", NP: 4, Nodes: 2, Settings: plan.Defaults(), Codec: "none"}
	failed := errors.New("a case failed")
	for _, c := range []struct {
		name    string
		ctx     context.Context
		cases   int
		want    error
		printed bool
	}{
		{"interrupted", ended, 1, ui.ErrInterrupted, true},
		{"interrupted in the first case", ended, 0, ui.ErrInterrupted, false},
		{"failed", t.Context(), 1, failed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out tuned
			for range c.cases {
				out.add(tunedCase{standard: job, choice: job, best: job, App: job.job(), NP: 4, Nodes: 2, DefaultTime: 1, ChoiceTime: 1, BestTime: 1})
			}
			var text bytes.Buffer
			g := &ui.Globals{Streams: ui.Streams{Out: &text, Err: &text}}
			if err := out.cut(c.ctx, g, failed); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if strings.Contains(text.String(), "1 cases") != c.printed {
				t.Errorf("printed %q", &text)
			}
		})
	}
}
