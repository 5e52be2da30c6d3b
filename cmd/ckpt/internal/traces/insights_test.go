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

// TestEvidence: counts have all digits, sizes a unit, and shares stay as they are.
func TestEvidence(t *testing.T) {
	for _, c := range []struct {
		name string
		x    float64
		want string
	}{
		{"random_requests", 20000, "20000"}, {"random_requests", 34567.25, "34567"}, {"bytes_per_sync", 1 << 24, "16 MiB"}, {"again_bytes", 117400000.5, "112 MiB"},
		{"mean_bytes", 1000, "1000 B"}, {"mean_bytes", 1536, "1.5 KiB"}, {"bytes_imbalance", 0.75, "0.75"}, {"busy_share", 0.49381, "0.4938"},
		{"bytes_factor", 2, "2"}, {"lock_wait_s", 1.23456, "1.235"},
	} {
		if got := evidence(c.name, c.x); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.name, c.x, got, c.want)
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
		{[]iotrace.Warning{{Code: iotrace.WarnCountedElsewhere, Text: "H5F"}, {Code: iotrace.WarnDirectIO}}, "\nno findings\n"},
		{[]iotrace.Warning{{Text: "io_uring"}}, "\nno findings in what the trace shows; its warnings say what is missing\n"},
	} {
		var out strings.Builder
		if err := showInsights(&ui.Globals{Streams: ui.Streams{Out: &out}}, &iotrace.Trace{Warnings: test.warnings}, &analyze.Report{}); err != nil || out.String() != test.want {
			t.Errorf("%q, %v, want %q", out.String(), err, test.want)
		}
	}
}
