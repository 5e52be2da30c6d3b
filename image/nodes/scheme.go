package nodes

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is how a Scheme protects files.
type Kind string

// The kinds of schemes.
const (
	None    Kind = "none"
	Partner Kind = "partner" // whole copies
	XOR     Kind = "xor"     // one parity
	RS      Kind = "rs"      // Reed-Solomon
)

// A Scheme says what protects the files of a node. The zero value is no protection.
// It is comparable, and a string in JSON.
type Scheme struct {
	kind         Kind
	copies       int // of Partner
	data, parity int // of XOR and RS: members of a set whose units are data, and parity
}

// maxGroup is how many nodes a scheme may ask for. Sets become up to twice as large,
// and the code ends at 256.
const maxGroup = 128

// maxCopies is how many copies a scheme may ask for.
const maxCopies = 64

// Parse reads "none", "partner", "partner:K", "xor:N" or "rs:K+M".
func Parse(text string) (Scheme, error) {
	kind, arg, has := strings.Cut(text, ":")
	s := Scheme{kind: Kind(kind)}
	var ok bool
	switch s.kind {
	case None:
		s, ok = Scheme{}, !has
	case Partner:
		if s.copies, ok = 1, true; has {
			s.copies, ok = count(arg, 1, maxCopies)
		}
	case XOR:
		var n int
		n, ok = count(arg, 2, maxGroup)
		s.data, s.parity = n-1, 1
	case RS:
		k, m, plus := strings.Cut(arg, "+")
		var okData, okParity bool
		s.data, okData = count(k, 1, maxGroup)
		s.parity, okParity = count(m, 1, maxGroup)
		ok = plus && okData && okParity && s.data+s.parity <= maxGroup
	}
	if !ok {
		return Scheme{}, fmt.Errorf("invalid protection %q (want none, partner, partner:K with K up to %d, xor:N with N from 2, or rs:K+M with K+M up to %d)", text, maxCopies, maxGroup)
	}
	return s, nil
}

func count(text string, least, most int) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= least && n <= most && strconv.Itoa(n) == text
}

// String returns what Parse reads.
func (s Scheme) String() string {
	switch s.Kind() {
	case Partner:
		if s.copies == 1 {
			return string(Partner)
		}
		return fmt.Sprintf("%s:%d", Partner, s.copies)
	case XOR:
		return fmt.Sprintf("%s:%d", XOR, s.data+s.parity)
	case RS:
		return fmt.Sprintf("%s:%d+%d", RS, s.data, s.parity)
	}
	return string(None)
}

// MarshalText implements encoding.TextMarshaler.
func (s Scheme) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Scheme) UnmarshalText(b []byte) (err error) {
	*s, err = Parse(string(b))
	return err
}

// Kind returns how the scheme protects files.
func (s Scheme) Kind() Kind {
	if s.kind == "" {
		return None
	}
	return s.kind
}

// Coded reports whether the scheme keeps parity of sets.
func (s Scheme) Coded() bool { return s.parity > 0 }

// Strength is how many nodes may be lost at a time.
func (s Scheme) Strength() int { return s.copies + s.parity }

// Nodes is how many nodes the scheme needs.
func (s Scheme) Nodes() int {
	if s.Coded() {
		return s.data + s.parity
	}
	return s.copies + 1
}

// Check reports whether so many nodes, each in a failure domain of its own, are
// enough.
func (s Scheme) Check(nodes int) error {
	if nodes < s.Nodes() {
		return fmt.Errorf("protection %s needs %d nodes, the job has %d", s, s.Nodes(), nodes)
	}
	return nil
}
