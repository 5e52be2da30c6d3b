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
		i := bytes.IndexByte(after, ']')
		if i < 0 {
			return e
		}
		pid, ok := processNumber(bytes.TrimSpace(after[:i]))
		if !ok {
			return e
		}
		e.pid, rest = pid, after[i+1:]
	} else if word, after := iotrace.Field(l); len(word) > 0 && word[0] >= '0' && word[0] <= '9' {
		// The first word is a process, or a time if it has a point or colon or is
		// large.
		if pid, ok := processNumber(word); ok {
			e.pid, rest = pid, after
		}
	}
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
	}
	e.body(bytes.TrimLeft(rest, " \t"))
	return e
}

// maxProcess is above all process numbers: the kernel uses at most 2^22.
const maxProcess = 1 << 22

// processNumber reads 123, or 123<name> as -Y prints it.
func processNumber(b []byte) (int64, bool) {
	if i := bytes.IndexByte(b, '<'); i >= 0 {
		b = b[:i]
	}
	n, ok := iotrace.Int(b)
	return n, ok && n > 0 && n <= maxProcess
}

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
