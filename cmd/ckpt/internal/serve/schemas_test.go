package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"ckpt/cmd/ckpt/internal/metrics"
	"ckpt/internal/testkit"
)

var update = flag.Bool("update", false, "write assets/schemas.json anew")

// TestSchemas holds the schemas in the binary to docs/schema: of the results of all operations, of
// the events of a journal, and of the fields that these refer to.
func TestSchemas(t *testing.T) {
	read := func(name string) object {
		text, err := os.ReadFile(filepath.Join("../../../../docs/schema", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte(`"fields.json#/$defs/`), []byte(`"#/components/schemas/fields/$defs/`))
		doc := object{}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		delete(doc, "$schema")
		delete(doc, "$id")
		return doc
	}
	all, fields := object{"launch": read("launch"), "status": read("status")}, read("fields")["$defs"].(map[string]any)
	for i := range operations {
		if name := operations[i].schema(); all[name] == nil {
			all[name] = read(name)
		}
	}
	used := object{}
	var use func(v any)
	use = func(v any) {
		switch v := v.(type) {
		case object:
			for _, x := range v {
				use(x)
			}
		case map[string]any:
			for _, x := range v {
				use(x)
			}
		case []any:
			for _, x := range v {
				use(x)
			}
		case string:
			if name, is := strings.CutPrefix(v, "#/components/schemas/fields/$defs/"); is && used[name] == nil {
				used[name] = fields[name]
				use(fields[name])
			}
		}
	}
	use(all)
	all["fields"] = object{"$defs": used}
	want, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("assets/schemas.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(schemas, want) {
		t.Error("assets/schemas.json is not what docs/schema says: go test ./cmd/ckpt -run TestGenerateSchemas -update-schemas")
	}
}

// TestExamplesOfMetrics: the rules and the dashboard below docs/examples name metrics and labels
// that there are.
func TestExamplesOfMetrics(t *testing.T) {
	text := ""
	for _, name := range []string{"alerts.yml", "dashboard.json"} {
		b, err := os.ReadFile("../../../../docs/examples/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	known, used := map[string]bool{}, map[string]bool{}
	for _, f := range metrics.Families {
		names := []string{f.Name}
		if f.Kind == "histogram" {
			names = []string{f.Name + "_bucket", f.Name + "_sum", f.Name + "_count"}
		}
		for _, n := range names {
			known["ckpt_"+n] = true
		}
	}
	for _, name := range regexp.MustCompile(`\bckpt_[a-z_]+`).FindAllString(text, -1) {
		if used[name] = true; !known[name] {
			t.Errorf("the examples name %s, and there is no such metric", name)
		}
	}
	if len(used) < 10 {
		t.Errorf("the examples name %d metrics only", len(used))
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	alerts, _ := os.ReadFile("../../../../docs/examples/alerts.yml")
	if err := yaml.Unmarshal(alerts, &rules); err != nil || len(rules.Groups) != 1 || len(rules.Groups[0].Rules) < 5 {
		t.Errorf("alerts.yml: %+v, %v", rules, err)
	}
}

// TestPromtool: Prometheus takes the rules and the metrics, and each rule fires on what it is for,
// and on nothing else.
func TestPromtool(t *testing.T) {
	testkit.All(t, "promtool")
	rules, err := filepath.Abs("../../../../docs/examples/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	promtool := func(stdin string, args ...string) {
		t.Helper()
		cmd := exec.Command("promtool", args...)
		cmd.Stdin = strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	promtool("", "check", "rules", rules)
	s, h := newTest(t)
	s.watch.look(t.Context(), true)
	for _, seen := range s.watch.known("golden") {
		seen.status.Updated = time.Now() // golden jobs ended long ago
	}
	promtool(ask(h, readToken, "GET", "/metrics", "").Body.String(), "check", "metrics")
	file := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(file, fmt.Appendf(nil, firing, rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool("", "test", "rules", file)
}

// firing has a job in trouble and a healthy one. All alerts are of the first, at 40 minutes.
const firing = `
rule_files: [%q]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - { series: 'ckpt_job_running{store="s",job="late"}', values: "1x60" }
      - { series: 'ckpt_last_durable_timestamp_seconds{store="s",job="late"}', values: "0x60" }
      - { series: 'ckpt_interval_seconds{store="s",job="late"}', values: "60x60" }
      - { series: 'ckpt_checkpoints_total{store="s",job="late",outcome="aborted"}', values: "0+1x60" }
      - { series: 'ckpt_rank_failures_total{store="s",job="late",reason="signal"}', values: "0+1x60" }
      - { series: 'ckpt_store_free_bytes{store="s"}', values: "1000-10x60" }
      - { series: 'ckpt_jobs{store="s",state="silent"}', values: "1x60" }
      - { series: 'ckpt_job_running{store="s",job="fine"}', values: "1x60" }
      - { series: 'ckpt_last_durable_timestamp_seconds{store="s",job="fine"}', values: "0+60x60" }
      - { series: 'ckpt_interval_seconds{store="s",job="fine"}', values: "60x60" }
      - { series: 'ckpt_checkpoints_total{store="s",job="fine",outcome="committed"}', values: "0+1x60" }
      - { series: 'ckpt_rank_failures_total{store="s",job="fine",reason="signal"}', values: "1x60" }
      - { series: 'ckpt_store_free_bytes{store="t"}', values: "1000x60" }
      - { series: 'ckpt_jobs{store="t",state="running"}', values: "1x60" }
      - { series: 'ckpt_store_readable{store="s"}', values: "0x60" }
      - { series: 'ckpt_store_readable{store="t"}', values: "1x60" }
    promql_expr_test:
      - expr: count by (alertname, store, job) (ALERTS{alertstate="firing"})
        eval_time: 40m
        exp_samples:
          - { labels: '{alertname="CkptCheckpointLate", store="s", job="late"}', value: 1 }
          - { labels: '{alertname="CkptCheckpointsAborted", store="s", job="late"}', value: 1 }
          - { labels: '{alertname="CkptRanksFail", store="s", job="late"}', value: 1 }
          - { labels: '{alertname="CkptStoreFull", store="s"}', value: 1 }
          - { labels: '{alertname="CkptUnreadableJob", store="s"}', value: 1 }
          - { labels: '{alertname="CkptStoreUnreadable", store="s"}', value: 1 }
`
