package dataset

import (
	"cmp"
	"fmt"
)

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
