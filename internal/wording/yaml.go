package wording

import (
	"bytes"
	"ckpt/internal/lazy"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxBytes bounds a file.
const MaxBytes = 1 << 20

// maxText bounds an error.
const maxText = 300

// ErrEmpty says that there is no document.
var ErrEmpty = errors.New("the file is empty")

// DecodeYAML reads a YAML file of a user into a value: one document, no key unknown or
// repeated, none without a value. An error is one short line, whatever the file holds.
func DecodeYAML(src []byte, into any) error {
	if len(src) > MaxBytes {
		return fmt.Errorf("longer than %d bytes", MaxBytes)
	}
	// The YAML package reports each pair of equal keys, so that they are looked for first.
	var tree yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(src))
	err := d.Decode(&tree)
	if errors.Is(err, io.EOF) {
		return ErrEmpty
	}
	if err == nil {
		err = repeated(&tree)
	}
	if err != nil {
		return short(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("text follows the first YAML document")
	}
	d = yaml.NewDecoder(bytes.NewReader(src))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return short(err)
	}
	return missing(&tree)
}

// repeated reports a key that a mapping has twice.
func repeated(n *yaml.Node) error {
	type key struct {
		kind yaml.Kind
		text string // empty for a list or a mapping
	}
	lines := make(map[key]int)
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			k := key{child.Kind, child.Value}
			if first := lines[k]; first > 0 {
				return fmt.Errorf("line %d: mapping key %q already defined at line %d", child.Line, cut(child.Value, 100), first)
			}
			lines[k] = child.Line
		}
		if err := repeated(child); err != nil {
			return err
		}
	}
	return nil
}

// missing reports a value that is left out: the YAML package reads it as 0, or as nil in a
// list. A formula such as {count: max(k, p)} has one, too, but a better error before.
func missing(n *yaml.Node) error {
	for i, child := range n.Content {
		if n.Kind != yaml.DocumentNode && child.ShortTag() == "!!null" {
			of := "a list"
			if n.Kind == yaml.MappingNode {
				of = fmt.Sprintf("key %q", cut(n.Content[i-i%2].Value, 100))
			}
			return fmt.Errorf("line %d: a value of %s is missing; give it, or leave it out", child.Line, of)
		}
		if err := missing(child); err != nil {
			return err
		}
	}
	return nil
}

// inType is how the YAML package names our Go types in its errors.
var inType = lazy.Regexp(` (in type|into) [\w.\[\]]+`)

// short returns the first of the errors of the YAML package, in our words.
func short(err error) error {
	text, more := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		text, more = te.Errors[0], len(te.Errors)-1
	}
	text = cut(inType().ReplaceAllString(strings.Join(strings.Fields(text), " "), ""), maxText)
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return errors.New(text)
}

// cut bounds a text to so many characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
