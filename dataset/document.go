package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"ckpt/internal/wording"
	"ckpt/zones"
)

// document is the YAML form of a spec. Unknown fields are errors.
type document struct {
	Name     string                   `yaml:"name"`
	Title    string                   `yaml:"title"`
	Source   string                   `yaml:"source"`
	Kernel   string                   `yaml:"kernel"`
	Procs    procRule                 `yaml:"procs"`
	Classes  map[string]documentClass `yaml:"classes"`
	Derived  []map[string]string      `yaml:"derived"`
	Runtime  string                   `yaml:"runtime"`
	Epoch    string                   `yaml:"epoch"`
	File     *documentFile            `yaml:"file"`
	Arrays   []documentArray          `yaml:"arrays"`
	Messages []documentMessage        `yaml:"messages"`
}

type documentArray struct {
	Name    string `yaml:"name"`
	Elem    string `yaml:"elem"`
	Count   string `yaml:"count"`
	Rewrite string `yaml:"rewrite"`
	Used    string `yaml:"used"`
	Filled  string `yaml:"filled"`

	Save       *bool `yaml:"save"`
	Replicated bool  `yaml:"replicated"`

	Global *documentGlobal `yaml:"global"`
}

// marks returns the marks of the array: by default it is saved, and another on each rank.
func (a *documentArray) marks() arrayMarks {
	return arrayMarks{save: a.Save == nil || *a.Save, replicated: a.Replicated}
}

type documentMessage struct {
	To        string     `yaml:"to"`
	Count     string     `yaml:"count"`
	Bytes     string     `yaml:"bytes"`
	Each      string     `yaml:"each"`
	Mean      string     `yaml:"mean"`
	AnySource bool       `yaml:"any_source"`
	Peers     *peersSpec `yaml:"peers"`
}

type documentClass struct {
	Iterations int              `yaml:"iterations"`
	Params     map[string]int64 `yaml:"params"`
}

// ParseWorkload reads a spec from YAML text; name is for errors. With
// [Workload.Source] it transfers a workload to another process.
func ParseWorkload(src []byte, name string) (*Workload, error) {
	w, err := parse(src)
	if err != nil {
		hint := "docs/WORKLOADS.md describes the format"
		if brokenField.MatchString(err.Error()) {
			hint = `inside { } quote an expression that contains a comma, as in count: "div(n, p)"`
		}
		return nil, &SpecError{
			Reason: BadSpec, Subject: "spec " + name, Problem: err.Error(), hint: hint, err: err,
		}
	}
	return w, nil
}

// brokenField is YAML's reading of {count: div(n, p)}: a field "p)".
var brokenField = regexp.MustCompile(`field [^"]*\).* not found`)

func parse(src []byte) (*Workload, error) {
	if len(src) > maxSource {
		return nil, fmt.Errorf("longer than %d bytes", maxSource)
	}
	var doc document
	if err := wording.DecodeYAML(src, &doc); err != nil {
		return nil, err
	}
	w, err := build(&doc)
	if err != nil {
		return nil, err
	}
	w.source = slices.Clone(src)
	return w, nil
}

// The length of names is no part of the expression, which would take long to compile, at
// each start of a process.
const maxName = 64

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func isIdentifier(name string) bool { return len(name) <= maxName && identifier.MatchString(name) }

// build checks everything that does not depend on class and process count;
// expressions are evaluated by Instance.
func build(doc *document) (*Workload, error) {
	w := &Workload{
		Name: doc.Name, Title: doc.Title, Kernel: doc.Kernel,
		procs: doc.Procs, classes: map[string]class{},
	}
	switch {
	case !isIdentifier(doc.Name):
		return nil, fmt.Errorf("name %q: want a letter, then letters, digits, - or _", doc.Name)
	case !slices.Contains(kernels, doc.Kernel):
		return nil, fmt.Errorf("kernel %q is unknown (want %s)", doc.Kernel, strings.Join(kernels, ", "))
	case !doc.Procs.valid():
		return nil, fmt.Errorf("procs %q is unknown (want square, power-of-two or any)", doc.Procs)
	case len(doc.Classes) == 0:
		return nil, errors.New("no classes: give at least one, with iterations and params")
	case len(doc.Classes) > maxItems || len(doc.Derived) > maxItems || len(doc.Arrays) > maxItems || len(doc.Messages) > maxItems:
		return nil, fmt.Errorf("more than %d entries in a list", maxItems)
	case len(doc.Arrays) == 0:
		return nil, errors.New("no arrays: an application without data has nothing to checkpoint")
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Classes)) {
		c := doc.Classes[name]
		if !isIdentifier(name) {
			return nil, fmt.Errorf("class %q: want a letter, then letters, digits, - or _", name)
		}
		if c.Iterations < 1 {
			return nil, fmt.Errorf("class %s: iterations must be at least 1", name)
		}
		for _, p := range slices.Sorted(maps.Keys(c.Params)) {
			if err := checkParam(p); err != nil {
				return nil, fmt.Errorf("class %s: %w", name, err)
			}
		}
		w.classes[name] = class{c.Iterations, c.Params}
	}
	for i, m := range doc.Derived {
		if len(m) != 1 {
			return nil, fmt.Errorf("derived[%d]: want one `name: expression`, got %d", i, len(m))
		}
		for name, text := range m {
			if err := checkParam(name); err != nil {
				return nil, fmt.Errorf("derived[%d]: %w", i, err)
			}
			e, err := parseExpression(text)
			if err != nil {
				return nil, fmt.Errorf("derived %s: %w", name, err)
			}
			w.derived = append(w.derived, named{name, e})
		}
	}
	if doc.Runtime == "" {
		doc.Runtime = fmt.Sprint(minRuntime)
	}
	var err error
	if w.runtime, err = parseExpression(doc.Runtime); err != nil {
		return nil, fmt.Errorf("runtime: %w", err)
	}
	if doc.Epoch != "" {
		if w.epoch, err = parseExpression(doc.Epoch); err != nil {
			return nil, fmt.Errorf("epoch: %w", err)
		}
	}
	if doc.File != nil {
		if w.file, err = parseFile(doc.File); err != nil {
			return nil, fmt.Errorf("file: %w", err)
		}
	}
	seen := map[string]bool{"runtime": true} // the region that coordinator/app adds
	for i, a := range doc.Arrays {
		if !isIdentifier(a.Name) {
			return nil, fmt.Errorf("arrays[%d]: name %q: want a letter, then letters, digits, - or _", i, a.Name)
		}
		if seen[a.Name] {
			return nil, fmt.Errorf("array %s: the name is taken", a.Name)
		}
		seen[a.Name] = true
		elem, err := parseElem(a.Elem)
		if err != nil {
			return nil, fmt.Errorf("array %s: %w", a.Name, err)
		}
		spec, err := a.parse(elem)
		if err != nil {
			return nil, fmt.Errorf("array %s: %w", a.Name, err)
		}
		w.arrays = append(w.arrays, *spec)
	}
	for i, m := range doc.Messages {
		spec, err := parseMessage(&m)
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		w.msgs = append(w.msgs, *spec)
	}
	return w, nil
}

// parse reads the expressions of an array.
func (a *documentArray) parse(elem zones.Elem) (*arraySpec, error) {
	spec := &arraySpec{name: a.Name, elem: elem, marks: a.marks()}
	var err error
	if a.Global != nil {
		if a.Count != "" {
			return nil, errors.New("count: the shape of a global array says how many elements a rank has; leave count out")
		}
		if spec.global, err = a.Global.parse(); err != nil {
			return nil, fmt.Errorf("global: %w", err)
		}
	} else if spec.count, err = parseExpression(a.Count); err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	for _, field := range []struct {
		name, text string
		to         **expression
	}{{"rewrite", a.Rewrite, &spec.rewrite}, {"used", a.Used, &spec.used}, {"filled", a.Filled, &spec.filled}} {
		if *field.to, err = parseExpression(cmp.Or(field.text, "1")); err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return spec, nil
}

func parseMessage(m *documentMessage) (*messageSpec, error) {
	spec := &messageSpec{to: oneLine(m.To), anySource: m.AnySource}
	for _, field := range []struct {
		name, text string
		to         **expression
		optional   bool
	}{{"count", m.Count, &spec.count, false}, {"bytes", m.Bytes, &spec.bytes, false}, {"each", m.Each, &spec.each, true}, {"mean", m.Mean, &spec.mean, true}} {
		if field.text == "" && field.optional {
			continue
		}
		var err error
		if *field.to, err = parseExpression(field.text); err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	if m.Peers == nil {
		return spec, nil
	}
	var err error
	if spec.peers, err = parsePattern(m.Peers); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	return spec, nil
}

func checkParam(name string) error {
	if !isIdentifier(name) || strings.Contains(name, "-") {
		return fmt.Errorf("parameter %q: want a letter, then letters, digits or _", name)
	}
	if name == "p" {
		return errors.New("parameter p is the number of processes and cannot be set")
	}
	return nil
}

func parseElem(s string) (zones.Elem, error) {
	for e := zones.Bytes; e.Valid(); e++ {
		if e.String() == s {
			return e, nil
		}
	}
	return 0, fmt.Errorf("elem %q is unknown (want float64, float32, int64, int32 or bytes)", s)
}

// A File is what an application writes when it stores its own checkpoint in one file, beside
// the arrays that it has to save.
type File struct {
	// Header is the bytes of the file beyond the arrays.
	Header int64
	// Writes of it one rank makes for itself; Collective ones all ranks make together, so
	// that each aggregator writes once.
	Writes, Collective int64
}

type fileSpec struct{ header, writes, collective *expression }

// documentFile is the YAML form of a File.
type documentFile struct {
	Header     string `yaml:"header"`
	Writes     string `yaml:"writes"`
	Collective string `yaml:"collective"`
}

func parseFile(doc *documentFile) (*fileSpec, error) {
	f := &fileSpec{}
	for _, field := range []struct {
		name, text string
		to         **expression
	}{{"header", doc.Header, &f.header}, {"writes", doc.Writes, &f.writes}, {"collective", doc.Collective, &f.collective}} {
		var err error
		if *field.to, err = parseExpression(cmp.Or(field.text, "0")); err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return f, nil
}

// instance evaluates the spec; nil if there is none.
func (f *fileSpec) instance(params map[string]int64) (*File, error) {
	if f == nil {
		return nil, nil
	}
	out := &File{}
	for _, field := range []struct {
		name string
		from *expression
		to   *int64
	}{{"header", f.header, &out.Header}, {"writes", f.writes, &out.Writes}, {"collective", f.collective, &out.Collective}} {
		var err error
		if *field.to, err = field.from.size(params); err != nil {
			return nil, fmt.Errorf("file: %s: %w", field.name, err)
		}
	}
	return out, nil
}
