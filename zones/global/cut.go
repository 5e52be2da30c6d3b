package global

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A Side is a rule for the number of ranks along one axis of a grid.
type Side struct {
	// Of is empty for one rank, "p" for all of them, and otherwise "dims" or "openmpidims":
	// side Index, the longest is 0, of the grid that MPI_Dims_create gives Axes axes.
	Of          string
	Axes, Index int
}

// The grids of MPI_Dims_create in two libraries.
const (
	sideDims    = "dims"
	sideOpenMPI = "openmpidims"
)

// On returns the number of ranks along the axis.
func (s Side) On(np int) int {
	switch s.Of {
	case "p":
		return np
	case sideDims:
		return Dims(np, s.Axes)[s.Index]
	case sideOpenMPI:
		return OpenMPIDims(np, s.Axes)[s.Index]
	}
	return 1
}

// String is an expression of the number of ranks p, as workload specs have it.
func (s Side) String() string {
	switch s.Of {
	case "":
		return "1"
	case "p":
		return "p"
	}
	return fmt.Sprintf("%s(p, %d, %d)", s.Of, s.Axes, s.Index)
}

// A Cut says which rank has which cells of an array, for any number of ranks.
type Cut struct {
	Shape []int64 // cells along each axis; with Each, of each rank along it
	Each  []bool  // the axis grows with the ranks along it
	Elem  int64
	Halo  []int64
	// Margins are as in Array.
	Margins []Margin
	Dims    []Dim
	Sides   []Side
	Order   []int // as in Array
}

// Array describes the array on np ranks.
func (c *Cut) Array(np int) *Array {
	a := &Array{Shape: slices.Clone(c.Shape), Elem: c.Elem, Dims: c.Dims, Halo: c.Halo, Margins: c.Margins, Order: c.Order, Empty: true}
	for i, s := range c.Sides {
		side := s.On(np)
		a.Grid = append(a.Grid, side)
		if c.Each[i] {
			a.Shape[i] *= int64(side)
		}
	}
	return a
}

// cutAxes are the axes along which more than one rank can be.
func (c *Cut) cutAxes() (list []int) {
	for i, s := range c.Sides {
		if s.Of != "" {
			list = append(list, i)
		}
	}
	return list
}

// Words describes the cut for a reader.
func (c *Cut) Words() string {
	axes := c.cutAxes()
	text := ""
	switch first := c.Sides[axes[0]]; {
	case first.Of == "p":
		text = fmt.Sprintf("cut along axis %d", axes[0])
	default:
		var sides []string
		for _, i := range axes {
			sides = append(sides, fmt.Sprint(c.Sides[i].Index+1))
		}
		text = fmt.Sprintf("cut along axes %s, on the grid of MPI_Dims_create in %d axes", spaced(axes), len(axes))
		if !slices.IsSorted(sides) {
			text += " with its sides in the order " + strings.Join(sides, ", ")
		}
	}
	if c.Order != nil {
		text += ", ranks run fastest along axis " + fmt.Sprint(c.Order[len(c.Order)-1])
	}
	var how []string
	for _, i := range axes {
		words := c.Dims[i].words()
		if c.Each[i] {
			words = fmt.Sprintf("each rank has %d cells along axis %d", c.Shape[i], i)
		}
		if !slices.Contains(how, words) {
			how = append(how, words)
		}
	}
	return text + "; " + strings.Join(append(how, c.marginWords()...), ", ")
}

// marginWords say what memory has beside cells and halos.
func (c *Cut) marginWords() (words []string) {
	if slices.ContainsFunc(c.Margins, func(m Margin) bool { return m.Clipped }) {
		words = append(words, "halos end at the edges of the array")
	}
	if slices.ContainsFunc(c.Margins, func(m Margin) bool { return m.Equal }) {
		words = append(words, "each rank has room for as many cells as the largest part has")
	}
	return words
}

func spaced(axes []int) string { return strings.Trim(fmt.Sprint(axes), "[]") }

func (d Dim) words() string {
	switch d.Kind {
	case Cyclic:
		return "single cells are dealt out in turn"
	case BlockCyclic:
		return fmt.Sprintf("blocks of %d cells are dealt out in turn", d.Block)
	}
	return "where blocks are uneven, " + d.Rest.Words()
}

// Tells returns the smallest number of ranks, up to most, on which the parts of every other cut
// differ from this one's; 0 if there is none.
func (c *Cut) Tells(others []Cut, most int) int {
	for np := 2; np <= most; np++ {
		mine, err := c.Array(np).On(np)
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(others, func(o Cut) bool {
			l, err := o.Array(np).On(np)
			return err == nil && sameParts(mine, l)
		}) {
			return np
		}
	}
	return 0
}

func sameParts(a, b *Layout) bool {
	for rank := range a.np {
		if !a.Part(rank).Equal(b.Part(rank)) {
			return false
		}
	}
	return true
}

// Dims returns the sides of the grid of np ranks that MPI_Dims_create of MPICH chooses, the
// longest first: those of the smallest sum; of these, those of which the longest and the shortest
// differ least; of these, those with the shortest first side. Tried against MPICH 4.0.2 for up
// to 8,192 ranks on two to four axes.
func Dims(np, axes int) []int {
	var best []int
	spread := func(sides []int) []int { return []int{sum(sides), sides[0] - sides[len(sides)-1]} }
	grids(np, axes, np, func(sides []int) {
		if best == nil || slices.Compare(spread(sides), spread(best)) <= 0 {
			best = slices.Clone(sides)
		}
	})
	return best
}

// grids calls f with each grid of np ranks whose sides do not grow, none above most.
func grids(np, axes, most int, f func(sides []int)) {
	sides := make([]int, 0, axes)
	var choose func(np, most int)
	choose = func(np, most int) {
		if len(sides) == axes-1 {
			if np <= most {
				f(append(sides, np))
			}
			return
		}
		for side := 1; side <= min(np, most); side++ {
			if np%side == 0 {
				sides = append(sides, side)
				choose(np/side, side)
				sides = sides[:len(sides)-1]
			}
		}
	}
	choose(np, most)
}

func sum(list []int) (total int) {
	for _, n := range list {
		total += n
	}
	return total
}

// OpenMPIDims is Dims as Open MPI has it: the prime factors, the largest first, each go to the
// side that is the shortest so far.
func OpenMPIDims(np, axes int) []int {
	var primes []int
	for q := 2; np > 1; q++ {
		if q*q > np {
			q = np
		}
		for ; np%q == 0; np /= q {
			primes = append(primes, q)
		}
	}
	sides := slices.Repeat([]int{1}, axes)
	for _, q := range slices.Backward(primes) {
		shortest := slices.Index(sides, slices.Min(sides))
		sides[shortest] *= q
	}
	slices.SortFunc(sides, func(a, b int) int { return b - a })
	return sides
}

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
