package line

import "math"

// Int reads a decimal number that is all of b.
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
	return -int64(n), n <= 1<<63 // of 1<<63, int64 and minus make the least number
}

// unsigned reads a decimal number without a sign that is all of b.
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

// maxSeconds is as many as nanoseconds can count.
const maxSeconds = math.MaxInt64/1_000_000_000 - 1

// Seconds reads a decimal number of seconds that is all of b, as nanoseconds.
// Digits beyond the ninth behind the point are dropped.
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

// Field returns the first word of b and what follows it. Words are separated by
// blanks and tabs.
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
