package strace

import (
	"bytes"
	"ckpt/iotrace"
)

// The kinds of lines.
type lineKind uint8

const (
	unknownLine    lineKind = iota
	callLine                // a whole call
	unfinishedLine          // the beginning of one
	resumedLine             // the rest of a call
	exitLine                // the end of a process or thread
	supersededLine          // exec made this thread the process; number in name
	attachedLine            // strace follows a new process; number in name
	messageLine             // a signal, or a message of strace
)

// The zero points of times.
type clock uint8

const (
	noClock  clock = iota
	dayClock       // midnight
	unixClock
)

// An entry is a split line. Its parts share the line's memory.
type entry struct {
	kind  lineKind
	pid   int64 // 0 if missing
	clock clock
	time  int64  // ns
	name  []byte // of the call
	text  []byte // the text behind the parenthesis; of a resumed line, "resumed>"
}

// split splits a line into process, time and the rest.
func split(l []byte) entry {
	var e entry
	rest := l
	if after, ok := bytes.CutPrefix(l, []byte("[pid ")); ok {
		number, after, ok := leadingProcess(bytes.TrimLeft(after, " "))
		after, closed := bytes.CutPrefix(bytes.TrimLeft(after, " "), []byte("]"))
		if !ok || !closed {
			return e
		}
		e.pid, rest = number, after
	} else if len(l) > 0 && l[0] >= '0' && l[0] <= '9' {
		// The first word is a process, or a time if it has a point or colon or is
		// large.
		if number, after, ok := leadingProcess(l); ok {
			e.pid, rest = number, after
		}
	}
	rest = bracketed(rest) // the context of --secontext
	if word, after := iotrace.Field(rest); len(word) > 0 && word[0] >= '0' && word[0] <= '9' {
		if e.clock, e.time = parseTime(word); e.clock == noClock {
			return e
		}
		rest = after
		if next, after := iotrace.Field(rest); bytes.HasPrefix(next, []byte("(+")) { // -r
			_, rest = iotrace.Field(after)
			if bytes.HasSuffix(next, []byte(")")) {
				rest = after
			}
		}
		rest = bracketed(rest) // the number of the call (-n), and its address (-i)
	}
	e.body(blanksOff(rest))
	return e
}

// bracketed cuts words in brackets off the beginning, except a message of strace.
func bracketed(b []byte) []byte {
	for {
		word := blanksOff(b)
		if len(word) == 0 || word[0] != '[' || bytes.HasPrefix(word, []byte("[ Process ")) {
			return b
		}
		i := bytes.IndexByte(word, ']')
		if i < 0 {
			return b
		}
		b = word[i+1:]
	}
}

// blanksOff cuts blanks off the beginning, in a fifth of the time of bytes.TrimLeft.
func blanksOff(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// leadingProcess reads the number of a process, and the name of its thread that -Y adds,
// which may have blanks: 123<GC Thread#0>. A comment of --decode-pids=pidns may follow.
func leadingProcess(b []byte) (pid int64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	pid, ok = iotrace.Int(b[:i])
	rest = b[i:]
	if len(rest) > 0 && rest[0] == '<' {
		n := bytes.IndexByte(rest, '>')
		if n < 0 {
			return 0, b, false
		}
		rest = rest[n+1:]
	}
	if len(rest) == 0 || rest[0] != ' ' && rest[0] != '\t' && rest[0] != ']' {
		return 0, b, false
	}
	if comment, is := bytes.CutPrefix(rest, []byte(" /* ")); is {
		if outside, is := ownNumber(rest); is {
			pid = outside
		}
		if n := bytes.Index(comment, []byte("*/")); n >= 0 {
			rest = comment[n+2:]
		}
	}
	return pid, rest, ok && pid > 0 && pid <= maxProcess
}

// maxProcess is above all process numbers: the kernel uses at most 2^22.
const maxProcess = 1 << 22

// parseTime reads a time of -t, -tt, -ttt or --absolute-timestamps.
func parseTime(b []byte) (clock, int64) {
	h, rest, ok := bytes.Cut(b, []byte(":"))
	if !ok {
		ns, ok := iotrace.Seconds(b)
		if !ok || ns < 0 {
			return noClock, 0
		}
		return unixClock, ns
	}
	m, s, ok := bytes.Cut(rest, []byte(":"))
	hours, hok := iotrace.Int(h)
	minutes, mok := iotrace.Int(m)
	ns, sok := iotrace.Seconds(s)
	if !ok || !hok || !mok || !sok || hours < 0 || hours > 23 || minutes < 0 || minutes > 59 || ns < 0 || ns >= 61e9 {
		return noClock, 0
	}
	return dayClock, (hours*60+minutes)*60e9 + ns
}

// body handles the text behind the time.
func (e *entry) body(b []byte) {
	if len(b) > 0 && isName(b[0]) && !bytes.HasPrefix(b, []byte("strace: ")) { // the usual case
		e.called(b)
		return
	}
	switch {
	case bytes.HasPrefix(b, []byte("+++ superseded by execve in pid ")):
		e.kind = supersededLine
		e.name, _ = iotrace.Field(b[len("+++ superseded by execve in pid "):])
	case bytes.HasPrefix(b, []byte("+++ ")):
		e.kind = exitLine
	case bytes.HasPrefix(b, []byte("--- ")), bytes.HasPrefix(b, []byte("[ Process PID=")):
		e.kind = messageLine
	case bytes.HasPrefix(b, []byte("strace: ")):
		e.kind = messageLine
		if n, ok := bytes.CutPrefix(b, []byte("strace: Process ")); ok {
			if n, ok = bytes.CutSuffix(n, []byte(" attached")); ok {
				e.kind, e.name = attachedLine, n
			}
		}
	case bytes.HasPrefix(b, []byte("<... ")):
		name, text, ok := bytes.Cut(b[len("<... "):], []byte(" resumed>"))
		if ok {
			e.kind, e.name, e.text = resumedLine, name, text
		}
	}
}

// called is body for a line that begins with the name of a call.
func (e *entry) called(b []byte) {
	i := 0
	for i < len(b) && isName(b[i]) {
		i++
	}
	if i == len(b) || b[i] != '(' {
		return
	}
	e.kind, e.name, e.text = callLine, b[:i], b[i+1:]
	if text, ok := bytes.CutSuffix(e.text, []byte("<unfinished ...>")); ok {
		e.kind, e.text = unfinishedLine, text
	}
}

func isName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '?'
}

// numbers has the values of the flags that matter here, as -X raw prints them. Those of
// opens are the ones of x86; those of ARM and POWER differ in O_DIRECT and O_TMPFILE.
var numbers = map[string]int64{
	"O_CREAT": 0o100, "O_EXCL": 0o200, "O_TRUNC": 0o1000, "O_APPEND": 0o2000, "O_DSYNC": 0o10000,
	"O_SYNC": 0o4010000, "O_DIRECT": 0o40000, "O_CLOEXEC": 0o2000000, "O_TMPFILE": 0o20200000,
	"S_IFMT": 0o170000, "S_IFIFO": 0o010000, "S_IFCHR": 0o020000, "S_IFBLK": 0o060000,
	"S_IFREG": 0o100000, "S_IFSOCK": 0o140000,
	"CLONE_VM": 0x100, "CLONE_FS": 0x200, "CLONE_FILES": 0x400, "CLONE_THREAD": 0x10000,
	"CLONE_PIDFD": 0x1000, "CLOSE_RANGE_UNSHARE": 2, "CLOSE_RANGE_CLOEXEC": 4,
	"AT_EMPTY_PATH": 0x1000, "RENAME_EXCHANGE": 2, "RWF_DSYNC": 2, "RWF_SYNC": 4,
	"RWF_APPEND": 0x10, "RWF_NOAPPEND": 0x20, "FD_CLOEXEC": 1, "LOCK_NB": 4, "LOCK_UN": 8,
	"PROT_READ": 1, "PROT_WRITE": 2, "PROT_EXEC": 4, "MAP_SHARED": 1, "MAP_SHARED_VALIDATE": 3,
	"MAP_ANONYMOUS": 0x20, "MAP_DENYWRITE": 0x800, "IORING_SETUP_SQPOLL": 2,
	"FALLOC_FL_KEEP_SIZE": 1, "FALLOC_FL_PUNCH_HOLE": 2, "FALLOC_FL_COLLAPSE_RANGE": 8,
	"FALLOC_FL_INSERT_RANGE": 0x20,
	"SOCK_CLOEXEC":           0o2000000, "EFD_CLOEXEC": 0o2000000, "EPOLL_CLOEXEC": 0o2000000,
	"IN_CLOEXEC": 0o2000000, "TFD_CLOEXEC": 0o2000000, "SFD_CLOEXEC": 0o2000000,
	"MFD_CLOEXEC": 1,
}

// values has the constants that are no flags.
var values = map[string]int64{
	"SEEK_SET": 0, "SEEK_CUR": 1, "SEEK_END": 2,
	"F_DUPFD": 0, "F_SETFD": 2, "F_SETFL": 4, "F_SETLKW": 7, "F_OFD_SETLKW": 38,
	"F_DUPFD_CLOEXEC": 1030, "F_RDLCK": 0, "F_WRLCK": 1, "F_UNLCK": 2,
	"FIOCLEX": 0x5451, "FIONCLEX": 0x5450, "FICLONE": 0x40049409, "FICLONERANGE": 0x4020940d,
	"FIDEDUPERANGE": 0xc0189436,
}

// hasFlag reports whether flags contain one: O_RDWR|O_CREAT, or 0x42 of -X raw, or
// 0x42 /* O_RDWR|O_CREAT */ of -X verbose.
func hasFlag(flags []byte, flag string) bool {
	if n, ok := printed(flags); ok {
		bits, known := numbers[flag]
		mask := bits
		if flag[0] == 'S' && flag[1] == '_' {
			mask = numbers["S_IFMT"]
		}
		return known && n&mask == bits
	}
	for {
		i := bytes.Index(flags, []byte(flag))
		if i < 0 {
			return false
		}
		end := i + len(flag)
		if (i == 0 || !isFlag(flags[i-1])) && (end == len(flags) || !isFlag(flags[end])) {
			return true
		}
		flags = flags[end:]
	}
}

// printed reads constants that strace printed as a number, without their names.
func printed(b []byte) (int64, bool) {
	if len(b) == 0 || b[0] < '0' || b[0] > '9' {
		return 0, false // the usual case
	}
	if len(b) > 1 && b[0] == '0' && b[1] != 'x' { // a mode
		var n int64
		for _, d := range b {
			if d < '0' || d > '7' || n > 1<<32 {
				return 0, false
			}
			n = n<<3 | int64(d-'0')
		}
		return n, true
	}
	if i := bytes.IndexByte(b, '|'); i >= 0 && bytes.IndexByte(b, '*') < 0 {
		b = b[:i] // the signal of clone follows
	}
	return integer(b)
}

// is reports whether an argument is a constant, in any style of -X.
func is(b []byte, name string) bool {
	if string(b) == name {
		return true
	}
	if n, ok := printed(b); ok {
		value, known := values[name]
		return known && n == value
	}
	_, comment, ok := bytes.Cut(b, []byte("/* "))
	return ok && string(bytes.TrimSuffix(comment, []byte(" */"))) == name
}

func isFlag(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}
