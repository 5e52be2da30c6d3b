package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/scripttest"
	"ckpt/cmd/ckpt/internal/ui"
)

const schemasDir = "../../docs/schema"

// printNoJSON are the commands that --json does not concern.
var printNoJSON = []string{"serve", "man", "sdk", "completion"}

// leafNames names the commands that do something themselves.
func leafNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		switch name := scripttest.SchemaOf(strings.Fields(sub.CommandPath())[1:]); {
		case sub.HasAvailableSubCommands():
			names = append(names, leafNames(sub)...)
		case !sub.Hidden && !slices.Contains(printNoJSON, name):
			names = append(names, name)
		}
	}
	return names
}

// TestSchemas: every command, and no other name, has a schema, and each
// property of each is the field of that name in fields.json. So no name changes its
// type or unit between commands.
func TestSchemas(t *testing.T) {
	want := append(leafNames(root.New(&ui.Globals{})), "version", "error", "fields")
	files, err := filepath.Glob(schemasDir + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	used := map[string]bool{}
	if _, err := scripttest.Schemas(); err != nil {
		t.Error(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		have = append(have, name)
		if name != "fields" {
			checkProperties(t, name, readDocument(t, name), used)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		t.Errorf("schemas of %v, commands %v", have, want)
	}
	fields := readFields(t)
	for again := true; again; { // until no field leads to another
		before := len(used)
		for name := range maps.Clone(used) {
			checkProperties(t, "field "+name, fields[name], used)
		}
		again = len(used) > before
	}
	for name := range fields {
		if !used[name] {
			t.Errorf("no command has the field %s", name)
		}
	}
}

func readDocument(t *testing.T, name string) (doc map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(schemasDir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return doc
}

func readFields(t *testing.T) map[string]map[string]any {
	t.Helper()
	fields := map[string]map[string]any{}
	for name, def := range readDocument(t, "fields")["$defs"].(map[string]any) {
		fields[name] = def.(map[string]any)
	}
	return fields
}

var fieldRef = regexp.MustCompile(`^(?:fields\.json)?#/\$defs/(\w+)$`)

// checkProperties checks the objects in a schema, and notes the fields that it uses.
func checkProperties(t *testing.T, where string, schema any, used map[string]bool) {
	t.Helper()
	switch s := schema.(type) {
	case []any:
		for _, x := range s {
			checkProperties(t, where, x, used)
		}
	case map[string]any:
		if ref, ok := s["$ref"].(string); ok {
			if m := fieldRef.FindStringSubmatch(ref); m != nil && !isLocal(where, ref) {
				used[m[1]] = true
			}
		}
		properties, object := s["properties"].(map[string]any)
		for name, p := range properties {
			ref, _ := p.(map[string]any)["$ref"].(string)
			if m := fieldRef.FindStringSubmatch(ref); p.(map[string]any)["const"] == nil && (m == nil || m[1] != name || isLocal(where, ref)) {
				t.Errorf("%s: property %s is not the field of fields.json", where, name)
			}
		}
		if object && s["required"] != nil && s["allOf"] == nil && s["additionalProperties"] != false {
			t.Errorf("%s: an object may have other properties", where)
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if object && properties[name.(string)] == nil {
				t.Errorf("%s: required %s is no property", where, name)
			}
		}
		for _, x := range s {
			checkProperties(t, where, x, used)
		}
	}
}

// isLocal reports whether a reference is to a part of the schema of a command.
func isLocal(where, ref string) bool {
	return strings.HasPrefix(ref, "#") && !strings.HasPrefix(where, "field ")
}

// TestFields: each field has a type, a sentence, and if it is a number a unit, which
// its name ends in.
func TestFields(t *testing.T) {
	units := []string{"bytes", "address", "s", "bytes/s", "1/s", "bytes/event", "share", "ratio", "count", "number", "quoted"}
	for name, f := range readFields(t) {
		text, _ := f["description"].(string)
		if !strings.HasSuffix(text, ".") || !unicode.IsUpper(rune(text[0])) {
			t.Errorf("%s: %q is no sentence", name, text)
		}
		unit, hasUnit := f["unit"].(string)
		if isNumber(f) != hasUnit || hasUnit && !slices.Contains(units, unit) {
			t.Errorf("%s: unit %q", name, unit)
		}
		if f["type"] == nil && f["$ref"] == nil {
			t.Errorf("%s: no type", name)
		}
		if want := unitOf(name); want != "" && hasUnit && unit != want {
			t.Errorf("%s: unit %q, its name says %q", name, unit, want)
		}
		if hasUnit && !endsInUnit(name, unit) {
			t.Errorf("%s: its name does not say the unit %q", name, unit)
		}
		if regexp.MustCompile(`_(mib|kib|gib|mb|ms|us|ns|percent)$`).MatchString(name) {
			t.Errorf("%s: bytes, seconds and shares only", name)
		}
	}
}

// isNumber reports whether a field is a number or a list of numbers.
func isNumber(f map[string]any) bool {
	numeric := func(kind any) bool {
		switch kind := kind.(type) {
		case string:
			return kind == "integer" || kind == "number"
		case []any:
			return kind[0] == "integer" || kind[0] == "number"
		}
		return false
	}
	items, _ := f["items"].(map[string]any)
	return numeric(f["type"]) || numeric(items["type"])
}

// unitOf returns the unit that a name ends in, if any.
func unitOf(name string) string {
	switch {
	case strings.HasSuffix(name, "bytes_per_s"):
		return "bytes/s"
	case strings.HasSuffix(name, "_per_s"), strings.HasSuffix(name, "_per_cpu_s"):
		return "1/s"
	case strings.HasSuffix(name, "_s"):
		return "s"
	case strings.HasSuffix(name, "_per_event"):
		return "bytes/event"
	case name == "bytes", strings.HasSuffix(name, "_bytes"), strings.HasPrefix(name, "bytes_"):
		return "bytes"
	case name == "offset", strings.HasSuffix(name, "_offset"):
		return "bytes"
	case strings.HasSuffix(name, "_share"):
		return "share"
	case strings.HasSuffix(name, "_ratio"):
		return "ratio"
	}
	return ""
}

// endsInUnit reports whether a name says bytes or seconds if these are its unit. The
// parts of zones and latency_s need not: the name of the whole says it.
func endsInUnit(name, unit string) bool {
	parts := []string{"library", "data", "shared", "iobuffer", "coordination", "management", "storage", "total"}
	if slices.Contains(parts, name) {
		return true
	}
	switch unit {
	case "bytes", "s", "bytes/s", "1/s", "bytes/event":
		return unitOf(name) == unit
	}
	return true
}

// TestSchemasReached: a script runs every command with --json, so that its schema is
// checked against real output, of some at night.
func TestSchemasReached(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	beside, other := filepath.Glob("internal/*/testdata/script/*.txtar")
	if err != nil || other != nil || len(scripts) == 0 || len(beside) == 0 {
		t.Fatal(err, other)
	}
	scripts = append(scripts, beside...)
	reached := map[string]bool{}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(strings.TrimPrefix(line, "[nightly] "))
			if len(words) > 2 && words[0] == "exec" && words[1] == "ckpt" && slices.Contains(words, "--json") && !scripttest.WritesFile(words) {
				reached[scripttest.SchemaOf(words[2:])] = true
			}
		}
	}
	for _, name := range leafNames(root.New(&ui.Globals{})) {
		if !reached[name] {
			t.Errorf("no script runs ckpt %s with --json", strings.ReplaceAll(name, "-", " "))
		}
	}
}

// TestCheckOutput: the check of the other tests finds a wrong type, an unknown or a
// missing field, and names it.
func TestCheckOutput(t *testing.T) {
	version := []string{"version", "--json"}
	good := `{"version":"1","commit":"","date":"","modified":false,"go":"go1","platform":"linux/amd64","image_format":1}`
	for _, test := range []struct{ out, want string }{
		{good, ""},
		{strings.Replace(good, `:1}`, `:"1"}`, 1), "/image_format"},
		{strings.Replace(good, `"version"`, `"versoin"`, 1), "versoin"},
		{strings.Replace(good, `"go":"go1",`, ``, 1), "go"},
		{good[:len(good)-1], "not JSON"},
		{"", "no JSON"},
	} {
		err := scripttest.CheckOutput(version, []byte(test.out), true)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.out, err, test.want)
		}
	}
}
