package analyze

import (
	"regexp"
	"strconv"
	"strings"
)

// Numbers in file names, including hashes: eight or more hexadecimal digits.
var numbers = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)

// numeric reports whether a match of numbers is a number: a word like "defaced" is
// not.
func numeric(s string) bool { return strings.ContainsAny(s, "0123456789") }

// hole stands for a number in a skeleton. Paths do not contain this byte.
const hole = "\x00"

// skeletonOf returns a name without its numbers.
func skeletonOf(name string) string {
	return numbers.ReplaceAllStringFunc(strings.ReplaceAll(name, hole, ""), func(s string) string {
		if numeric(s) {
			return hole
		}
		return s
	})
}

// A namePart is a number in the names of a class of files.
type namePart struct {
	value  string
	varies bool // differs between the files
	rank   bool // is the number of the rank in all files
}

// name records the numbers in the name of a file that a rank uses.
func (c *nameClass) name(name string, file, rank int) {
	i := 0
	for _, s := range numbers.FindAllString(strings.ReplaceAll(name, hole, ""), -1) {
		if !numeric(s) {
			continue
		}
		n, err := strconv.Atoi(s)
		is := err == nil && n == rank
		if c.files == 0 {
			c.parts = append(c.parts, namePart{value: s, rank: is})
		} else {
			c.parts[i].varies = c.parts[i].varies || c.parts[i].value != s
			c.parts[i].rank = c.parts[i].rank && is
		}
		i++
	}
	if file != c.last {
		c.files++
		c.last = file
	}
}

// template returns the name for all files of the class.
func (c *nameClass) template(skeleton string) string {
	var b strings.Builder
	for i, text := range strings.Split(skeleton, hole) {
		if i > 0 {
			switch p := c.parts[i-1]; {
			case !p.varies:
				b.WriteString(p.value)
			case p.rank:
				b.WriteString("{rank}")
			default:
				b.WriteByte('#')
			}
		}
		b.WriteString(text)
	}
	return b.String()
}
