package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A part is the first ranks of a job: so many, or of each Of ranks so many. The zero part is all.
type part struct{ ranks, of int }

// on is how many ranks of np are in the part.
func (p part) on(np int) int {
	if p.of > 0 {
		return p.ranks * np / p.of
	}
	return p.ranks
}

func (p part) String() string {
	switch {
	case p.of > 0 && p.ranks == 1:
		return fmt.Sprintf("div(p, %d)", p.of)
	case p.of > 0:
		return fmt.Sprintf("div(%d*p, %d)", p.ranks, p.of)
	}
	return fmt.Sprint(p.ranks)
}

// words names the ranks.
func (p part) words() string {
	switch {
	case p.of > 0:
		return fmt.Sprintf("the first %d of %d of the ranks", p.ranks, p.of)
	case p.ranks == 1:
		return "rank 0"
	}
	return fmt.Sprintf("the first %d ranks", p.ranks)
}

// held are the bytes of the ranks that have some.
func (s *SeenArray) held() (list []int64) {
	for _, n := range s.Bytes {
		if n > 0 {
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		return s.Bytes
	}
	return list
}

// holders finds which ranks have the array, if these are the first ones in all runs and not all:
// as many, or the same share of them.
func (a *arrayOf) holders() (p part, ok bool) {
	as, share := true, true
	first, np := 0, a.nps[0]
	for i := range a.seen {
		s := &a.seen[i]
		n := len(s.held())
		if n == 0 || n == len(s.Bytes) && len(a.seen) == 1 || !slices.ContainsFunc(s.Bytes, func(b int64) bool { return b > 0 }) ||
			slices.Contains(s.Bytes[:n], 0) {
			return part{}, false
		}
		if i == 0 {
			first = n
		}
		as = as && n == first
		share = share && n*np == first*a.nps[i]
	}
	g := gcd(first, np)
	switch {
	case share && first == np:
		return part{}, false
	case as && (len(a.seen) > 1 || first == 1):
		return part{ranks: first}, true
	case share:
		return part{first / g, np / g}, true
	}
	return part{}, false
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// kindsOf divides the ranks into kinds by the arrays that only the first ranks have, and returns
// the text of the spec about them; empty if all ranks have all arrays.
func kindsOf(arrays []arrayOf) string {
	var parts []part
	np := 0
	for i := range arrays {
		a := &arrays[i]
		if a.cuts != nil {
			continue
		}
		if p, ok := a.holders(); ok {
			a.part, np = p, a.nps[0]
			if !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
	}
	if parts == nil {
		return ""
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.on(np), b.on(np)) })
	parts = nested(parts, arrays)
	text := "kinds:\n"
	before := ""
	for i, p := range parts {
		text += fmt.Sprintf("  - {name: first%d, ranks: \"%s\"}\n", i+1, p.beyond(before))
		before = p.String()
		for k := range arrays {
			if a := &arrays[k]; slices.Index(parts, a.part) >= i {
				a.kinds = append(a.kinds, fmt.Sprintf("first%d", i+1))
			}
		}
	}
	return text + "  - {name: others}\n"
}

// nested leaves out parts that hold one before them in some runs and lie in it in others: the
// kinds of a spec are ranks that follow each other, whatever their number.
func nested(parts []part, arrays []arrayOf) (kept []part) {
	for _, p := range parts {
		inside := slices.ContainsFunc(kept, func(q part) bool {
			return slices.ContainsFunc(arrays, func(a arrayOf) bool {
				return slices.ContainsFunc(a.nps, func(np int) bool { return p.on(np) < q.on(np) })
			})
		})
		if !inside {
			kept = append(kept, p)
		}
	}
	return kept
}

// beyond is how many ranks of a part are not in the one before it.
func (p part) beyond(before string) string {
	if before == "" {
		return p.String()
	}
	return fmt.Sprintf("max(0, %s - %s)", p, before)
}

// kindText is the field of an array that not all ranks have.
func (a *arrayOf) kindText() string {
	if a.kinds == nil {
		return ""
	}
	a.found.Rule += "held by " + a.part.words() + "; "
	return fmt.Sprintf("    kind: [%s]\n", strings.Join(a.kinds, ", "))
}
