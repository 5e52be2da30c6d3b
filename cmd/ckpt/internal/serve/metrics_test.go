package serve

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMetrics: what /metrics says of a job is what its files say, in the text format.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	name := jobOf(t, s)
	for _, seen := range s.watch.known("golden") {
		seen.status.Updated = time.Now() // golden jobs ended long ago
	}
	journal := s.stores[0].Dir + "/jobs/" + name + "/history.jsonl"
	line := `{"type":"checkpoint","number":%d,"memory":{"data":100},"stored_bytes":7,"latency_s":{"total":0.5},"pause_s":0.25}` + "\n"
	text := fmt.Sprintf(line, 1) + fmt.Sprintf(line, 2) + `{"type":"failure","reason":"was killed by SIGKILL"}` + "\n" +
		`{"type":"restarted","restart_s":2,"lost_work_s":3}` + "\n" + `{"type":"checkpoint_lost"}` + "\n" + `{"type":"checkpoint","torn`
	if err := os.WriteFile(journal, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	of := fmt.Sprintf(`{store="golden",job=%q`, name)
	hold := func(wants ...string) {
		t.Helper()
		got := ask(h, readToken, "GET", "/metrics", "").Body.String()
		if err := lintMetrics(got); err != nil {
			t.Error(err)
		}
		for _, want := range wants {
			if !strings.Contains(got, "\nckpt_"+want+"\n") {
				t.Errorf("no %s in\n%s", want, got)
			}
		}
	}
	hold("checkpoints_total"+of+`,outcome="committed"} 2`, "checkpoints_total"+of+`,outcome="aborted"} 1`, "bytes_total"+of+`,kind="memory"} 200`,
		"bytes_total"+of+`,kind="stored"} 14`, "pause_seconds_sum"+of+"} 0.5", "pause_seconds_bucket"+of+`,le="0.1"} 0`, "pause_seconds_bucket"+of+`,le="0.3"} 2`,
		"latency_seconds_count"+of+`,phase="total"} 2`, "rank_failures_total"+of+`,reason="signal"} 1`, "work_lost_seconds_total"+of+"} 3", "restore_seconds_sum"+of+"} 2")
	f, err := os.OpenFile(journal, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, "\"}\n"+fmt.Sprintf(line, 3)); err != nil {
		t.Fatal(err)
	}
	hold("checkpoints_total"+of+`,outcome="committed"} 3`, "bytes_total"+of+`,kind="stored"} 21`)
}

// lintMetrics checks the text format of Prometheus: a family has its type before its samples,
// once, and buckets grow.
func lintMetrics(text string) error {
	kind := map[string]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if words[0] == "#" {
			if words[1] == "TYPE" {
				if kind[words[2]] != "" {
					return fmt.Errorf("%s has two types", words[2])
				}
				kind[words[2]] = words[3]
			}
			continue
		}
		name, _, _ := strings.Cut(words[0], "{")
		plain := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); kind[base] == "histogram" {
				plain = base
			}
		}
		if kind[plain] == "" {
			return fmt.Errorf("%s has no type", name)
		}
		if kind[plain] == "counter" != strings.HasSuffix(plain, "_total") {
			return fmt.Errorf("%s is a %s", name, kind[plain])
		}
	}
	return nil
}
