package global

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A Rest says which places of an axis have more elements than others where their number
// does not divide the axis.
type Rest string

// The rules, for n elements on p places.
const (
	RestFirst     Rest = "first"      // the first n mod p places have one more
	RestLast      Rest = "last"       // the last n mod p places have one more
	RestSpread    Rest = "spread"     // place i begins at i*n/p, rounded down
	RestRounded   Rest = "rounded"    // place i begins at i*n/p, rounded to the nearest
	RestFull      Rest = "full"       // all have n/p rounded up, until nothing is left
	RestLastRank  Rest = "last-rank"  // all have n/p rounded down, the last place the rest too
	RestFirstRank Rest = "first-rank" // all have n/p rounded down, the first place the rest too
)

// A restRule is a rule with the first element of place c of p, and in words.
type restRule struct {
	name  Rest
	start func(n, p, c int64) int64
	words string
}

// restRules are in the order of how usual they are in programs.
var restRules = []restRule{
	{RestFirst, func(n, p, c int64) int64 { return c*(n/p) + min(c, n%p) }, "the first ranks have one more"},
	{RestSpread, func(n, p, c int64) int64 { return share(n, p, c, 0) }, "rank i begins at i*n/p, rounded down"},
	{RestLast, func(n, p, c int64) int64 { return c*(n/p) + max(0, c-p+n%p) }, "the last ranks have one more"},
	{RestLastRank, func(n, p, c int64) int64 { return ifLess(c, p, c*(n/p), n) }, "the last rank has the rest"},
	{RestFull, func(n, p, c int64) int64 { return min(n, c*ceilDiv(n, p)) }, "all have n/p rounded up, until nothing is left"},
	{RestRounded, func(n, p, c int64) int64 { return share(n, p, c, p/2) }, "rank i begins at i*n/p, rounded"},
	{RestFirstRank, func(n, p, c int64) int64 { return ifLess(0, c, c*(n/p)+n%p, 0) }, "the first rank has the rest"},
}

// Rests lists the rules.
func Rests() []Rest {
	var list []Rest
	for _, r := range restRules {
		list = append(list, r.name)
	}
	return list
}

func restNames() string {
	var list []string
	for _, r := range Rests() {
		list = append(list, string(r))
	}
	return strings.Join(list, ", ")
}

func (r Rest) rule() *restRule {
	if r == "" {
		r = RestFirst
	}
	i := slices.IndexFunc(restRules, func(rule restRule) bool { return rule.name == r })
	if i < 0 {
		return nil
	}
	return &restRules[i]
}

// Valid reports whether the rule is known.
func (r Rest) Valid() bool { return r.rule() != nil }

// Words describes the rule for a reader.
func (r Rest) Words() string {
	if rule := r.rule(); rule != nil {
		return rule.words
	}
	return fmt.Sprintf("remainder %q", string(r))
}

func (r Rest) start(n, p, c int64) int64 { return r.rule().start(n, p, c) }

// between returns the counts that places between the first and the last may have as the
// fewest or the most.
func (r Rest) between(n, p int64) []int64 {
	switch r {
	case RestSpread, RestRounded:
		return []int64{n / p, ceilDiv(n, p)}
	case RestFirstRank, RestLastRank:
		if p > 1 {
			return []int64{r.start(n, p, 1) - r.start(n, p, 0), r.start(n, p, p) - r.start(n, p, p-1)}
		}
	}
	return nil
}

// share is (c*n + add) / p without overflow.
func share(n, p, c, add int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(c))
	lo, carry := bits.Add64(lo, uint64(add), 0)
	q, _ := bits.Div64(hi+carry, lo, uint64(p))
	return int64(q)
}

func ifLess(a, b, then, otherwise int64) int64 {
	if a < b {
		return then
	}
	return otherwise
}
