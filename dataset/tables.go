package dataset

import (
	"bytes"
	"embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ckpt/internal/wording"
)

//go:embed tables/*.csv
var tableFiles embed.FS

// maxTable bounds the text of a table; the largest built-in one has 6 KiB.
const maxTable = 16 << 20

// A Table is a set of measurements: a CSV text whose first line names the origin of
// the numbers ("# source: … | NOTE: …") and whose second line names the columns, each
// with its unit at the end (dtapp_MiB, time_s, error_pct).
type Table struct {
	// Name is the file name without .csv.
	Name string
	// Source names the origin of the numbers, Note their known errors.
	Source, Note string
	Columns      []Column
	// Rows are the cells as written, one for each column.
	Rows [][]string

	lines    []int
	decimals decimalMark
	// separator stands between the cells.
	separator rune
	thousands *thousandsMark // nil without one
}

// A Column is one column of a [Table].
type Column struct {
	Name string `json:"name"`
	// Unit is the unit that the name ends in, or "".
	Unit string `json:"unit"`
}

// units are the endings of column names that are units. Order matters: MiB ends in B.
var units = []string{"MiB", "KiB", "GiB", "pct", "s", "B"}

func unitOf(name string) string {
	for _, u := range units {
		if strings.HasSuffix(name, "_"+u) {
			return u
		}
	}
	return ""
}

// TableNames lists the built-in tables, sorted as they are numbered.
func TableNames() []string { return slices.Clone(tableNames()) }

var tableNames = sync.OnceValue(func() []string {
	entries, err := tableFiles.ReadDir("tables")
	if err != nil {
		panic(err) // embedded at build time
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".csv"))
	}
	slices.SortFunc(out, func(a, b string) int {
		if c := strings.Compare(tableKind(a), tableKind(b)); c != 0 {
			return c
		}
		if c := slices.Compare(tableNumber(a), tableNumber(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return out
})

func tableKind(name string) string { kind, _, _ := strings.Cut(name, "_"); return kind }

// tableNumber takes the number out of table_5_16_bt_…: [5 16].
func tableNumber(name string) []int {
	var out []int
	for _, part := range strings.Split(name, "_")[1:] {
		n, err := strconv.Atoi(part)
		if err != nil || len(out) == 2 {
			break
		}
		out = append(out, n)
	}
	return out
}

// findTable resolves a name, a beginning of one, or a number like 5.16.
func findTable(name string) (string, error) {
	names := tableNames()
	key := strings.TrimSuffix(name, ".csv")
	if slices.Contains(names, key) {
		return key, nil
	}
	if key != "" && key[0] >= '0' && key[0] <= '9' {
		key = "table_" + key
	}
	key = strings.ReplaceAll(key, ".", "_")
	var hits []string
	for _, n := range names {
		if n == key || strings.HasPrefix(n, key+"_") {
			hits = append(hits, n)
		}
	}
	if len(hits) == 1 {
		return hits[0], nil
	}
	problem, hint := "not known", "a path to a CSV file contains a slash or ends in .csv"
	if len(hits) > 1 {
		problem, hint = "is ambiguous", "it could be "+strings.Join(hits, ", ")
	}
	return "", &SpecError{Reason: UnknownTable, Subject: fmt.Sprintf("table %q", name), Problem: problem, hint: hint, err: os.ErrNotExist, Given: name, Known: slices.Clone(names)}
}

var parsed sync.Map // name of a built-in table to *Table

// LoadTable returns the built-in table with that name, beginning of a name, or number
// ("5.16"). It reads the CSV file of that path if the name contains a slash or ends in
// .csv and no built-in table has that name. The caller must not change the result.
func LoadTable(nameOrPath string) (*Table, error) {
	name, err := findTable(nameOrPath)
	if err != nil {
		if !strings.Contains(nameOrPath, "/") && !strings.HasSuffix(nameOrPath, ".csv") {
			return nil, err
		}
		f, err := os.Open(nameOrPath)
		if err != nil {
			return nil, CannotRead("table", nameOrPath, err)
		}
		defer f.Close()
		return ReadTable(f, nameOrPath)
	}
	if t, ok := parsed.Load(name); ok {
		return t.(*Table), nil
	}
	f, err := tableFiles.Open("tables/" + name + ".csv")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := ReadTable(f, name)
	if err == nil {
		parsed.Store(name, t)
	}
	return t, err
}

// TableText returns a built-in table as it is stored, provenance line included.
func TableText(name string) ([]byte, error) {
	full, err := findTable(name)
	if err != nil {
		return nil, err
	}
	return tableFiles.ReadFile("tables/" + full + ".csv")
}

// ReadTable reads a CSV text, with commas, semicolons or tabs between the cells; name is
// used in errors. Errors about the text are of type [TableError].
func ReadTable(r io.Reader, name string) (*Table, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxTable+1))
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	t := &Table{Name: name}
	if len(text) > maxTable {
		return nil, t.bad(0, "", "is longer than 16 MiB", "split it")
	}
	plain, err := t.plainText(text)
	if err != nil {
		return nil, err
	}
	if first, _, _ := strings.Cut(plain, "\n"); strings.HasPrefix(first, "#") {
		first = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(first), "#"), " source:"))
		t.Source, t.Note, _ = strings.Cut(first, " | NOTE: ")
	}
	if err := t.readRows(plain); err != nil {
		return nil, err
	}
	if t.Columns == nil {
		return nil, t.bad(0, "", "is empty", "the first line that is not a comment names the columns, like app,class,n_processes,dtapp_MiB")
	}
	t.findDecimals()
	return t, nil
}

func (t *Table) readRows(text string) error {
	if rest, ok := strings.CutPrefix(text, "sep="); ok { // Excel's; a comment, so that lines count
		text = "#" + rest
	}
	t.separator = delimiter(text)
	rd := csv.NewReader(strings.NewReader(text))
	rd.Comment, rd.Comma = '#', t.separator
	rd.FieldsPerRecord = -1
	index := 0 // columns in front that number the rows
	for {
		cells, err := rd.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			var pe *csv.ParseError
			if errors.As(err, &pe) {
				return t.bad(pe.Line, "", pe.Err.Error(), "write one line for each row, values separated by commas, semicolons or tabs")
			}
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		line, _ := rd.FieldPos(0)
		for i := range cells {
			// NaN is the result of a computation that failed; numbers refuse it.
			if cells[i] = strings.TrimSpace(cells[i]); wording.Absent(cells[i]) && !strings.EqualFold(cells[i], "nan") {
				cells[i] = ""
			}
		}
		if t.Columns == nil && isIndex(cells[0]) {
			index = 1
		}
		cells = cells[min(index, len(cells)):]
		if t.Columns == nil {
			if err := t.header(cells, line); err != nil {
				return err
			}
			continue
		}
		if slices.EqualFunc(cells, t.Columns, func(s string, c Column) bool { return s == c.Name }) {
			continue // concatenated tables
		}
		if strings.Join(cells, "") == "" {
			continue // an empty row of a spreadsheet
		}
		if len(cells) != len(t.Columns) {
			hint := "leave a cell empty where nothing was measured"
			if len(cells) > len(t.Columns) {
				hint = "a comma in a cell needs quotes around it, or semicolons between all cells"
			}
			return t.bad(line, "", fmt.Sprintf("has %d cells, the header %d", len(cells), len(t.Columns)), hint)
		}
		t.Rows, t.lines = append(t.Rows, cells), append(t.lines, line)
	}
	return nil
}

func (t *Table) header(cells []string, line int) error {
	seen := map[string]bool{}
	for _, name := range cells {
		if name == "" {
			return t.bad(line, "", "a column has no name", "name every column in the header, with its unit: dtapp_MiB")
		}
		if seen[name] {
			return t.bad(line, name, "appears twice", "remove or rename one of the two columns")
		}
		seen[name] = true
		t.Columns = append(t.Columns, Column{name, unitOf(name)})
	}
	return nil
}

func (t *Table) column(name string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
}

// A TableError is an error in a table, with its line (as an editor counts, 0 for the
// whole file) and column ("" for the whole row).
type TableError struct {
	Table  string
	Line   int
	Column string
	// Problem is what is wrong.
	Problem string
	// Known are the columns that a table may have, if Column is unknown.
	Known []string
	hint  string
}

func (t *Table) bad(line int, column, problem, hint string) error {
	return &TableError{Table: t.Name, Line: line, Column: column, Problem: problem, hint: hint}
}

func (e *TableError) Error() string {
	s := e.Table
	if e.Line > 0 {
		s += fmt.Sprintf(": line %d", e.Line)
	}
	if e.Column != "" {
		s += ": column " + e.Column
	}
	return oneLine(s + ": " + e.Problem)
}

// Hint returns the remedy in one line.
func (e *TableError) Hint() string { return oneLine(e.hint) }

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

// isIndex reports whether a first column of this name numbers the rows, as pandas writes
// its index.
func isIndex(name string) bool { return name == "" || name == "Unnamed: 0" }

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
