package export

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"ckpt/iotrace"
)

// mostInTableGroup bounds the rows of a group that another program wrote: pyarrow makes
// groups of 2^20 rows.
const mostInTableGroup = 1 << 22

// A tableColumn is a column of rows of another program, and the values of a group.
type tableColumn struct {
	name    string
	kind    format.Type
	absent  bool // it may lack values
	values  []int64
	missing []bool // empty if no value is missing
	words   []string
}

// fraction reports whether the values are the bits of doubles.
func (c *tableColumn) fraction() bool { return c.kind == format.Double || c.kind == format.Float }

// table reads rows of the columns that a CSV has, under the names that others give them.
func (x *parquetReader) table(o iotrace.Options, rep *iotrace.Report) (*iotrace.Trace, error) {
	total, err := x.rows(mostInTableGroup)
	if err != nil {
		return nil, err
	}
	o.Events = int(min(total, rowsPerByte*x.size))
	c := newRows(o)
	var columns [numCols]*tableColumn
	for i, names := range othersNames {
		if columns[i], err = x.tableColumn(names); err != nil {
			return nil, err
		}
	}
	for _, i := range []int{colOp, colStart, colEnd} {
		if columns[i] == nil {
			return nil, &iotrace.FormatError{Offset: x.end, Err: iotrace.ErrWrongFormat,
				Reason: fmt.Sprintf("this Parquet file has no column %s; rows of I/O have op, start_ns, end_ns and more, or those of Recorder", othersNames[i][0])}
		}
	}
	left := x.end
	for i := range c.column {
		c.column[i] = i
	}
	c.fields = make([][]byte, numCols)
	row := int64(0)
	for i := range x.meta.RowGroups {
		g := &x.meta.RowGroups[i]
		for _, col := range columns {
			used, err := x.tableChunk(g, col)
			if err != nil {
				return nil, err
			}
			if left -= used; left < 0 {
				return nil, damaged(x.end, "columns overlap")
			}
		}
		for k := range int(g.NumRows) {
			for i, col := range columns {
				c.fields[i] = col.text(c.fields[i][:0], i, k)
			}
			row++
			reason := c.other(rep)
			if reason != "" {
				reason = fmt.Sprintf("row %d: %s", row, reason)
			}
			switch {
			case reason == "":
			case o.Lenient:
				rep.Note(0, string(c.fields[colOp]), reason)
			default:
				return nil, &iotrace.FormatError{Offset: x.end, Reason: reason}
			}
		}
	}
	if rep.Lines = total; columns[colOffset] == nil {
		warnOffsets(c.t)
	}
	c.t.Sort()
	return c.t, nil
}

// tableColumn finds the first of some columns that the file has; nil if there is none.
func (x *parquetReader) tableColumn(names []string) (*tableColumn, error) {
	for _, name := range names {
		i := slices.IndexFunc(x.meta.Schema, func(s format.SchemaElement) bool {
			return s.Name == name && !(s.NumChildren.Valid && s.NumChildren.V > 0)
		})
		if i < 0 {
			continue
		}
		s := &x.meta.Schema[i]
		c := &tableColumn{name: name, kind: s.Type.V}
		c.absent = s.RepetitionType.Valid && s.RepetitionType.V == format.Optional
		known := []format.Type{format.Boolean, format.Int32, format.Int64, format.Float, format.Double, format.ByteArray}
		if !s.Type.Valid || !slices.Contains(known, c.kind) || s.RepetitionType.Valid && s.RepetitionType.V == format.Repeated || scaled(s) {
			return nil, &iotrace.FormatError{Offset: x.end, Reason: "column " + name + " is of a type that ckpt does not read; write whole numbers, fractions or text"}
		}
		return c, nil
	}
	return nil, nil
}

// scaled reports whether the numbers of a column are not what they look like.
func scaled(s *format.SchemaElement) bool {
	if s.Scale.Valid && s.Scale.V != 0 {
		return true
	}
	// TIME and TIMESTAMP of milliseconds and microseconds, and INTERVAL.
	if c := s.ConvertedType; c.Valid && (c.V >= deprecated.TimeMillis && c.V <= deprecated.TimestampMicros || c.V == deprecated.Interval) {
		return true
	}
	switch s.LogicalType.Value.(type) {
	case *format.TimestampType, *format.TimeType:
		return true
	}
	return false
}

// tableChunk reads the values of a group.
func (x *parquetReader) tableChunk(g *format.RowGroup, c *tableColumn) (used int64, err error) {
	if c == nil {
		return 0, nil
	}
	c.values, c.missing, c.words = c.values[:0], c.missing[:0], c.words[:0]
	numbers := make(map[string]int64)
	x.pages.number = func(word []byte) (int64, error) {
		n, ok := numbers[string(word)]
		if !ok {
			n = int64(len(c.words))
			c.words = append(c.words, string(word))
			numbers[c.words[n]] = n
		}
		return n, nil
	}
	x.pages.optional = c.absent
	return x.chunk(g, c.name, []format.Type{c.kind}, func(values []int64) error {
		for _, l := range x.pages.levels {
			c.missing = append(c.missing, l == 0)
		}
		if len(x.pages.levels) == 0 && c.absent {
			c.missing = append(c.missing, make([]bool, len(values))...)
		}
		c.values = append(c.values, values...)
		return nil
	})
}

// text appends a value of a row, as the column of a CSV would have it.
func (c *tableColumn) text(b []byte, column, row int) []byte {
	if c == nil || len(c.missing) > 0 && c.missing[row] {
		return b
	}
	v := c.values[row]
	switch {
	case c.kind == format.ByteArray:
		return append(b, c.words[v]...)
	case column == colModule && c.name == "cat":
		if v == catMPIIO {
			return append(b, iotrace.MPIIO.String()...)
		}
		return b
	case column == colModule && !c.fraction():
		return append(b, iotrace.Module(v).String()...)
	case column == colZone && !c.fraction():
		return append(b, iotrace.Zone(v).String()...)
	case c.fraction() && (c.name == "tstart" || c.name == "tend"):
		v = int64(math.Round(math.Float64frombits(uint64(v)) * 1e9))
	case c.fraction():
		x := math.Float64frombits(uint64(v))
		if math.IsNaN(x) {
			return b
		}
		return strconv.AppendFloat(b, x, 'f', -1, 64)
	case v == iotrace.None && column == colOffset:
		return b
	}
	return strconv.AppendInt(b, v, 10)
}
