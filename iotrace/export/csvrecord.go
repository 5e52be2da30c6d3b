package export

import (
	"bytes"
	"ckpt/iotrace"
	"io"
)

// next reads a record and splits it.
func (c *csvReader) next() error {
	l, err := c.in.Next()
	for err == nil && len(l) == 0 {
		l, err = c.in.Next()
	}
	c.first = c.in.Number()
	if c.first == 1 {
		l = bytes.TrimPrefix(l, []byte("\ufeff")) // of spreadsheets
	}
	if err != nil {
		return err
	}
	if bytes.IndexByte(l, '"') < 0 {
		if !c.in.Whole() {
			return c.in.Truncated("the last line has no end")
		}
		if n := len(l); n > 0 && l[n-1] == '\r' {
			l = l[:n-1]
		}
		c.fields = c.fields[:0]
		for {
			i := bytes.IndexByte(l, ',')
			if i < 0 {
				break
			}
			c.fields = append(c.fields, l[:i])
			l = l[i+1:]
		}
		c.fields = append(c.fields, l)
		return nil
	}
	// A quoted record may span lines. It ends where the quotes are balanced.
	c.joined = append(c.joined[:0], l...)
	quotes := bytes.Count(l, []byte(`"`))
	for quotes%2 != 0 && c.in.Whole() {
		l, err := c.in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		c.joined = append(append(c.joined, '\n'), l...)
		quotes += bytes.Count(l, []byte(`"`))
		if len(c.joined) > iotrace.MaxLine {
			return c.in.Errorf("the record from line %d on is longer than %d bytes", c.first, iotrace.MaxLine)
		}
	}
	if !c.in.Whole() || quotes%2 != 0 {
		return c.in.Truncated("the record from line %d on has no end", c.first)
	}
	if n := len(c.joined); c.joined[n-1] == '\r' {
		c.joined = c.joined[:n-1]
	}
	return c.quoted()
}

// quoted splits a record with quotes.
func (c *csvReader) quoted() error {
	c.fields = c.fields[:0]
	c.plain = append(c.plain[:0], c.joined...) // long enough for all fields
	rest, out := c.joined, c.plain[:0]
	for {
		from := len(out)
		if len(rest) > 0 && rest[0] == '"' {
			rest = rest[1:]
			for {
				i := bytes.IndexByte(rest, '"')
				if i < 0 {
					return c.badQuotes()
				}
				out = append(out, rest[:i]...)
				rest = rest[i+1:]
				if len(rest) == 0 || rest[0] != '"' {
					break
				}
				out = append(out, '"')
				rest = rest[1:]
			}
		} else {
			i := bytes.IndexByte(rest, ',')
			if i < 0 {
				i = len(rest)
			}
			if bytes.IndexByte(rest[:i], '"') >= 0 {
				return c.badQuotes()
			}
			out = append(out, rest[:i]...)
			rest = rest[i:]
		}
		c.fields = append(c.fields, out[from:len(out):len(out)])
		if len(rest) == 0 {
			return nil
		}
		if rest[0] != ',' {
			return c.badQuotes()
		}
		rest = rest[1:]
	}
}

func (c *csvReader) badQuotes() error {
	e := c.in.Errorf("a quote is in the wrong place")
	e.Line = c.first
	return e
}
