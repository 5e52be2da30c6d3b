package dataset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"

	"ckpt/internal/lazy"
	"ckpt/internal/wording"
	"ckpt/zones"
)

// A spec is the YAML form of a workload. Unknown fields are errors.
type spec struct {
	Name     string                  `yaml:"name"`
	Title    string                  `yaml:"title"`
	Source   string                  `yaml:"source"`
	Kernel   string                  `yaml:"kernel"`
	Procs    procRule                `yaml:"procs"`
	Classes  map[string]class        `yaml:"classes"`
	Derived  []map[string]expression `yaml:"derived"`
	Kinds    []kindSpec              `yaml:"kinds"` // none: all ranks are alike
	Runtime  *expression             `yaml:"runtime"`
	Epoch    *expression             `yaml:"epoch"` // nil: no epochs
	File     *fileSpec               `yaml:"file"`  // nil: nothing is known of it
	Arrays   []arraySpec             `yaml:"arrays"`
	Messages []messageSpec           `yaml:"messages"`
}

type class struct {
	Iterations int              `yaml:"iterations"`
	Params     map[string]int64 `yaml:"params"`
}

type arraySpec struct {
	Name  string      `yaml:"name"`
	Elem  elem        `yaml:"elem"`
	Count *expression `yaml:"count"`
	// The shares are 1 if they are not given.
	Rewrite *expression `yaml:"rewrite"`
	Used    *expression `yaml:"used"`
	Filled  *expression `yaml:"filled"`
	// A checkpoint at application level saves the array unless Save is false, once if it
	// is the same on all ranks.
	Save       *bool `yaml:"save"`
	Replicated bool  `yaml:"replicated"`
	// Global is nil if every rank has an array of its own, of Count elements.
	Global *globalSpec `yaml:"global"`
	// Blocks says where the elements of an array of all ranks are in arrays of Count elements.
	Blocks *blocksSpec `yaml:"blocks"`
	// Measured has the bytes of a rank by numbers of ranks, where no formula is known. Beside
	// Global, which was then found from sizes alone, they say how far it is to be doubted.
	Measured map[int]int64 `yaml:"measured"`
	// Whole is the bytes of the array that ranks share, beside which each holds copies; 0: not known.
	Whole int64 `yaml:"whole"`
	// Kind names the kinds of ranks that hold the array; empty: all.
	Kind perAxis[string] `yaml:"kind"`
}

type elem struct{ zones.Elem }

func (e *elem) UnmarshalYAML(n *yaml.Node) error {
	for e.Elem = zones.Bytes; e.Valid(); e.Elem++ {
		if e.String() == n.Value {
			return nil
		}
	}
	var known []string
	for _, e := range zones.Elems() {
		known = append(known, e.String())
	}
	return fmt.Errorf("line %d: elem %q is unknown (want %s)", n.Line, n.Value, strings.Join(known, ", "))
}

type messageSpec struct {
	To        string      `yaml:"to"`
	Count     *expression `yaml:"count"`
	Bytes     *expression `yaml:"bytes"`
	Each      *expression `yaml:"each"` // nil, as Mean: as count and bytes say
	Mean      *expression `yaml:"mean"`
	AnySource bool        `yaml:"any_source"`
	Peers     *peersSpec  `yaml:"peers"` // nil: not known
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

// A fileSpec is the YAML form of a File; what is not given is 0.
type fileSpec struct {
	Header     *expression `yaml:"header"`
	Writes     *expression `yaml:"writes"`
	Collective *expression `yaml:"collective"`
}

// ParseWorkload reads a spec from YAML text; name is for errors. With
// [Workload.Source] it transfers a workload to another process.
func ParseWorkload(src []byte, name string) (*Workload, error) {
	w, err := parse(src)
	if err != nil {
		hint := "docs/WORKLOADS.md describes the format"
		if brokenField().MatchString(err.Error()) {
			hint = `inside { } quote an expression that contains a comma, as in count: "div(n, p)"`
		}
		return nil, &SpecError{
			Reason: BadSpec, Subject: "spec " + name, Problem: err.Error(), hint: hint, err: err,
		}
	}
	return w, nil
}

// brokenField is YAML's reading of {count: div(n, p)}: "div(n", and a field "p)".
var brokenField = lazy.Regexp(`field [^"]*\).* not found|expression "[^"]*\([^")]*": unexpected end`)

func parse(src []byte) (*Workload, error) {
	if len(src) > maxSource {
		return nil, fmt.Errorf("longer than %d bytes", maxSource)
	}
	w := &Workload{source: slices.Clone(src)}
	decode := wording.DecodeYAML
	if isBuiltIn(src) { // each rank of a job reads it once more
		decode = yaml.Unmarshal
	}
	if err := decode(src, &w.spec); err != nil {
		return nil, err
	}
	w.Name, w.Title, w.Kernel = w.spec.Name, w.spec.Title, w.spec.Kernel
	if err := w.spec.check(); err != nil {
		return nil, err
	}
	for _, m := range w.spec.Derived {
		for name, e := range m {
			w.derived = append(w.derived, named{name, &e})
		}
	}
	return w, nil
}

// The length of names is no part of the expression, which would take long to compile, at
// each start of a process.
const maxName = 64

var identifier = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func isIdentifier(name string) bool { return len(name) <= maxName && identifier().MatchString(name) }

// isPlain reports whether a program may have given a region the name.
func isPlain(name string) bool {
	return name != "" && len(name) <= 255 && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// check checks everything that does not depend on class and process count; expressions are
// evaluated by Instance.
func (s *spec) check() error {
	switch {
	case !isIdentifier(s.Name):
		return fmt.Errorf("name %q: want a letter, then letters, digits, - or _", s.Name)
	case !slices.Contains(kernels, s.Kernel):
		return fmt.Errorf("kernel %q is unknown (want %s)", s.Kernel, strings.Join(kernels, ", "))
	case !s.Procs.valid():
		return fmt.Errorf("procs %q is unknown (want square, power-of-two or any)", s.Procs)
	case len(s.Classes) == 0:
		return errors.New("no classes: give at least one, with iterations and params")
	case max(len(s.Classes), len(s.Derived), len(s.Arrays), len(s.Messages)) > maxItems:
		return fmt.Errorf("more than %d entries in a list", maxItems)
	case len(s.Arrays) == 0:
		return errors.New("no arrays: an application without data has nothing to checkpoint")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Classes)) {
		c := s.Classes[name]
		if !isIdentifier("_" + name) {
			return fmt.Errorf("class %q: want letters, digits, - or _", name)
		}
		if c.Iterations < 1 {
			return fmt.Errorf("class %s: iterations must be at least 1", name)
		}
		for _, p := range slices.Sorted(maps.Keys(c.Params)) {
			if err := checkParam(p); err != nil {
				return fmt.Errorf("class %s: %w", name, err)
			}
		}
	}
	for i, m := range s.Derived {
		if len(m) != 1 {
			return fmt.Errorf("derived[%d]: want one `name: expression`, got %d", i, len(m))
		}
		for name := range m {
			if err := checkParam(name); err != nil {
				return fmt.Errorf("derived[%d]: %w", i, err)
			}
		}
	}
	if err := checkKinds(s.Kinds); err != nil {
		return err
	}
	program := s.Kernel == kernelProgram
	seen := map[string]bool{"runtime": !program} // the region that coordinator/app adds
	for i := range s.Arrays {
		a := &s.Arrays[i]
		if !isIdentifier(a.Name) && !(program && isPlain(a.Name)) {
			return fmt.Errorf("arrays[%d]: name %q: want a letter, then letters, digits, - or _", i, a.Name)
		}
		if seen[a.Name] {
			return fmt.Errorf("array %s: the name is taken", a.Name)
		}
		seen[a.Name] = true
		if err := a.check(s.Kinds); err != nil {
			return fmt.Errorf("array %s: %w", a.Name, err)
		}
	}
	for i := range s.Messages {
		m := &s.Messages[i]
		m.To = oneLine(m.To)
		if m.Count == nil || m.Bytes == nil {
			return fmt.Errorf("messages[%d]: count or bytes is missing", i)
		}
		if err := m.Peers.check(); err != nil {
			return fmt.Errorf("messages[%d]: peers: %w", i, err)
		}
	}
	return nil
}

func (a *arraySpec) check(kinds []kindSpec) error {
	given := 0
	for _, is := range []bool{a.Count != nil, a.Global != nil, a.Measured != nil} {
		if is {
			given++
		}
	}
	switch {
	case !a.Elem.Valid():
		return errors.New("elem is missing")
	case given == 0:
		return errors.New("count is missing")
	case a.Blocks != nil && (a.Count == nil || len(a.Kind) > 0 || a.Replicated):
		return errors.New("blocks: all ranks have count elements, and hold different blocks")
	case len(a.Kind) > 0 && a.Global != nil:
		return errors.New("kind: an array of all ranks belongs to all of them")
	case unknownKind(a.Kind, kinds) != "":
		return fmt.Errorf("kind %q is not among the kinds of ranks", unknownKind(a.Kind, kinds))
	case a.Whole != 0 && (a.Measured == nil || a.Whole < 0 || len(a.Kind) > 0):
		return errors.New("whole: bytes that all ranks share, beside measured sizes of all of them")
	case a.Measured != nil && a.Count != nil:
		return errors.New("measured: sizes that were measured take the place of count; leave that out")
	case a.Measured != nil && a.Global == nil:
		return checkMeasured(a.Measured, int64(a.Elem.Size()))
	case a.Blocks != nil && a.Global == nil:
		if err := a.Blocks.check(); err != nil {
			return fmt.Errorf("blocks: %w", err)
		}
		return nil
	case a.Global == nil:
		return nil
	case a.Count != nil:
		return errors.New("count: the shape of a global array says how many elements a rank has; leave count out")
	}
	if err := a.Global.check(); err != nil {
		return fmt.Errorf("global: %w", err)
	}
	if a.Measured != nil {
		return checkMeasured(a.Measured, int64(a.Elem.Size()))
	}
	return nil
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
