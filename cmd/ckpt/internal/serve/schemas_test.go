package serve

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ckpt/cmd/ckpt/internal/metrics"
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
	if path, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.Command(path, "check", "rules", "../../../../docs/examples/alerts.yml").CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}
