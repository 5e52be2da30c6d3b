package dxt

import (
	"bytes"
	"strconv"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
)

// A segment is a read or write.
type segment struct {
	write      bool
	index      int64 // among the writes or reads of the record
	offset     int64 // iotrace.None if unknown
	length     int64
	start, end int64  // ns
	rest       []byte // rest of the line
	module     iotrace.Module
	rank       int64
}

// A layout is the number format of a version.
type layout struct {
	noOffset bool
	length   int // places of the length
}

var layouts = [...]layout{{length: 16}, {length: 13}, {noOffset: true, length: 16}, {noOffset: true, length: 13}}

// Widths of the other columns.
const (
	modulePlaces  = 8
	rankPlaces    = 8
	opPlaces      = 7
	indexPlaces   = 9
	offsetPlaces  = 16
	timePlaces    = 12
	tick          = 100_000 // ns: the resolution of times
	ticksInSecond = 10_000
)

var moduleTags = [...]string{iotrace.POSIX: "X_POSIX", iotrace.MPIIO: "X_MPIIO"}

// parse reads a line. It returns the reason if the line is invalid.
func (s *segment) parse(l []byte, noOffset bool) (reason string) {
	if reason = s.words(l, noOffset); reason == "" {
		return ""
	}
	// Large numbers fill their columns, and leave no blank between them.
	for _, y := range layouts {
		if y.noOffset == noOffset && s.columns(l, y) {
			return ""
		}
	}
	return reason
}

// words reads a line with blanks between the columns.
func (s *segment) words(l []byte, noOffset bool) (reason string) {
	*s = segment{offset: iotrace.None}
	tag, l := line.Field(l)
	switch string(tag) {
	case moduleTags[iotrace.POSIX]:
	case moduleTags[iotrace.MPIIO]:
		s.module = iotrace.MPIIO
	default:
		return "this is not a segment of X_POSIX or X_MPIIO"
	}
	var ok bool
	word, l := line.Field(l)
	if s.rank, ok = line.Int(word); !ok {
		return "invalid rank"
	}
	op, l := line.Field(l)
	switch string(op) {
	case "write":
		s.write = true
	case "read":
	default:
		return "the operation is neither write nor read"
	}
	word, l = line.Field(l)
	if s.index, ok = line.Int(word); !ok || s.index < 0 {
		return "invalid number of the segment"
	}
	if !noOffset {
		word, l = line.Field(l)
		if s.offset, ok = line.Int(word); !ok {
			return "invalid offset"
		}
	}
	word, l = line.Field(l)
	if s.length, ok = line.Int(word); !ok {
		return "invalid length"
	}
	word, l = line.Field(l)
	if s.start, ok = line.Seconds(word); !ok {
		return "invalid start"
	}
	word, l = line.Field(l)
	if s.end, ok = line.Seconds(word); !ok {
		return "invalid end"
	}
	s.rest = l
	return ""
}

// columns reads a line by column positions.
func (s *segment) columns(l []byte, y layout) bool {
	places := []int{modulePlaces, rankPlaces, opPlaces, indexPlaces, offsetPlaces, y.length, timePlaces, timePlaces}
	if y.noOffset {
		places = append(places[:4], places[5:]...)
	}
	var spaced []byte
	for _, n := range places {
		if len(l) < n {
			return false
		}
		spaced = append(append(spaced, l[:n]...), ' ')
		l = l[n:]
	}
	// A column must be one word.
	if s.words(spaced, y.noOffset) != "" || len(bytes.TrimSpace(s.rest)) > 0 || len(l) > 0 && l[0] != ' ' {
		return false
	}
	s.rest = l
	return true
}

// append prints a segment as Darshan does. If a number exceeds its column, there are
// blanks between all columns; Darshan would let it run into its neighbour.
func (s *segment) append(b []byte, y layout) []byte {
	from := len(b)
	b, grown := s.columnsInto(b, y, 0)
	if grown {
		b, _ = s.columnsInto(b[:from], y, 1)
	}
	return append(b, s.rest...)
}

func (s *segment) columnsInto(b []byte, y layout, blanks int) (_ []byte, grown bool) {
	var digits [24]byte
	column := func(text []byte, places int) {
		pad := places - len(text)
		if pad < 0 {
			pad, grown = 0, true
		}
		for range max(pad, blanks) {
			b = append(b, ' ')
		}
		b = append(b, text...)
	}
	column(append(digits[:0], moduleTags[s.module]...), modulePlaces)
	column(strconv.AppendInt(digits[:0], s.rank, 10), rankPlaces)
	op := "read"
	if s.write {
		op = "write"
	}
	column(append(digits[:0], op...), opPlaces)
	column(strconv.AppendInt(digits[:0], s.index, 10), indexPlaces)
	if !y.noOffset {
		column(strconv.AppendInt(digits[:0], s.offset, 10), offsetPlaces)
	}
	column(strconv.AppendInt(digits[:0], s.length, 10), y.length)
	column(appendTime(digits[:0], s.start), timePlaces)
	column(appendTime(digits[:0], s.end), timePlaces)
	return b, grown
}

// appendTime prints ns as seconds with four decimals.
func appendTime(b []byte, ns int64) []byte {
	ticks := round(ns)
	if ticks < 0 {
		b = append(b, '-')
		ticks = -ticks
	}
	b = strconv.AppendInt(b, ticks/ticksInSecond, 10)
	b = append(b, '.')
	frac := ticks % ticksInSecond
	return append(b, byte('0'+frac/1000), byte('0'+frac/100%10), byte('0'+frac/10%10), byte('0'+frac%10))
}

// round returns ns in ticks. It keeps ends after starts.
func round(ns int64) int64 {
	ticks, rest := ns/tick, ns%tick
	switch {
	case rest >= tick/2:
		ticks++
	case rest < -tick/2:
		ticks--
	}
	return ticks
}
