package ui

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"ckpt/zones"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// leastText is the width below which a column of text is not made narrower.
const leastText = 12

// narrow prints a table in a width. As long as it is too wide it breaks the names of
// columns, leaves out optional columns, the last first, and breaks the text of
// others. A table that is too wide even so becomes a list: a block for each row.
func (t *grid) narrow(w io.Writer, width int) error {
	gap := 2
	if t.width(gap) > width {
		gap = 1
		t.breakNames()
	}
	left := t.leaveOut(width, gap)
	if t.width(2) <= width {
		gap = 2
	}
	if t.width(gap) > width {
		t.breakText(width, gap)
	}
	var b bytes.Buffer
	if t.width(gap) > width {
		t.list(&b, width)
	} else if err := t.render(&b, gap); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		io.WriteString(w, strings.TrimRight(line, " \n")+"\n")
	}
	if len(left) > 0 {
		text := fmt.Sprintf("left out here: %s; a wider terminal or --json has them", strings.Join(left, ", "))
		io.WriteString(w, hanging("", text, width))
	}
	return nil
}

// width is how wide lines are, without the gap after the last column.
func (t *grid) width(gap int) (sum int) {
	for c := range t.names {
		sum += t.columnWidth(c) + gap
	}
	return sum - gap
}

// columnWidth is how wide the longest line of a column is.
func (t *grid) columnWidth(c int) (widest int) {
	take := func(cell string) {
		for line := range strings.SplitSeq(cell, "\n") {
			widest = max(widest, twwidth.Width(line))
		}
	}
	take(t.names[c])
	for _, row := range t.rows {
		take(row[c])
	}
	return widest
}

// breakNames breaks the names of columns where their cells are narrower.
func (t *grid) breakNames() {
	for c, name := range t.names {
		widest := 0
		for _, row := range t.rows {
			widest = max(widest, utf8.RuneCountInString(row[c]))
		}
		t.names[c] = broken(name, max(widest, 1), false)
	}
}

// leaveOut removes optional columns until the table fits, and returns their names.
func (t *grid) leaveOut(width, gap int) (left []string) {
	for c := len(t.names) - 1; c >= 0 && t.width(gap) > width; c-- {
		if !t.optional[c] {
			continue
		}
		left = append(left, t.whole[c])
		t.whole, t.names, t.right, t.optional = slices.Delete(t.whole, c, c+1), slices.Delete(t.names, c, c+1), slices.Delete(t.right, c, c+1), slices.Delete(t.optional, c, c+1)
		for i, row := range t.rows {
			t.rows[i] = slices.Delete(slices.Clone(row), c, c+1)
		}
	}
	slices.Reverse(left)
	return left
}

// breakText breaks the cells of the widest columns, one after the other, until the
// table fits: at spaces, and inside of words that are too long.
func (t *grid) breakText(width, gap int) {
	order := make([]int, len(t.names))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return t.columnWidth(b) - t.columnWidth(a) })
	for _, c := range order {
		over := t.width(gap) - width
		is := t.columnWidth(c)
		if over <= 0 || is <= leastText {
			return
		}
		want := max(is-over, leastText)
		t.names[c] = broken(t.whole[c], want, true)
		for _, row := range t.rows {
			row[c] = broken(row[c], want, !t.right[c]) // a number is not cut
		}
	}
}

// broken breaks a text into lines of a width, inside of words too if cut is set.
func broken(text string, width int, cut bool) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for r := []rune(word); cut && len(r) > width; r = []rune(word) {
			at := cutAt(r, width)
			lines = append(lines, string(r[:at]))
			word = string(r[at:])
		}
		line = word
	}
	return strings.Join(append(lines, line), "\n")
}

// cutAt returns where to cut a word: after a sign, as in names of columns and paths,
// if there is one near the end.
func cutAt(word []rune, width int) int {
	for at := width; at > width/2; at-- {
		if strings.ContainsRune("_-/.,", word[at-1]) {
			return at
		}
	}
	return width
}

// list writes the rows as blocks of names and values.
func (t *grid) list(w io.Writer, width int) {
	longest := 0
	for _, name := range t.whole {
		longest = max(longest, utf8.RuneCountInString(name))
	}
	for i, row := range t.rows {
		if i > 0 {
			io.WriteString(w, "\n")
		}
		for c, cell := range row {
			if cell = strings.ReplaceAll(cell, "\n", " "); cell != "" {
				name := t.whole[c] + strings.Repeat(" ", longest-utf8.RuneCountInString(t.whole[c]))
				io.WriteString(w, hanging(name+"  ", cell, width))
			}
		}
	}
}

// Table prints rows under a header. It is the only place that knows the
// library behind it. Columns whose name starts with "|" align to the right; those
// with "~", before that, are left out where the terminal is too narrow.
func (g *Globals) Table(header []string, rows [][]string) error {
	t := newGrid(header, rows)
	if width := g.Columns(); width > 0 {
		return t.narrow(g.Out, width)
	}
	return t.render(g.Out, 2)
}

// A grid is a table whose cells are ready to be printed.
type grid struct {
	names    []string // as printed, perhaps on several lines
	whole    []string // the same on one line
	rows     [][]string
	right    []bool
	optional []bool
}

func newGrid(header []string, rows [][]string) *grid {
	t := &grid{right: make([]bool, len(header)), optional: make([]bool, len(header))}
	for i, name := range header {
		name, t.optional[i] = strings.CutPrefix(name, "~")
		name, t.right[i] = strings.CutPrefix(name, "|")
		t.names = append(t.names, Text(name))
	}
	for _, row := range rows {
		for i := range row {
			row[i] = Text(zones.Printable(row[i])) // names come from files
		}
		t.rows = append(t.rows, row)
	}
	t.whole = slices.Clone(t.names)
	return t
}

// render prints the table with a gap between columns.
func (t *grid) render(w io.Writer, gap int) error {
	out := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithHeaderAlignment(tw.AlignLeft),
		tablewriter.WithRowAlignment(tw.AlignLeft),
		tablewriter.WithPadding(tw.Padding{Left: "", Right: strings.Repeat(" ", gap), Overwrite: true}),
	)
	widths := make([]int, len(t.names)) // of columns that align to the right
	for c := range widths {
		if t.right[c] {
			widths[c] = t.columnWidth(c)
		}
	}
	out.Header(aligned(t.names, widths))
	for _, row := range t.rows {
		if err := out.Append(aligned(row, widths)); err != nil {
			return err
		}
	}
	return out.Render()
}

// aligned pads the lines of cells on their left, to a width of each column. The library does so only
// where cells have a space to their left, too.
func aligned(row []string, widths []int) []string {
	row = slices.Clone(row)
	for c, cell := range row {
		lines := strings.Split(cell, "\n")
		for i, line := range lines {
			lines[i] = strings.Repeat(" ", max(widths[c]-twwidth.Width(line), 0)) + line
		}
		row[c] = strings.Join(lines, "\n")
	}
	return row
}

// Sparse prints a table without columns of zeros: most processes lack an I/O
// buffer nor a checkpointer.
func (g *Globals) Sparse(header []string, rows [][]string) error {
	for c := len(header) - 1; c >= 0; c-- {
		empty := true
		for _, row := range rows {
			empty = empty && row[c] == MiB(0)
		}
		if !empty {
			continue
		}
		header = slices.Delete(slices.Clone(header), c, c+1)
		for i := range rows {
			rows[i] = slices.Delete(slices.Clone(rows[i]), c, c+1)
		}
	}
	return g.Table(header, rows)
}

// ascii spells the characters of our own texts in ASCII.
var ascii = strings.NewReplacer(
	"…", "...", "×", "x", "·", "*", "≤", "<=", "≥", ">=", "≈", "~", "±", "+/-", "−", "-", "–", "-", "—", "-", "→", "->", "←", "<-",
	"µ", "u", "μ", "u", "σ", "sigma", "λ", "lambda", "∞", "inf", "²", "^2", "³", "^3", "√", "sqrt ", "’", "'", "‘", "'", "“", `"`, "”", `"`,
	"─", "-", "━", "-", "│", "|", "┃", "|", "┌", "+", "┐", "+", "└", "+", "┘", "+", "├", "+", "┤", "+", "┬", "+", "┴", "+", "┼", "+",
	"█", "#", "▏", "#", "░", ".", "•", "*", "✓", "ok", "✗", "x",
	"▶", ">", "◀", "<", "León", "Leon", "Jiménez", "Jimenez",
)

// Text spells a text for the locale: as it is in UTF-8, else in ASCII. Programs
// that read JSON or files get UTF-8 everywhere.
func Text(s string) string {
	if UTF8Locale(os.Getenv) {
		return s
	}
	return ASCII(s)
}

// ASCII spells a text in ASCII. Unknown characters, as in names of files, become
// \u and their number.
func ASCII(s string) string {
	if isASCII(s) {
		return s
	}
	s = ascii.Replace(s)
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// UTF8Locale reports whether the user reads UTF-8: the first of LC_ALL, LC_CTYPE and
// LANG that is set decides, and without any the locale is C (POSIX, Base
// Definitions, 8.2).
func UTF8Locale(getenv func(string) string) bool {
	locale := strings.ToLower(cmp.Or(getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG")))
	_, charset, _ := strings.Cut(locale, ".")
	charset, _, _ = strings.Cut(charset, "@")
	return charset == "utf-8" || charset == "utf8"
}
