package wording

import (
	"errors"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	type doc struct {
		Name string         `yaml:"name"`
		Max  map[string]int `yaml:"max"`
		List []*int         `yaml:"list"`
	}
	many := func(line string) string { return strings.Repeat(line, 20000) }
	for _, c := range []struct{ text, want string }{
		{"name: a\nmax: {b: 1, c: 2}", ""},
		{"x: &x {b: 1}\nname: *x", "line 1: field x not found; and 1 more"},
		{"name: a\nname: b", `line 2: mapping key "name" already defined at line 1`},
		{"max:\n" + many("  b: 1\n"), `line 3: mapping key "b" already defined at line 2`},
		{"max: {" + many("b: 1,") + "}", `line 1: mapping key "b" already defined at line 1`},
		{"max:\n- {" + many("b: 1,") + "}", `line 2: mapping key "b" already defined at line 2`},
		{"max: {" + many("? [] : 1,") + "}", `line 1: mapping key "" already defined at line 1`},
		{"max: [" + many("[],") + "]", "line 1: cannot unmarshal !!seq"},
		{"name: [\n", "line 1: did not find expected node content"},
		{many("["), "exceeded max depth of 10000"},
		{"name: a\n---\nname: b", "text follows the first YAML document"},
		{"name: a\nmax: {b: max(k, p)}", "line 2: cannot unmarshal !!str"},
		{"name:\nmax: {b: 1}", `line 1: a value of key "name" is missing`},
		{"name: a\nmax: {b: ~}", `a value of key "b" is missing`},
		{"list:\n- 1\n-\n- 2\n", "line 3: a value of a list is missing"},
		{many("name: " + strings.Repeat("x", 60) + "\n"), "longer than"},
		{strings.Repeat("y", 900) + ": 1", "line 1: field yyy"},
	} {
		var d doc
		err := DecodeYAML([]byte(c.text), &d)
		if c.want == "" {
			if err != nil || d.Name != "a" || d.Max["c"] != 2 {
				t.Errorf("%q: %+v, %v", c.text, d, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %.500v; want %s", c.text, err, c.want)
		}
	}
	if err := DecodeYAML([]byte("# nothing\n"), new(doc)); !errors.Is(err, ErrEmpty) {
		t.Errorf("empty: %v", err)
	}
}

// FuzzDecode: any text gives a value or a short line.
func FuzzDecode(f *testing.F) {
	f.Add("name: a\nmax: {b: 1}")
	f.Add("<<: {a: 1}\na: 2")
	f.Add("a: &a [*a]")
	f.Fuzz(func(t *testing.T, text string) {
		var v map[string]any
		if err := DecodeYAML([]byte(text), &v); err != nil && len(err.Error()) > 2000 {
			t.Errorf("%d bytes of error", len(err.Error()))
		}
	})
}
