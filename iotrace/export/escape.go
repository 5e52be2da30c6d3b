package export

import (
	"strings"
	"unicode/utf8"
)

// escaped returns a string as text of UTF-8. Each byte that is none becomes \xHH, as in
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
