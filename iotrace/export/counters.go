package export

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"ckpt/iotrace"
)

// A counterColumn is one number of iotrace.Counters.
type counterColumn struct {
	name string
	at   func(c reflect.Value) reflect.Value
}

// counterColumns are all of them, named as the fields are. They follow the struct, so
// that a new counter is exported as well.
var counterColumns = columnsOf(reflect.TypeFor[iotrace.Counters](), "", func(c reflect.Value) reflect.Value { return c })

// sizeBins are the bounds of Darshan's bins.
var sizeBins = [10]string{"0_100", "100_1k", "1k_10k", "10k_100k", "100k_1m", "1m_4m", "4m_10m", "10m_100m", "100m_1g", "1g_plus"}

// moments are the fields that count ns since the origin.
var moments = map[string]bool{"first_open": true, "first_read": true, "first_write": true, "first_close": true,
	"last_open": true, "last_read_end": true, "last_write_end": true, "last_close": true}

func columnsOf(t reflect.Type, name string, at func(reflect.Value) reflect.Value) (out []counterColumn) {
	under := func(part string) string { return strings.TrimPrefix(name+"_"+part, "_") }
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			switch f := t.Field(i); {
			case name == "" && (f.Name == "Module" || f.Name == "Rank" || f.Name == "File"):
			default:
				out = append(out, columnsOf(f.Type, under(snake(f.Name)), func(c reflect.Value) reflect.Value { return at(c).Field(i) })...)
			}
		}
	case reflect.Array:
		for i := range t.Len() {
			part := strconv.Itoa(i + 1)
			if t.Len() == len(sizeBins) {
				part = sizeBins[i]
			}
			out = append(out, columnsOf(t.Elem(), under(part), func(c reflect.Value) reflect.Value { return at(c).Index(i) })...)
		}
	default:
		if moments[name] || t == reflect.TypeFor[time.Duration]() {
			name += "_ns"
		}
		out = []counterColumn{{name, at}}
	}
	return out
}

// snake writes ReadSizes as read_sizes.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// appendNumber appends a number, or reports that it is not known.
func appendNumber(b []byte, v reflect.Value) ([]byte, bool) {
	if v.Kind() == reflect.Float64 {
		x := v.Float()
		if x == iotrace.None || math.IsNaN(x) || math.IsInf(x, 0) {
			return b, false
		}
		return strconv.AppendFloat(b, x, 'g', -1, 64), true
	}
	if v.Int() == iotrace.None {
		return b, false
	}
	return strconv.AppendInt(b, v.Int(), 10), true
}

// WriteCounters writes the counters of a valid trace as CSV: a row for each file, rank
// and interface, whose rank is empty if it is the sum of all ranks.
func WriteCounters(w io.Writer, t *iotrace.Trace) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	b := []byte("file,module,rank,node")
	for _, col := range counterColumns {
		b = append(append(b, ','), col.name...)
	}
	bw.Write(append(b, '\n'))
	for i := range t.Counters {
		c := &t.Counters[i]
		b = b[:0]
		if c.File != iotrace.None {
			b = appendField(b, t.Files[c.File])
		}
		b = append(append(append(b, ','), c.Module.String()...), ',')
		if c.Rank != iotrace.None {
			b = strconv.AppendInt(b, int64(t.Ranks[c.Rank].Rank), 10)
			b = appendField(append(b, ','), t.Ranks[c.Rank].Node)
		} else {
			b = append(b, ',')
		}
		v := reflect.ValueOf(c).Elem()
		for _, col := range counterColumns {
			b, _ = appendNumber(append(b, ','), col.at(v))
		}
		if _, err := bw.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return bw.Flush()
}

// appendCounters appends the members of a line of counters.
func appendCounters(b []byte, t *iotrace.Trace, c *iotrace.Counters) []byte {
	b = append(append(append(b, `{"type":"counters","module":"`...), c.Module.String()...), '"')
	if c.Rank != iotrace.None {
		b = appendRank(b, t.Ranks[c.Rank])
	}
	if c.File != iotrace.None {
		b = appendJSON(append(b, `,"file":`...), t.Files[c.File])
	}
	v := reflect.ValueOf(c).Elem()
	for _, col := range counterColumns {
		n := len(b)
		b = append(append(append(b, `,"`...), col.name...), `":`...)
		var known bool
		if b, known = appendNumber(b, col.at(v)); !known {
			b = b[:n]
		}
	}
	return append(b, '}')
}

func appendRank(b []byte, r iotrace.Rank) []byte {
	b = member(b, "rank", int64(r.Rank))
	if r.Node != "" {
		b = appendJSON(append(b, `,"node":`...), r.Node)
	}
	return b
}

// counters adds a line of counters, or returns the reason why it cannot. Numbers that
// are missing are unknown.
func (j *jsonReader) counters(text []byte) string {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err.Error()
	}
	c := iotrace.Counters{File: iotrace.None}
	var ok bool
	if c.Module, ok = module(j.fields[colModule]); !ok {
		return unknownModule
	}
	if c.Rank, ok = j.rankField(j.fields[colRank], j.fields[colNode]); !ok {
		return "invalid rank"
	}
	if name := j.fields[colFile]; len(name) > 0 {
		c.File = j.file(name)
	}
	v := reflect.ValueOf(&c).Elem()
	for _, col := range counterColumns {
		text := members[col.name]
		if field := col.at(v); field.Kind() == reflect.Float64 {
			x, err := strconv.ParseFloat(string(text), 64)
			if absent(text) {
				x, err = iotrace.None, nil
			}
			if err != nil {
				return "invalid " + col.name
			}
			field.SetFloat(x)
		} else {
			n, ok := integer(text, iotrace.None)
			if !ok || strings.HasSuffix(col.name, "_ns") && (n < iotrace.None || n > iotrace.MaxTime) {
				return "invalid " + col.name
			}
			field.SetInt(n)
		}
	}
	j.t.Counters = append(j.t.Counters, c)
	return ""
}

// A jsonRenaming is a line about the new name of a file.
type jsonRenaming struct {
	Type string `json:"type"`
	From string `json:"from"`
	To   string `json:"to"`
	At   int64  `json:"at_ns"`
}

func newRenaming(t *iotrace.Trace, r iotrace.Renaming) jsonRenaming {
	return jsonRenaming{"renaming", escaped(t.Files[r.From]), escaped(t.Files[r.To]), r.At}
}

func (j *jsonReader) renaming(text []byte) string {
	var l jsonRenaming
	if err := json.Unmarshal(text, &l); err != nil {
		return err.Error()
	}
	if l.From == "" || l.To == "" || l.At < -iotrace.MaxTime || l.At > iotrace.MaxTime {
		return "the renaming has no names, or an impossible time"
	}
	j.t.Renames = append(j.t.Renames, iotrace.Renaming{From: j.file([]byte(l.From)), To: j.file([]byte(l.To)), At: l.At})
	return ""
}

// A jsonStriping is a line about the stripes of a file, or of a part of it.
type jsonStriping struct {
	Type  string  `json:"type"`
	File  string  `json:"file"`
	Size  int64   `json:"stripe_size"`
	Count int32   `json:"stripe_count"`
	OSTs  []int64 `json:"osts,omitempty"`
	Start int64   `json:"start"`
	End   *int64  `json:"end,omitempty"` // missing: to the end of the file
}

func newStriping(t *iotrace.Trace, s *iotrace.Striping) jsonStriping {
	l := jsonStriping{Type: "striping", File: escaped(t.Files[s.File]), Size: s.Size, Count: s.Count, OSTs: s.OSTs, Start: s.Start}
	if s.End != iotrace.None {
		l.End = &s.End
	}
	return l
}

func (j *jsonReader) striping(text []byte) string {
	var l jsonStriping
	if err := json.Unmarshal(text, &l); err != nil {
		return err.Error()
	}
	s := iotrace.Striping{Size: l.Size, Count: l.Count, OSTs: l.OSTs, Start: l.Start, End: iotrace.None}
	if l.End != nil {
		s.End = *l.End
	}
	if l.File == "" || s.Size < iotrace.None || s.Count < iotrace.None || s.Start < iotrace.None || s.End < iotrace.None {
		return fmt.Sprintf("%d stripes of %d bytes from %d on are impossible", s.Count, s.Size, s.Start)
	}
	s.File = j.file([]byte(l.File))
	j.t.Striping = append(j.t.Striping, s)
	return ""
}
