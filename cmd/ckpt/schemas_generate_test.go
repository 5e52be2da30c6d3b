package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/root"
	"ckpt/cmd/ckpt/internal/ui"
)

var updateSchemas = flag.Bool("update-schemas", false, "write docs/schema anew")

// results are the types that commands print with --json: the name of a type, or of a function
// or method with (), which stands for what it gives to Show or PrintJSON.
var results = map[string]string{
	"error":              "ui.Complain()",
	"bench-codec":        "benchmarks.runBenchCodec()",
	"bench-interference": "benchmarks.runInterference()",
	"bench-modes":        "benchmarks.printModes()",
	"bench-storage":      "benchmarks.sweep benchmarks.runProbeStorage()",
	"bench-tier":         "benchmarks.tierBench",
	"bench-sieve":        "benchmarks/sieve.Result",
	"bench-write":        "benchmarks/sieve.Result benchmarks.runBenchWrite()",
	"checkpoint":         "ui.PrintCheckpoint()",
	"copy":               "images.copyResult",
	"dataset":            "predictions.runDatasetExport() predictions.runDatasetList() predictions.runDatasetShow()",
	"predict-eval":       "predictions.runPredictEval() predict.Scored",
	"trace-export":       "traces.tellImport() traces.tellOutput()",
	"trace-report":       "traces.tellOutput()",
	"diff":               "images.runDiff()",
	"doctor":             "machine.Report",
	"export":             "images.runExport()",
	"extract":            "images.extract() images.extractGlobal() images.listArrays()",
	"import":             "images.runImport()",
	"interval":           "predictions.runInterval() predictions.runLevels() predictions.showFailures()",
	"launch":             events,
	"list":               "images.runListCheckpoints() images.listJobs()",
	"help":               "jobs.ShowCombinations()",
	"layout":             "jobs.runPlan()",
	"mount":              "images.mounted",
	"storage-mount":      "images.mounted",
	"storage-recover":    "images.recoveredFiles images.cachedFiles",
	"predict-count":      "predictions.runPredictCount()",
	"predict-fit":        "predictions.runPredictFit()",
	"predict-plan":       "predictions.runPredictPlan() predictions.showLevelPlan()",
	"predict-scale":      "predictions.runPredictScale()",
	"predict-size":       "predictions.runPredictSize() predictions.predictSaved()",
	"predict-storage":    "predictions.runPredictStorage()",
	"predict-time":       "predictions.runPredictTime() predictions.runTimeOfMode()",
	"prune":              "images.runPrune()",
	"restart":            events,
	"rm":                 "coordinator/levels.Removed",
	"scrub":              "images.scrubResult",
	"seal":               "image.Sealing",
	"show":               "images.runShow() images.showLine()",
	"status":             "coordinator/job.Status []coordinator/job.Status",
	"stop":               "jobs.runStop()",
	"storage-serve":      "coordinator/turns.Event",
	"storage-status":     "machine.unitStatus",
	"storage-turn":       "machine.tellTurn()",
	"simulate":           "study.simulateResult",
	"study":              "study.Result",
	"trace-analyze":      "traces.runTraceAnalyze() traces.showFiles() traces.showRuns() traces.showThresholds()",
	"trace-diff":         "traces.newDiffCommand()",
	"trace-record":       "traces.tellRecord()",
	"trace-replay":       "traces.runTraceReplay()",
	"trace-show":         "traces.eventLine traces.showScope()",
	"tune":               "jobs.runTune()",
	"verify":             "images.printVerify()",
	"version":            "ui.Build",
	"zones":              "images.printZonesJSON() images.watched()",
}

// events are the events of a job.
const events = `coordinator.StartEvent coordinator/job.CheckpointEvent coordinator.StoppingEvent coordinator.AbortedEvent
	coordinator.FailureEvent coordinator.BackoffEvent coordinator.IntervalEvent coordinator/tune.TunedEvent coordinator.RestartEvent
	coordinator/job.RestartedEvent coordinator.RecoveryEvent coordinator/levels.LevelEvent coordinator/levels.WaitsEvent coordinator/levels.SourcesEvent
	coordinator/levels.RedundancyEvent coordinator.TurnsEvent coordinator/job.OutputEvent coordinator.Result`

// untyped are the types of fields that are an any in Go.
var untyped = map[string]string{}

// mayBeNil are embedded pointers that may be nil: what they point to is not always there.
var mayBeNil = []string{"*ckpt/cmd/ckpt/internal/images.tierLine", "*ckpt/cmd/ckpt/internal/images.nodeDamage",
	"*ckpt/cmd/ckpt/internal/predictions.CountRange", "*ckpt/interval.CostRange", "*ckpt/predict/plan.Failing", "*ckpt/predict/plan.Groups", "*ckpt/predict/plan.Pattern", "*ckpt/cmd/ckpt/internal/benchmarks.sweepAxis"}

// A node is a JSON Schema, or a part of one.
type node map[string]any

// A schemaMaker makes schemas of Go types.
type schemaMaker struct {
	packages map[string]*types.Package // by the end of their paths
	printed  map[string][]types.Type   // by function
	kinds    map[string]string         // the "type" of an event, by package, type
	fields   map[string]node
	where    map[string]string // a field was seen first
	errs     []string
}

// TestGenerateSchemas holds docs/schema to the types of the results, and to the sentences of
// fields.txt.
func TestGenerateSchemas(t *testing.T) {
	m, err := readTypes()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]node{}
	all := root.New(&ui.Globals{})
	for name, names := range results {
		var of []node
		for _, n := range strings.Fields(names) {
			of = append(of, m.result(n)...)
		}
		if names == events { // the journal of a job has the moment of each
			for _, n := range of {
				n["properties"].(node)["time"] = node{"$ref": "fields.json#/$defs/time"}
			}
		}
		doc := node{"anyOf": of}
		if len(of) == 1 {
			doc = of[0]
		}
		title := "An error of a command with --json, on standard error."
		if cmd, _, err := all.Find(strings.Split(name, "-")); err == nil && cmd != all {
			title = cmd.UseLine() + " --json"
		}
		doc["$schema"], doc["$id"], doc["title"] = "https://json-schema.org/draft/2020-12/schema", name+".json", title
		files[name] = doc
	}
	m.describe()
	files["fields"] = node{"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "fields.json",
		"title": "The fields of all commands with --json", "$defs": m.fields}
	for _, e := range m.errs {
		t.Error(e)
	}
	if *updateSchemas {
		old, _ := filepath.Glob(schemasDir + "/*.json")
		for _, file := range old {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, doc := range files {
		var b bytes.Buffer
		writeNode(&b, doc, 0)
		b.WriteByte('\n')
		file := filepath.Join(schemasDir, name+".json")
		if *updateSchemas {
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if text, err := os.ReadFile(file); err != nil || !bytes.Equal(text, b.Bytes()) {
			t.Errorf("%s is not what the types say (%v): go test ./cmd/ckpt -run TestGenerateSchemas -update-schemas", file, err)
		}
	}
	if *updateSchemas { // the service has those of its requests in the binary
		if out, err := exec.Command("go", "test", "-vet=off", "./internal/serve", "-run", "^TestSchemas$", "-update").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// writeNode writes objects of several members on lines of their own, down to properties.
func writeNode(b *bytes.Buffer, v any, depth int) {
	n, ok := v.(node)
	list, isList := v.([]node)
	if depth > 2 || !ok && !isList {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		b.Write(text)
		return
	}
	indent := "\n" + strings.Repeat("  ", depth+1)
	open, end := "{", "}"
	if isList {
		open, end = "[", "]"
	}
	b.WriteString(open)
	for i, x := range list {
		b.WriteString(strings.Repeat(",", min(i, 1)) + indent)
		writeNode(b, x, depth+1)
	}
	keys := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b)-len(strings.TrimPrefix(b, "$")), len(a)-len(strings.TrimPrefix(a, "$"))), cmp.Compare(a, b))
	})
	for i, key := range keys {
		b.WriteString(strings.Repeat(",", min(i, 1)) + indent + strconv.Quote(key) + ": ")
		writeNode(b, n[key], depth+1)
	}
	b.WriteString(indent[:len(indent)-2] + end)
}

// readTypes reads the packages of commands from their sources, and the others from what
// the compiler has exported.
func readTypes() (*schemaMaker, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}", "./...")
	cmd.Stderr = os.Stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	exports, sources := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(string(list)) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[columns[0]] = columns[1]
		for _, name := range strings.Fields(columns[3]) {
			sources[columns[0]] = append(sources[columns[0]], filepath.Join(columns[2], name))
		}
	}
	set := token.NewFileSet()
	from := importer.ForCompiler(set, "gc", func(p string) (io.ReadCloser, error) { return os.Open(exports[p]) })
	m := &schemaMaker{packages: map[string]*types.Package{}, printed: map[string][]types.Type{}, kinds: map[string]string{}, fields: map[string]node{}, where: map[string]string{}}
	for _, p := range slices.Sorted(maps.Keys(exports)) {
		if !strings.HasPrefix(p, "ckpt/") {
			continue
		}
		short := strings.TrimPrefix(p, "ckpt/")
		var files []*ast.File
		for _, name := range sources[p] {
			f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
		for _, f := range files {
			m.noteKinds(p, f)
		}
		if !strings.HasPrefix(short, "cmd/ckpt") && short != "zones" {
			if m.packages[short], err = from.Import(p); err != nil {
				return nil, err
			}
			continue
		}
		short = strings.TrimPrefix(short, "cmd/ckpt/internal/")
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		checked, err := (&types.Config{Importer: from}).Check(p, set, files, info)
		if err != nil {
			return nil, err
		}
		m.packages[short] = checked
		for _, f := range files {
			m.notePrinted(short, f, info)
		}
	}
	return m, nil
}

// noteKinds notes the comments like // "start" of the fields Type.
func (m *schemaMaker) noteKinds(pkg string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				kind, err := strconv.Unquote(strings.TrimSpace(field.Comment.Text()))
				if err == nil && len(field.Names) == 1 && field.Names[0].Name == "Type" {
					m.kinds[pkg+"."+spec.Name.Name] = kind
				}
			}
		}
		return true
	})
}

// notePrinted notes what functions print.
func (m *schemaMaker) notePrinted(pkg string, f *ast.File, info *types.Info) {
	for _, d := range f.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && (slices.Contains([]string{"Show", "PrintJSON", "Encode", "Marshal"}, s.Sel.Name)) {
				name := pkg + "." + decl.Name.Name + "()"
				m.printed[name] = append(m.printed[name], info.Types[call.Args[0]].Type)
			}
			return true
		})
	}
}

// result returns the schemas of a name in results.
func (m *schemaMaker) result(name string) (of []node) {
	if list, isList := strings.CutPrefix(name, "[]"); isList {
		for _, s := range m.result(list) {
			of = append(of, node{"type": "array", "items": s})
		}
		return of
	}
	if strings.HasSuffix(name, "()") {
		if m.printed[name] == nil {
			m.errs = append(m.errs, "results: "+name+" prints nothing")
		}
		for _, t := range m.printed[name] {
			of = append(of, m.schemaOf(name, t))
		}
		return of
	}
	dir, base := path.Split(name)
	pkg, typ, _ := strings.Cut(base, ".")
	if p := m.packages[dir+pkg]; p != nil && p.Scope().Lookup(typ) != nil {
		return []node{m.schemaOf(name, p.Scope().Lookup(typ).Type())}
	}
	m.errs = append(m.errs, "results: there is no "+name)
	return nil
}

// schemaOf returns the schema of a type as package encoding/json writes it.
func (m *schemaMaker) schemaOf(where string, t types.Type) node {
	if n, ok := types.Unalias(t).(*types.Named); ok {
		switch n.String() {
		case "time.Time", "ckpt/image/nodes.Drain", "ckpt/image/dmtcp.fileName":
			return node{"type": "string"}
		case "ckpt/predict.MiB":
			return node{"type": "integer"}
		case "ckpt/predict/plan.Finite":
			return node{"type": []string{"number", "null"}}
		case "ckpt/zones.Area":
			return m.schemaOf(where, m.printed["zones.MarshalJSON()"][0])
		}
		if hasMethod(t, "MarshalText") {
			return node{"type": "string"}
		}
		if hasMethod(t, "MarshalJSON") {
			m.errs = append(m.errs, fmt.Sprintf("%s: %v writes itself", where, t))
			return node{}
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return m.schemaOf(where, u.Elem())
	case *types.Basic:
		switch {
		case u.Info()&types.IsBoolean != 0:
			return node{"type": "boolean"}
		case u.Info()&types.IsInteger != 0:
			return node{"type": "integer"}
		case u.Info()&types.IsFloat != 0:
			return node{"type": "number"}
		}
		return node{"type": "string"}
	case *types.Slice:
		return node{"type": "array", "items": m.schemaOf(where, u.Elem())}
	case *types.Array:
		return node{"type": "array", "items": m.schemaOf(where, u.Elem())}
	case *types.Map:
		return node{"type": "object", "additionalProperties": m.schemaOf(where, u.Elem())}
	case *types.Struct:
		properties, required := node{}, []string{}
		m.members(where, t, u, properties, &required)
		return node{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	return node{} // an any
}

func hasMethod(t types.Type, name string) bool {
	o, _, _ := types.LookupFieldOrMethod(t, true, nil, name)
	_, is := o.(*types.Func)
	return is
}

// members collects the members of a struct, then of structs embedded in it, if they are
// not hidden by its own.
func (m *schemaMaker) members(where string, t types.Type, s *types.Struct, properties node, required *[]string) {
	var embedded []types.Type
	for i := range s.NumFields() {
		f := s.Field(i)
		name, options, _ := strings.Cut(reflect.StructTag(s.Tag(i)).Get("json"), ",")
		inner := f.Type()
		if p, ok := inner.Underlying().(*types.Pointer); ok {
			inner = p.Elem()
		}
		if _, ok := inner.Underlying().(*types.Struct); ok && f.Embedded() && name == "" {
			embedded = append(embedded, f.Type())
			continue
		}
		name = cmp.Or(name, f.Name())
		if properties[name] != nil || name == "-" || !f.Exported() {
			continue
		}
		optional := strings.Contains(options, "omit")
		if !optional {
			*required = append(*required, name)
		}
		if kind := m.kinds[t.String()]; kind != "" && name == "type" {
			properties[name] = node{"const": kind}
			m.define(where, name, node{"type": "string"})
			continue
		}
		properties[name] = node{"$ref": "fields.json#/$defs/" + name}
		of := m.field(where+" "+name, name, f.Type())
		if _, pointer := f.Type().Underlying().(*types.Pointer); pointer && !optional {
			of = merge(of, node{"type": "null"})
		}
		m.define(where, name, of)
	}
	for _, e := range embedded {
		always := required
		if slices.Contains(mayBeNil, e.String()) {
			always = new([]string)
		}
		if p, ok := e.Underlying().(*types.Pointer); ok {
			e = p.Elem()
		}
		m.members(where, e, e.Underlying().(*types.Struct), properties, always)
	}
}

// open are the fields that are being made: a type may hold itself.
var open = map[string]bool{}

func (m *schemaMaker) field(where, name string, t types.Type) node {
	key := name + " " + t.String()
	if open[key] {
		return node{}
	}
	open[key] = true
	return m.schemaOf(where, t)
}

// define adds what a type says about a field to what others said.
func (m *schemaMaker) define(where, name string, of node) {
	if m.fields[name] == nil {
		m.fields[name], m.where[name] = node{}, where
	}
	m.fields[name] = merge(m.fields[name], of)
}

// merge returns a schema of what one of two allows.
func merge(a, b node) node {
	if len(a) == 0 {
		return maps.Clone(b)
	}
	out := maps.Clone(a)
	for key, v := range b {
		is, has := out[key]
		switch key {
		case "type":
			out[key] = mergeTypes(is, v)
		case "items", "additionalProperties":
			old, isNode := is.(node)
			further, also := v.(node)
			if isNode && also {
				v = merge(old, further)
			}
			out[key] = v
		case "properties":
			if has {
				all := maps.Clone(is.(node))
				maps.Copy(all, v.(node))
				v = all
			}
			out[key] = v
		case "required":
			if has {
				v = slices.DeleteFunc(slices.Clone(is.([]string)), func(s string) bool { return !slices.Contains(v.([]string), s) })
			}
			out[key] = v
		}
	}
	return out
}

// mergeTypes joins two values of "type": an integer is a number, too.
func mergeTypes(values ...any) any {
	var all []string
	for _, v := range values {
		switch v := v.(type) {
		case string:
			all = append(all, v)
		case []string:
			all = append(all, v...)
		}
	}
	if slices.Contains(all, "number") {
		all = slices.DeleteFunc(all, func(s string) bool { return s == "integer" })
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if i := slices.Index(all, "null"); i >= 0 {
		all = append(slices.Delete(all, i, i+1), "null")
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// describe adds the sentences and units of fields.txt.
func (m *schemaMaker) describe() {
	for name, names := range untyped {
		var of []node
		for n := range strings.FieldsSeq(names) {
			of = append(of, m.result(n)...)
		}
		m.fields[name] = node{"type": "array", "anyOf": of}
	}
	text, err := os.ReadFile(filepath.Join(schemasDir, "fields.txt"))
	if err != nil {
		m.errs = append(m.errs, err.Error())
	}
	described := map[string]bool{}
	var kept []string
	for line := range strings.Lines(string(text)) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		name, null := strings.CutSuffix(words[0], "?") // a list that is null where it is not known
		f := m.fields[name]
		if len(words) == 3 && f == nil && *updateSchemas {
			continue
		}
		kept = append(kept, line)
		if len(words) < 3 || f == nil {
			m.errs = append(m.errs, "fields.txt: no command has the field "+words[0])
			continue
		}
		if null {
			f["type"] = mergeTypes(f["type"], "null")
		}
		described[name] = true
		f["description"] = words[2]
		if strings.Contains(words[1], "|") {
			f["enum"] = strings.Split(words[1], "|")
		} else if words[1] != "-" {
			f["unit"] = words[1]
		}
	}
	if *updateSchemas {
		if err := os.WriteFile(filepath.Join(schemasDir, "fields.txt"), []byte(strings.Join(kept, "")), 0o644); err != nil {
			m.errs = append(m.errs, err.Error())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.fields)) {
		if !described[name] {
			m.errs = append(m.errs, fmt.Sprintf("fields.txt has no line for %s of %s", name, m.where[name]))
		}
	}
}
