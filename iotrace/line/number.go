package line

import "math"

// Int parses a decimal number; b must have nothing else.
func Int(b []byte) (int64, bool) {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	n, ok := unsigned(digits)
	switch {
	case !ok:
		return 0, false
	case len(digits) == len(b):
		return int64(n), n <= math.MaxInt64
	}
	return -int64(n), n <= 1<<63 // 1<<63 wraps to the smallest number, as it should
}

// unsigned parses a decimal number without a sign; b must have nothing else.
func unsigned(b []byte) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > math.MaxUint64/10 || n == math.MaxUint64/10 && d > math.MaxUint64%10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// maxSeconds is the most seconds that fit into int64 nanoseconds.
const maxSeconds = math.MaxInt64/1_000_000_000 - 1

// Seconds parses a decimal number of seconds into nanoseconds; b must have nothing
// else. It drops digits beyond the ninth decimal.
func Seconds(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	var whole, nanos int64
	i := 0
	for ; i < len(b) && b[i] != '.'; i++ {
		d := b[i] - '0'
		if d > 9 || whole > maxSeconds/10 {
			return 0, false
		}
		whole = whole*10 + int64(d)
	}
	digits := i
	scale := int64(100_000_000)
	for i++; i < len(b); i++ {
		d := b[i] - '0'
		if d > 9 {
			return 0, false
		}
		nanos += int64(d) * scale
		scale /= 10
		digits++
	}
	if digits == 0 || whole > maxSeconds {
		return 0, false
	}
	n := whole*1_000_000_000 + nanos
	if negative {
		n = -n
	}
	return n, true
}

// Field returns the first word of b and the rest. Blanks and tabs separate words.
func Field(b []byte) (word, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	from := i
	for i < len(b) && b[i] != ' ' && b[i] != '\t' {
		i++
	}
	return b[from:i], b[i:]
}
