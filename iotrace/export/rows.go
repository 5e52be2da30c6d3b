package export

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"ckpt/internal/lazy"
	"ckpt/internal/wording"
	"ckpt/iotrace"
)

// rows make events of the texts of their columns.
type rows struct {
	t       *iotrace.Trace
	tables  *iotrace.Tables
	numbers map[int64]int32 // last index of each number
	ops     map[string]iotrace.Op
	zones   map[string]iotrace.Zone
	fields  [][]byte
	marked  bool         // marks may stand between thousands: commas do not separate the fields
	column  [numCols]int // where each column is in the fields
}

func newRows(o iotrace.Options) rows {
	t := &iotrace.Trace{Events: make([]iotrace.Event, 0, o.Expected())}
	return rows{t: t, tables: iotrace.NewTables(t), numbers: make(map[int64]int32),
		ops: make(map[string]iotrace.Op), zones: make(map[string]iotrace.Zone)}
}

func (c *rows) event() (e iotrace.Event, reason string) {
	f := func(column int) []byte { return c.fields[c.column[column]] }
	var ok bool
	if e.Op, ok = c.op(f(colOp)); !ok {
		return e, "the operation is unknown"
	}
	if e.Module, ok = module(f(colModule)); !ok {
		return e, unknownModule
	}
	if e.Zone, ok = c.zone(f(colZone)); !ok {
		return e, "the zone is unknown"
	}
	if e.Create, ok = truth(f(colCreate)); !ok {
		return e, "create is neither 1 nor empty"
	}
	if e.Rank, ok = c.rankField(f(colRank), f(colNode)); !ok {
		return e, "invalid rank"
	}
	e.File = iotrace.None
	// Programs that write a word for nothing write it for the offset as well.
	if name := f(colFile); len(name) > 0 && !(absent(name) && bytes.Equal(name, f(colOffset))) {
		e.File = c.file(name)
	}
	if e.Peer, ok = c.rankField(f(colPeer), f(colPeerNode)); !ok {
		return e, "invalid peer"
	}
	if e.Checkpoint, ok = c.count(f(colCheckpoint)); !ok {
		return e, c.invalid("checkpoint", f(colCheckpoint))
	}
	if e.Round, ok = c.count(f(colRound)); !ok {
		return e, c.invalid("round", f(colRound))
	}
	if e.Offset, ok = c.integer(f(colOffset), iotrace.None); !ok {
		return e, c.invalid("offset", f(colOffset))
	}
	if e.Offset < 0 && !absent(f(colOffset)) {
		return e, "the offset is negative"
	}
	if e.Bytes, ok = c.integer(f(colBytes), 0); !ok {
		return e, c.invalid("bytes", f(colBytes))
	}
	if e.Start, ok = c.integer(f(colStart), 0); !ok || absent(f(colStart)) {
		return e, c.invalid("start", f(colStart))
	}
	if e.End, ok = c.integer(f(colEnd), 0); !ok || absent(f(colEnd)) {
		return e, c.invalid("end", f(colEnd))
	}
	if err := e.Check(len(c.t.Ranks), len(c.t.Files)); err != nil {
		return e, err.Error()
	}
	return e, ""
}

const unknownModule = "unknown module (want POSIX, MPIIO or STDIO)"

func module(name []byte) (m iotrace.Module, ok bool) {
	switch string(name) {
	case "POSIX", "":
		return iotrace.POSIX, true
	case "MPIIO":
		return iotrace.MPIIO, true
	case "STDIO":
		return iotrace.STDIO, true
	}
	return 0, absent(name)
}

// absent reports whether a number is not there, in the words of other programs too.
func absent(b []byte) bool {
	return len(b) == 0 || (b[0] < '0' || b[0] > '9') && wording.Absent(string(b))
}

// integer reads a whole number, or returns another one if it is absent. Programs that
// keep numbers as fractions write 5.0 or 5e3, spreadsheets 1.234.567 and 5,0.
func (c *rows) integer(b []byte, other int64) (int64, bool) {
	if n, ok := iotrace.Int(b); ok {
		return n, true
	}
	if absent(b) {
		return other, true
	}
	s := string(b)
	switch {
	case grouped().MatchString(s):
		s = strings.NewReplacer(".", "", ",", "").Replace(s)
		return iotrace.Int([]byte(s))
	case c.ambiguous(s):
		return 0, false
	}
	s = strings.Replace(s, ",", ".", 1)
	const exact = 1 << 53 // a float64 has all whole numbers up to it
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > exact {
		return 0, false
	}
	return int64(x), true
}

var (
	// grouped matches a whole number with marks that can only stand between thousands.
	grouped = lazy.Regexp(`^-?[1-9][0-9]{0,2}((\.[0-9]{3}){2,}|(,[0-9]{3}){2,})$`)
	// onceGrouped matches 1.234, which is 1234 or 1.234.
	onceGrouped = lazy.Regexp(`^-?[1-9][0-9]{0,2}[.,][0-9]{3}$`)
)

// ambiguous reports whether a number may have a mark between its thousands, and may have a
// fraction. A table that commas separate has points for fractions.
func (c *rows) ambiguous(s string) bool {
	return onceGrouped().MatchString(s) && (c.marked || strings.Contains(s, ","))
}

// invalid says why a column is no whole number.
func (c *rows) invalid(what string, b []byte) string {
	s := string(b)
	switch _, err := strconv.ParseFloat(s, 64); {
	case c.ambiguous(s):
		return fmt.Sprintf("invalid %s: %s may be thousands or a fraction; write it without marks", what, s)
	case err == nil && strings.ContainsAny(s, "eE"):
		return fmt.Sprintf("invalid %s: %s has lost digits; export whole numbers", what, s)
	}
	return "invalid " + what
}

// count reads a number from 0 on, and returns 0 if it is absent.
func (c *rows) count(b []byte) (int32, bool) {
	n, ok := c.integer(b, 0)
	return int32(n), ok && 0 <= n && n <= math.MaxInt32
}

func truth(b []byte) (yes, ok bool) {
	switch string(b) {
	case "1", "1.0", "1,0", "true", "True", "TRUE":
		return true, true
	case "0", "0.0", "0,0", "false", "False", "FALSE":
		return false, true
	}
	return false, absent(b)
}

// op and zone remember the last value, so that equal text need not become a string
// each time.

func (c *rows) op(name []byte) (iotrace.Op, bool) {
	if op, ok := c.ops[string(name)]; ok {
		return op, true
	}
	op, err := iotrace.ParseOp(string(name))
	if err == nil {
		c.ops[op.String()] = op
	}
	return op, err == nil
}

func (c *rows) zone(name []byte) (iotrace.Zone, bool) {
	if absent(name) {
		return 0, true
	}
	if z, ok := c.zones[string(name)]; ok {
		return z, true
	}
	z, err := iotrace.ParseZone(string(name))
	if err == nil {
		c.zones[z.String()] = z
	}
	return z, err == nil
}

// file returns the index of a path.
func (c *rows) file(name []byte) int32 {
	if bytes.Contains(name, []byte(`\x`)) {
		return c.tables.File(unescaped(string(name)))
	}
	return c.tables.FileBytes(name)
}

func (c *rows) rankField(number, node []byte) (int32, bool) {
	if absent(node) {
		node = nil
	}
	if absent(number) {
		return iotrace.None, absent(node)
	}
	n, ok := c.integer(number, 0)
	if !ok {
		return 0, false
	}
	return c.rank(n, node), true
}

func (c *rows) rank(number int64, node []byte) int32 {
	// Most numbers have one node.
	if i, ok := c.numbers[number]; ok && c.t.Ranks[i].Node == string(node) {
		return i
	}
	i := c.tables.Rank(iotrace.Rank{Rank: int(number), Node: unescaped(string(node))})
	c.numbers[number] = i
	return i
}

// escaped returns a string as text of UTF-8. Each other byte becomes \xHH, as in
// \xff, and a backslash that would read as the beginning of such a byte becomes \x5c.
// Other backslashes stay.
func escaped(s string) string {
	if utf8.ValidString(s) && !strings.Contains(s, `\x`) {
		return s
	}
	const digits = "0123456789abcdef"
	var b strings.Builder
	for len(s) > 0 {
		_, n := utf8.DecodeRuneInString(s)
		_, code := escape(s)
		if c := s[0]; code || n == 1 && c >= utf8.RuneSelf {
			b.WriteString(`\x`)
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// unescaped undoes escaped.
func unescaped(s string) string {
	if !strings.Contains(s, `\x`) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		c, n := s[0], 1
		if code, ok := escape(s); ok {
			c, n = code, len(`\xff`)
		}
		b.WriteByte(c)
		s = s[n:]
	}
	return b.String()
}

// escape returns the byte that a text begins with as \xHH: one that is no ASCII, or the
// backslash.
func escape(s string) (byte, bool) {
	if len(s) < len(`\xff`) || s[:2] != `\x` {
		return 0, false
	}
	high, low := strings.IndexByte("0123456789abcdef", s[2]), strings.IndexByte("0123456789abcdef", s[3])
	if high < 0 || low < 0 {
		return 0, false
	}
	c := byte(high<<4 | low)
	return c, c >= utf8.RuneSelf || c == '\\'
}
