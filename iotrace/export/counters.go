package export

import (
	"bufio"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"ckpt/iotrace"
)

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

func appendNumber(b []byte, v reflect.Value) []byte {
	if v.Kind() == reflect.Float64 {
		x := v.Float()
		if x == iotrace.None || math.IsNaN(x) || math.IsInf(x, 0) {
			return b
		}
		return strconv.AppendFloat(b, x, 'g', -1, 64)
	}
	if v.Int() == iotrace.None {
		return b
	}
	return strconv.AppendInt(b, v.Int(), 10)
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
			b = appendNumber(append(b, ','), col.at(v))
		}
		if _, err := bw.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return bw.Flush()
}
