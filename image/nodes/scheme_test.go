package nodes

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"none": "none", "partner": "partner", "partner:1": "partner", "partner:3": "partner:3", "xor:4": "xor:4", "rs:4+2": "rs:4+2", "rs:1+1": "rs:1+1",
	} {
		s, err := Parse(text)
		if err != nil || s.String() != want {
			t.Errorf("Parse(%q) = %s, %v, want %s", text, s, err, want)
		}
		var back struct{ S Scheme }
		b, err := json.Marshal(struct{ S Scheme }{s})
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil || back.S != s {
			t.Errorf("%s became %v through JSON: %v", text, back.S, err)
		}
	}
	for _, text := range []string{"", "raid", "none:1", "partner:", "partner:0", "partner:-1", "partner:1000", "partner:01", "xor", "xor:1", "xor:200",
		"rs", "rs:4", "rs:4+", "rs:0+2", "rs:4+0", "rs:+4+2", "rs:100+100", "RS:4+2"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %s", text, s)
		}
	}
	if s := (Scheme{}); s.String() != "none" || s.Kind() != None || s.Check(1) != nil || s.Sets(Topology{NodeOf: []int{0, 1}}) != nil {
		t.Error("the zero Scheme is not none")
	}
}

func parse(t testing.TB, text string) Scheme {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		scheme          string
		needs, strength int
	}{{"none", 1, 0}, {"partner", 2, 1}, {"partner:2", 3, 2}, {"xor:4", 4, 1}, {"rs:4+2", 6, 2}} {
		s := parse(t, c.scheme)
		if s.Nodes() != c.needs || s.Strength() != c.strength || s.Check(c.needs) != nil || s.Check(c.needs-1) == nil {
			t.Errorf("%s needs %d nodes and bears the loss of %d, want %d and %d", s, s.Nodes(), s.Strength(), c.needs, c.strength)
		}
	}
}

// TestFits names the domain that is too large, or the domains that are too few.
func TestFits(t *testing.T) {
	four := []int{0, 1, 2, 3}
	for _, c := range []struct {
		scheme  string
		nodeOf  []int
		domains []int
		want    string // in the error
	}{
		{"partner", four, nil, ""},
		{"partner", four, []int{0, 0, 1, 1}, ""},
		{"partner", four, []int{7, 7, 7, 7}, "domain 7 has 4 of 4 nodes"},
		{"partner:2", four, []int{0, 0, 0, 1}, "needs 2 nodes outside each failure domain: domain 0 has 3 of 4"},
		{"partner", []int{0, 0, 0}, nil, "needs 2 nodes, the job has 1"},
		{"xor:4", four, []int{0, 0, 1, 1}, "a group of 4 nodes has 2 of domain 0"},
		{"xor:2", four, []int{0, 0, 1, 1}, ""},
		{"rs:2+2", four, []int{0, 0, 1, 1}, ""},
		{"rs:2+2", four, []int{0, 0, 0, 1}, "a group of 4 nodes has 3 of domain 0"},
		{"none", four, []int{0, 0, 0, 0}, ""},
		{"partner", four, []int{0, 1}, "failure domains are given for 2 nodes"},
	} {
		err := parse(t, c.scheme).Fits(Topology{NodeOf: c.nodeOf, Domains: c.domains})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %v in %v: %v, want %q", c.scheme, c.nodeOf, c.domains, err, c.want)
		}
	}
}
