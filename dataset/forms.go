package dataset

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// plainText returns the text of a table without a byte-order mark, and with line feeds
// at the ends of lines. Spreadsheets write the mark, and old ones a carriage return
// alone.
func (t *Table) plainText(text []byte) (string, error) {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return "", t.bad(1, "", "is in UTF-16", "save it as CSV in UTF-8")
	}
	s := string(bytes.TrimPrefix(text, []byte("\ufeff")))
	if !strings.Contains(s, "\n") {
		s = strings.ReplaceAll(s, "\r", "\n")
	}
	return s, nil
}

// delimiter returns the character between the cells of a table: the one of comma,
// semicolon and tab that is most frequent in the header.
func delimiter(text string) rune {
	header := ""
	for line := range strings.Lines(text) {
		if header = strings.TrimSpace(line); header != "" && header[0] != '#' {
			break
		}
	}
	best, most := ',', strings.Count(header, ",")
	for _, c := range ";\t" {
		if n := strings.Count(header, string(c)); n > most {
			best, most = c, n
		}
	}
	return best
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
	withComma = regexp.MustCompile(`^[-+]?[0-9]*,[0-9]+$`)
	withPoint = regexp.MustCompile(`^[-+]?[0-9]*\.[0-9]+$`)
	// thousands matches 1,040, which is either 1040 or 1.04.
	thousands = regexp.MustCompile(`^[-+]?[1-9][0-9]{0,2},[0-9]{3}$`)
)

// findDecimals looks for the decimal mark in the columns that have a unit.
func (t *Table) findDecimals() {
	point, comma := false, false
	for _, row := range t.Rows {
		for i, s := range row {
			if t.Columns[i].Unit == "" {
				continue
			}
			point = point || withPoint.MatchString(s)
			comma = comma || withComma.MatchString(s) && !thousands.MatchString(s)
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
	if !withComma.MatchString(s) {
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
