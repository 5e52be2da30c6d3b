package strace

import (
	"bytes"
	"ckpt/iotrace"
)

// splitArgs splits the arguments of a call, up to the closing parenthesis, and returns
// the rest of the line.
func splitArgs(args [][]byte, b []byte) (_ [][]byte, after []byte, ok bool) {
	from, depth := 0, 0
	notes := 16 // bound of notes without an end: the search takes long
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringLength(b[i:])
			if n == 0 {
				return args, nil, false
			}
			i += n - 1
		case '<':
			if i+1 < len(b) && b[i+1] == '<' { // a shift, as in 21<<MAP_HUGE_SHIFT
				i++
				continue
			}
			if notes == 0 {
				continue
			}
			if n := noteLength(b[i:]); n > 0 {
				i += n - 1
			} else {
				notes--
			}
		case '/':
			if bytes.HasPrefix(b[i:], []byte("/*")) {
				n := bytes.Index(b[i:], []byte("*/"))
				if n < 0 {
					return args, nil, false
				}
				i += n + 1
			}
		case '(', '[', '{':
			depth++
		case ']', '}':
			depth--
		case ')':
			if depth > 0 {
				depth--
				continue
			}
			if arg := bytes.TrimSpace(b[from:i]); len(arg) > 0 || len(args) > 0 {
				args = append(args, arg)
			}
			return args, b[i+1:], true
		case ',':
			if depth == 0 {
				args = append(args, bytes.TrimSpace(b[from:i]))
				from = i + 1
			}
		}
	}
	return args, nil, false
}

// stringLength returns the length of the quoted string at the beginning of b, 0
// if it has no end.
func stringLength(b []byte) int {
	for i := 1; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return 0
		}
		end := i + n
		escapes := 0
		for end-escapes > i && b[end-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end + 1
		}
		i = end + 1
	}
	return 0
}

// noteLength returns the length of the note that -y adds to a descriptor, as in
// 3</dev/pts/0<char 136:0>> or 4<TCP:[127.0.0.1:1->127.0.0.1:2]>, or 0 without a note.
// strace escapes brackets in paths.
func noteLength(b []byte) int {
	name := 1
	for name < len(b) && (isName(b[name]|0x20) || b[name] == '-') {
		name++
	}
	if name > 1 && bytes.HasPrefix(b[name:], []byte(":[")) { // a protocol
		if n := bytes.Index(b[name:], []byte("]>")); n > 0 {
			return name + n + 2
		}
		return 0
	}
	depth := 0
	for i, c := range b {
		switch c {
		case '<':
			depth++
		case '>':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

type result struct {
	value   int64
	failed  bool   // or never returned
	reason  []byte // name of the error of a failed call, like ENOSPC
	note    []byte // the text of -y for a descriptor
	seconds int64  // ns that the call took; -1 if that is not known
	odd     bool   // the duration is impossible
}

// maxDuration is longer than any call. A longer time is damage.
const maxDuration = 366 * dayLength

// parseResult reads " = 3</f> <0.000012>".
func parseResult(b []byte) (r result, ok bool) {
	b = bytes.TrimLeft(b, " \t")
	if len(b) == 0 || b[0] != '=' {
		return r, false
	}
	b = bytes.TrimSpace(b[1:])
	i := 0
	for i < len(b) && b[i] != ' ' && b[i] != '<' {
		i++
	}
	word, rest := b[:i], b[i:]
	if len(rest) > 0 && rest[0] == '<' {
		n := noteLength(rest)
		if n == 0 {
			return r, false
		}
		r.note, rest = rest[1:n-1], rest[n:]
	}
	r.seconds, r.odd = duration(rest)
	switch {
	case string(word) == "?":
		r.failed = true
	case bytes.HasPrefix(word, []byte("0x")): // an address, or a number of strace -e raw
		r.value, _ = hexNumber(word[2:])
	default:
		if r.value, ok = iotrace.Int(word); !ok {
			return r, false
		}
		if r.failed = r.value < 0; r.failed {
			r.reason, _, _ = bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
		}
	}
	if outside, ok := ownNumber(rest); ok {
		r.value = outside
	}
	return r, true
}

// ownNumber reads the number that --decode-pids=pidns adds to that of a process in a
// container: 5 /* 4712 in strace's PID NS */. Lines have this number.
func ownNumber(b []byte) (int64, bool) {
	b, ok := bytes.CutPrefix(bytes.TrimLeft(b, " "), []byte("/* "))
	if !ok {
		return 0, false
	}
	number, rest := iotrace.Field(b)
	if !bytes.HasPrefix(rest, []byte(" in strace's PID NS */")) {
		return 0, false
	}
	return iotrace.Int(number)
}

// duration reads the time that -T adds at the end: <0.000012>. It returns -1 without
// one.
func duration(b []byte) (ns int64, odd bool) {
	n := len(b)
	if n == 0 || b[n-1] != '>' {
		return -1, false
	}
	at := bytes.LastIndexByte(b, '<')
	if at < 0 {
		return -1, false
	}
	word := b[at+1 : n-1]
	ns, ok := iotrace.Seconds(word)
	if ok && ns >= 0 && ns <= maxDuration {
		return ns, false
	}
	return -1, len(word) > 0 && len(bytes.Trim(word, "-.0123456789")) == 0
}

// parseFD reads a descriptor and the note of -y, with the mark that is behind it if the
// file was deleted. AT_FDCWD is number -100. A comment (-X verbose) and a context
// (--secontext) may follow.
func parseFD(b []byte) (fd int64, note []byte, ok bool) {
	i := bytes.IndexByte(b, '<')
	word := b
	if i >= 0 {
		n := noteLength(b[i:])
		if n == 0 {
			return 0, nil, false
		}
		word, note = b[:i], b[i+1:i+n-1]
		if bytes.HasPrefix(b[i+n:], deletedMark) {
			note = b[i+1 : i+n+len(deletedMark)]
		}
	}
	if i := bytes.IndexByte(word, ' '); i >= 0 {
		word = word[:i]
	}
	if string(word) == "AT_FDCWD" {
		return atCWD, note, true
	}
	fd, ok = integer(word)
	if fd == 1<<32+atCWD { // of strace -e raw
		fd = atCWD
	}
	return fd, note, ok && fd == int64(int32(fd))
}

const atCWD = -100

// deletedMark follows the note of a file that was deleted since it was opened. Before
// strace 5.15 it was a part of the path, with a blank.
var deletedMark = []byte("(deleted)")

// integer reads a number, in hex if strace printed it raw.
func integer(b []byte) (int64, bool) {
	if len(b) > 2 && b[1] == 'x' {
		return hexNumber(b[2:])
	}
	return iotrace.Int(b)
}

// firstWord returns the first argument of an incomplete call. Paths of -y may have
// commas.
func firstWord(b []byte) []byte {
	i := bytes.IndexAny(b, "<,)")
	if i >= 0 && b[i] == '<' {
		i += noteLength(b[i:])
		return bytes.TrimSpace(b[:i])
	}
	if i < 0 {
		i = len(b)
	}
	return bytes.TrimSpace(b[:i])
}

// parseString reads a quoted string. whole is false if strace has shortened it. The
// context of a file may follow (--secontext).
func parseString(b []byte) (s string, whole, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return "", false, false
	}
	n := stringLength(b)
	if n == 0 {
		return "", false, false
	}
	return unescape(b[1 : n-1]), n == len(b) || b[n] == ' ', true
}

// unescape resolves the escapes of C.
func unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		i++
		switch c := b[i]; {
		case c >= '0' && c <= '7':
			v := 0
			for n := 0; n < 3 && i < len(b) && b[i] >= '0' && b[i] <= '7'; n++ {
				v = v<<3 | int(b[i]-'0')
				i++
			}
			i--
			out = append(out, byte(v))
		case c == 'x' && i+2 < len(b):
			out = append(out, hexDigit(b[i+1])<<4|hexDigit(b[i+2]))
			i += 2
		default:
			if at := bytes.IndexByte([]byte("abfnrtve"), c); at >= 0 {
				c = "\a\b\f\n\r\t\v\x1b"[at]
			}
			out = append(out, c)
		}
	}
	return string(out)
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0
}

// member returns the value of a member of a structure, as in {st_size=5, ...}.
func member(b []byte, name string) []byte {
	i := bytes.Index(b, []byte(name+"="))
	if i < 0 {
		return nil
	}
	b = b[i+len(name)+1:]
	if i := bytes.IndexAny(b, ",}"); i >= 0 {
		b = b[:i]
	}
	return bytes.TrimSpace(b)
}

func hexNumber(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 16 || len(b) == 16 && b[0] > '7' {
		return 0, false
	}
	var n int64
	for _, d := range b {
		if d >= 'g' || d < '0' {
			return 0, false
		}
		n = n<<4 | int64(hexDigit(d))
	}
	return n, true
}
