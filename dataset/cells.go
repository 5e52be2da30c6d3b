package dataset

import (
	"ckpt/internal/lazy"
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A cell says where a value of a row is, and where it goes.
type cell struct {
	columns []string // names of its column, the best first; without any of them nothing is read
	// to is a *string, an *int for a count from 1, a *float64 for the number, or a size. An
	// empty cell leaves it as it is.
	to any
}

// A size is the place of a size in MiB, whatever the unit of the column.
type size struct{ to *float64 }

func (t *Table) read(row int, cells ...cell) error {
	for _, c := range cells {
		column := t.first(c.columns)
		s := t.Text(row, column)
		if s == "" {
			continue
		}
		if to, ok := c.to.(*string); ok {
			*to = s
			continue
		}
		v, err := t.Number(row, column)
		if err != nil {
			return err
		}
		bad := func(problem, hint string) error { return t.bad(t.lines[row], column, s+problem, hint) }
		switch to := c.to.(type) {
		case *float64:
			*to = v
		case *int:
			if v < 1 || v > maxProcs || v != math.Trunc(v) {
				return bad(fmt.Sprintf(" is not a count from 1 to %d", maxProcs), "write a positive whole number")
			}
			*to = int(v)
		case size:
			*to.to = v * mibPerUnit[unitOf(column)]
			if v <= 0 {
				return bad(" is not a positive size", "sizes are positive; leave the cell empty where nothing was measured")
			}
			if *to.to > 1<<30 {
				return bad(" exceeds a PiB", "check the unit in the column's name")
			}
		}
	}
	return nil
}

var mibPerUnit = map[string]float64{"MiB": 1, "KiB": 1. / 1024, "GiB": 1024, "B": 1. / (1 << 20)}

// first returns the first column that the table has, or "".
func (t *Table) first(names []string) string {
	for _, n := range names {
		if t.column(n) >= 0 {
			return n
		}
	}
	return ""
}

// sizeColumn finds the column of a zone, in any unit.
func (t *Table) sizeColumn(names []string) (string, error) {
	found := ""
	for _, n := range names {
		if t.column(n) >= 0 {
			return "", t.bad(1, n, "has no unit", "name it "+n+"_MiB (or _B, _KiB, _GiB)")
		}
		for _, unit := range []string{"MiB", "KiB", "GiB", "B"} {
			if c := n + "_" + unit; t.column(c) >= 0 {
				if found != "" {
					return "", t.bad(1, c, "gives the same size as "+found+"; units are mixed", "keep one of the two columns")
				}
				found = c
			}
		}
	}
	return found, nil
}

// Text returns a cell as written, "" if there is no such column. Rows count from 0.
func (t *Table) Text(row int, column string) string {
	if i := t.column(column); i >= 0 && row >= 0 && row < len(t.Rows) {
		return t.Rows[row][i]
	}
	return ""
}

// Number returns a cell as a number in the unit of its column. An empty cell
// is NaN without an error; a cell that is no finite number is an error.
func (t *Table) Number(row int, column string) (float64, error) {
	s := t.Text(row, column)
	if s == "" {
		return math.NaN(), nil
	}
	s, err := t.withDecimalPoint(s, t.lines[row], column)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil && hasUnit(s):
		return 0, t.bad(t.lines[row], column, fmt.Sprintf("%q carries a unit of its own", s), "write the number only, in the unit of the column's name; units are not mixed within a column")
	case err != nil:
		return 0, t.bad(t.lines[row], column, fmt.Sprintf("%q is not a number", s), "write a decimal number like 109.94, or leave the cell empty")
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, t.bad(t.lines[row], column, s+" is not a measurement", "leave the cell empty where nothing was measured")
	}
	return v, nil
}

func hasUnit(s string) bool {
	for _, u := range []string{"B", "K", "M", "G", "T", "s", "m", "h"} {
		if rest, ok := strings.CutSuffix(s, u); ok {
			rest = strings.TrimRight(rest, " KMGTi")
			if _, err := strconv.ParseFloat(rest, 64); err == nil {
				return true
			}
		}
	}
	return false
}

// A decimalMark is the character before the decimals of a table's numbers.
type decimalMark uint8

const (
	noDecimals   decimalMark = iota // no number shows it
	decimalPoint                    // 1040.5
	decimalComma                    // 1040,5
	bothDecimals
)

var (
	withComma = lazy.Regexp(`^[-+]?[0-9]*,[0-9]+$`)
	withPoint = lazy.Regexp(`^[-+]?[0-9]*\.[0-9]+$`)
	// thousands matches 1,040, which is either 1040 or 1.04.
	thousands = lazy.Regexp(`^[-+]?[1-9][0-9]{0,2},[0-9]{3}$`)
	// dotted matches 1.040, which is either 1.04 or 1040 in a table that commas do not
	// separate: it was written where commas are decimal marks.
	dotted = lazy.Regexp(`^[-+]?[1-9][0-9]{0,2}\.[0-9]{3}$`)
)

// A thousandsMark stands between thousands, where no other reading is left: 1.112.640 or
// 16.384,5, and the same with the marks exchanged.
type thousandsMark struct {
	mark, decimal string
	certain       func() *regexp.Regexp // a number that shows it
	number        func() *regexp.Regexp // any number in a table that has it
}

var thousandsMarks = []thousandsMark{
	{".", ",", lazy.Regexp(`^[-+]?[1-9][0-9]{0,2}(\.[0-9]{3}){2,}(,[0-9]+)?$|^[-+]?[1-9][0-9]{0,2}\.[0-9]{3},[0-9]+$`),
		lazy.Regexp(`^[-+]?([1-9][0-9]{0,2}(\.[0-9]{3})+|[0-9]+)(,[0-9]+)?$`)},
	{",", ".", lazy.Regexp(`^[-+]?[1-9][0-9]{0,2}(,[0-9]{3}){2,}(\.[0-9]+)?$|^[-+]?[1-9][0-9]{0,2},[0-9]{3}\.[0-9]+$`),
		lazy.Regexp(`^[-+]?([1-9][0-9]{0,2}(,[0-9]{3})+|[0-9]+)(\.[0-9]+)?$`)},
}

// findThousands finds the mark between thousands, if one number leaves no other reading and
// all fit it.
func (t *Table) findThousands() *thousandsMark {
	for i := range thousandsMarks {
		m, certain, all := &thousandsMarks[i], false, true
		for _, row := range t.Rows {
			for k, s := range row {
				if s == "" || t.Columns[k].Unit == "" {
					continue
				}
				certain = certain || m.certain().MatchString(s)
				all = all && m.number().MatchString(s)
			}
		}
		if certain && all {
			return m
		}
	}
	return nil
}

// dotted tells whether a cell of the table may have a point between thousands.
func (t *Table) dotted(s string) bool { return t.separator != ',' && dotted().MatchString(s) }

func (t *Table) findDecimals() {
	if t.thousands = t.findThousands(); t.thousands != nil {
		return
	}
	point, comma := false, false
	for _, row := range t.Rows {
		for i, s := range row {
			if t.Columns[i].Unit == "" {
				continue
			}
			point = point || withPoint().MatchString(s) && !t.dotted(s)
			comma = comma || withComma().MatchString(s) && !thousands().MatchString(s)
		}
	}
	switch {
	case point && comma:
		t.decimals = bothDecimals
	case point:
		t.decimals = decimalPoint
	case comma:
		t.decimals = decimalComma
	}
}

// withDecimalPoint returns a number as Go writes it. A comma is the decimal mark only if
// the table leaves no other reading.
func (t *Table) withDecimalPoint(s string, line int, column string) (string, error) {
	if m := t.thousands; m != nil && m.number().MatchString(s) {
		return strings.Replace(strings.ReplaceAll(s, m.mark, ""), m.decimal, ".", 1), nil
	}
	if t.dotted(s) && t.decimals != decimalPoint {
		whole := strings.Replace(s, ".", "", 1)
		return "", t.bad(line, column, fmt.Sprintf("%q is %s or %s", s, whole, s),
			"write "+whole+" without a point, or the decimals as "+s+"0")
	}
	if !withComma().MatchString(s) {
		return s, nil
	}
	switch t.decimals {
	case decimalComma:
		return strings.Replace(s, ",", ".", 1), nil
	case noDecimals:
		whole := strings.Replace(s, ",", "", 1)
		return "", t.bad(line, column, fmt.Sprintf("%q is %s or %s", s, whole, strings.Replace(s, ",", ".", 1)),
			"write "+whole+" without a comma, or decimals with a point")
	}
	return "", t.bad(line, column, fmt.Sprintf("%q has a decimal comma, other cells have a point", s), "use one of the two in the whole table")
}

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
