package traces

import (
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/finding"
)

// TestShowInsights: a finding has its gain with the model, its evidence, and its
// remedies with sources, in 80 columns; without durations there is no gain.
func TestShowInsights(t *testing.T) {
	gain, share := 0.25, 1.0
	r := &analyze.Report{Insights: []finding.Finding{
		{Code: "CK14", Severity: finding.High, Title: "random reads", File: "data", Gain: &gain, GainShare: &share,
			Model:    "The time of the reads in random order, less the time that their bytes would take in order.",
			Evidence: []finding.Number{{Name: "random_share", Value: 1, Limit: 0.2}},
			Hints:    []finding.Hint{{Text: "Sort requests by offset.", Source: "posix_fadvise(2)"}}},
		{Code: "CK01", Severity: finding.Info, Title: "small writes", File: "log", Files: 3, Flags: []string{"--buffer"}},
	}}
	var out strings.Builder
	if err := showInsights(&ui.Globals{Streams: ui.Streams{Out: &out}}, &iotrace.Trace{}, r); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"CK14 high: random reads in data\n",
		"\n  gain: 250ms, 100 % of the run. The time of the reads",
		"\n  seen: random_share 1 (limit 0.2)\n",
		"\n  try:  Sort requests by offset. [posix_fadvise(2)]\n",
		"\n  try:  ckpt launch with --buffer\n",
		"CK01 info: small writes in log and 2 files more\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "gain:"); n != 1 {
		t.Errorf("%d gains, want that of CK14:\n%s", n, text)
	}
	for _, line := range strings.Split(text, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("more than 80 columns: %q", line)
		}
	}
}

// TestNoFindings: a trace that lacks something is not simply good.
func TestNoFindings(t *testing.T) {
	for _, test := range []struct {
		warnings []iotrace.Warning
		want     string
	}{
		{nil, "\nno findings\n"},
		{[]iotrace.Warning{{Text: "io_uring"}}, "\nno findings in what the trace shows; its warnings say what is missing\n"},
	} {
		var out strings.Builder
		if err := showInsights(&ui.Globals{Streams: ui.Streams{Out: &out}}, &iotrace.Trace{Warnings: test.warnings}, &analyze.Report{}); err != nil || out.String() != test.want {
			t.Errorf("%q, %v, want %q", out.String(), err, test.want)
		}
	}
}
