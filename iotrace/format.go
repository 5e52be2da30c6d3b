package iotrace

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// A Format is a kind of file that holds I/O, or may be taken for one.
type Format uint8

// The formats. Those from DarshanLog on are known only to be named in errors.
const (
	FormatUnknown Format = iota
	FormatEvents
	FormatStrace
	FormatDXT
	FormatCSV
	FormatParquet
	formatEmpty
	formatDarshanLog
	formatDarshanText
	formatStraceCount
	formatJSON
	formatGzip
	formatZstd
	formatELF
)

var formatNames = [...]string{
	FormatUnknown:     "something else",
	FormatEvents:      "an events file of ckpt",
	FormatStrace:      "output of strace",
	FormatDXT:         "Darshan DXT text",
	FormatCSV:         "a CSV trace of ckpt",
	FormatParquet:     "a Parquet file",
	formatEmpty:       "an empty file",
	formatDarshanLog:  "a binary Darshan log (print it with darshan-dxt-parser)",
	formatDarshanText: "the counters that darshan-parser prints (use darshan-dxt-parser)",
	formatStraceCount: "the summary of strace -c",
	formatJSON:        "JSON",
	formatGzip:        "compressed by gzip (unpack it first)",
	formatZstd:        "compressed by zstd (unpack it first)",
	formatELF:         "a program or core file",
}

// String says what a file of the format is.
func (f Format) String() string { return formatNames[f] }

// HeadBytes are enough of a file to tell its format.
const HeadBytes = 4096

// Detect tells the format of a file by its first HeadBytes, or all if there are
// not as many.
func Detect(head []byte) Format {
	switch {
	case len(head) == 0:
		return formatEmpty
	case bytes.HasPrefix(head, []byte(magic)):
		return FormatEvents
	case bytes.HasPrefix(head, []byte("PAR1")):
		return FormatParquet
	case isDarshanLog(head):
		return formatDarshanLog
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return formatGzip
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return formatZstd
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return formatELF
	}
	text := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(text) == 0:
		return FormatUnknown
	case bytes.HasPrefix(text, []byte("#ckpt-trace,")), bytes.HasPrefix(text, []byte("op,module,")):
		return FormatCSV
	case bytes.HasPrefix(text, []byte("# darshan log version:")), bytes.HasPrefix(text, []byte("# DXT, ")):
		if bytes.Contains(text, []byte("# description of columns:")) {
			return formatDarshanText
		}
		return FormatDXT
	case bytes.HasPrefix(text, []byte("% time ")):
		return formatStraceCount
	case looksLikeStrace(text):
		return FormatStrace
	case text[0] == '{' || text[0] == '[':
		return formatJSON
	}
	return FormatUnknown
}

// isDarshanLog knows the header of a binary log: the version as text in 8 bytes,
// then a magic number in the byte order of the machine.
func isDarshanLog(head []byte) bool {
	const magic = 6567223
	return len(head) >= 16 && (binary.LittleEndian.Uint64(head[8:]) == magic || binary.BigEndian.Uint64(head[8:]) == magic)
}

// looksLikeStrace reports whether most of the whole lines are such as strace
// writes.
func looksLikeStrace(text []byte) bool {
	yes, no := 0, 0
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case isStraceLine(line):
			yes++
		case whole || yes+no == 0:
			no++
		}
	}
	return yes > no
}

// isStraceLine skips process, time and the like, which are numbers, and looks at
// what comes then.
func isStraceLine(line []byte) bool {
	const numbers = " 0123456789:.()]"
	line = bytes.TrimPrefix(line, []byte("[pid"))
	line = bytes.TrimLeft(line, numbers)
	if _, after, ok := bytes.Cut(line, []byte(">")); ok && line[0] == '<' && !bytes.HasPrefix(line, []byte("<...")) {
		line = bytes.TrimLeft(after, numbers) // the name of the process, of -Y
	}
	if bytes.HasPrefix(line, []byte("+")) && !bytes.HasPrefix(line, []byte("+++")) { // a time relative to the last line
		line = bytes.TrimLeft(line[1:], numbers)
	}
	for _, prefix := range []string{"<... ", "+++ ", "--- ", "strace: "} {
		if bytes.HasPrefix(line, []byte(prefix)) {
			return true
		}
	}
	name := 0
	for name < len(line) && (line[name] == '_' || line[name] >= 'a' && line[name] <= 'z' || name > 0 && line[name] >= '0' && line[name] <= '9') {
		name++
	}
	return name > 0 && name < len(line) && line[name] == '('
}

// WrongFormat is the error of a reader of one format that was given a file which
// begins so.
func WrongFormat(head []byte, want Format) error {
	e := &FormatError{Err: ErrWrongFormat}
	if want != FormatEvents && want != FormatParquet {
		e.Line = 1
	}
	switch found := Detect(head); found {
	case FormatUnknown, want:
		e.Reason = fmt.Sprintf("this is not %v", want)
	default:
		e.Reason = fmt.Sprintf("this is %v, not %v", found, want)
	}
	return e
}
