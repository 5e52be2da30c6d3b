package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// The fields of an object: those of a row of CSV, and its type.
const (
	colType   = numCols
	numFields = numCols + 1
)

var (
	fieldNames = append(strings.Split(csvColumns, ","), "type")
	fieldOf    = func() map[string]int {
		of := make(map[string]int)
		for i, name := range fieldNames {
			of[name] = i
		}
		return of
	}()
)

// scanObject finds the members of an object on one line, as WriteJSON and most programs
// write it, about ten times as fast as encoding/json. It reports false for all else,
// also for what is not JSON: decodeObject then says what it is.
func scanObject(b []byte, fields [][]byte) bool {
	clear(fields)
	b, ok := after(b, '{')
	for ok {
		var key, value []byte
		if key, b, ok = plainString(b); !ok {
			return false
		}
		if b, ok = after(b, ':'); !ok {
			return false
		}
		if value, b, ok = plainValue(b); !ok {
			return false
		}
		i, known := fieldOf[string(key)]
		if !known {
			return false
		}
		fields[i] = value
		if rest, end := after(b, '}'); end {
			return len(rest) == 0
		}
		b, ok = after(b, ',')
	}
	return false
}

// after returns what follows a character and the blanks around it.
func after(b []byte, c byte) ([]byte, bool) {
	b = blanks(b)
	if len(b) == 0 || b[0] != c {
		return b, false
	}
	return blanks(b[1:]), true
}

func blanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// plainString cuts off a string of ASCII without escapes.
func plainString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	i := bytes.IndexByte(b[1:], '"')
	if i < 0 {
		return nil, nil, false
	}
	s = b[1 : i+1]
	for _, c := range s {
		if c < ' ' || c > '~' || c == '\\' {
			return nil, nil, false
		}
	}
	return s, b[i+2:], true
}

// plainValue cuts off such a string, a whole number or true.
func plainValue(b []byte) (v, rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '"' {
		return plainString(b)
	}
	if bytes.HasPrefix(b, []byte("true")) {
		return b[:4], b[4:], true
	}
	i := 0
	if len(b) > 0 && b[0] == '-' {
		i = 1
	}
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from || b[from] == '0' && i > from+1 || i < len(b) && (b[i] == '.' || b[i]|' ' == 'e') {
		return nil, nil, false
	}
	return b[:i], b[i:], true
}

// decodeObject takes the next object of a decoder as scanObject does. The reason says
// why it is no row; the error that it is not JSON.
func decodeObject(d *json.Decoder, fields [][]byte) (raw json.RawMessage, reason string, err error) {
	clear(fields)
	if err := d.Decode(&raw); err != nil {
		return nil, "", err
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw, "the line is no object", nil
	}
	for i, name := range fieldNames {
		text := members[name]
		switch {
		case len(text) == 0, string(text) == "null":
		case text[0] == '"':
			var s string
			if err := json.Unmarshal(text, &s); err != nil {
				return raw, err.Error(), nil
			}
			fields[i] = []byte(s)
		case text[0] == '{', text[0] == '[':
			return raw, fmt.Sprintf("%s is neither text nor a number", name), nil
		default:
			fields[i] = text
		}
	}
	return raw, "", nil
}
