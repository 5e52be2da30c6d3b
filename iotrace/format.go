package iotrace

import (
	"bytes"
	"ckpt/internal/lazy"
	"encoding/binary"
	"fmt"
	"strings"
)

// A Format is a kind of file that holds a trace, or that users mistake for one.
type Format uint8

// The formats. Detect knows those from formatEmpty on only to name them in errors.
const (
	FormatUnknown Format = iota
	FormatEvents
	FormatStrace
	FormatDXT
	FormatCSV
	FormatParquet
	FormatDarshan
	FormatJSON
	FormatKernel // no file: calls that programs in the kernel recorded
	formatEmpty
	formatDarshanText
	formatStraceCount
	formatPacked
	formatELF
)

var formatNames = [...]string{
	FormatUnknown:     "no trace",
	FormatEvents:      "an events file of ckpt",
	FormatStrace:      "output of strace",
	FormatDXT:         "Darshan DXT text",
	FormatCSV:         "a CSV trace of ckpt",
	FormatParquet:     "a Parquet file",
	FormatDarshan:     "a Darshan log",
	FormatKernel:      "calls recorded by the kernel",
	formatEmpty:       "an empty file",
	formatDarshanText: "the counters that darshan-parser prints (use darshan-dxt-parser)",
	formatStraceCount: "the summary of strace -c",
	FormatJSON:        "JSON",
	formatPacked:      "packed (unpack it first)",
	formatELF:         "a program or core file",
}

// String describes a file of the format.
func (f Format) String() string { return formatNames[f] }

// Readable reports whether files of the format are read as traces.
func (f Format) Readable() bool { return f > FormatUnknown && f < FormatKernel }

// HeadBytes are enough of a file to tell its format.
const HeadBytes = 4096

// Detect returns the format of a file, from its first HeadBytes or the whole of a
// shorter file.
func Detect(head []byte) Format {
	switch {
	case len(head) == 0:
		return formatEmpty
	case beginsEvents(head):
		return FormatEvents
	case bytes.HasPrefix(head, []byte("PAR1")):
		return FormatParquet
	case isDarshanLog(head):
		return FormatDarshan
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}), bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), // gzip, zstd
		bytes.HasPrefix(head, []byte("\xfd7zXZ")), bytes.HasPrefix(head, []byte("BZh")):
		return formatPacked
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return formatELF
	}
	text := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(text) == 0:
		return FormatUnknown
	case bytes.HasPrefix(text, []byte("#ckpt-trace,")), isCSVHeader(text):
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
		return FormatJSON
	}
	return FormatUnknown
}

var firstDarshan = lazy.Regexp(`^1\.\d\d?\x00{4}`)

// isCSVHeader reports whether the first line names the columns that events need.
func isCSVHeader(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if first, rest, _ := bytes.Cut(text, []byte("\n")); NamesSeparator(first) {
		text = rest
	}
	found := 0
	first, _, _ := bytes.Cut(text, []byte("\n"))
	for name := range bytes.SplitSeq(first, []byte{Separator(text)}) {
		switch string(bytes.Trim(name, "\" \r")) {
		case "op", "start_ns", "end_ns":
			found++
		}
	}
	return found >= 3
}

// NamesSeparator reports whether the first line of a table names what stands between its
// fields, as Excel has it: sep=;
func NamesSeparator(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimPrefix(line, []byte("\ufeff")), []byte("sep="))
}

// Separator returns what stands between the fields of a table that begins with head: the
// comma, semicolon or tab that is most frequent among the names of its columns.
func Separator(head []byte) byte {
	first, rest, _ := bytes.Cut(bytes.TrimSpace(head), []byte("\n"))
	if NamesSeparator(first) {
		first, _, _ = bytes.Cut(rest, []byte("\n"))
	}
	best, most := byte(','), bytes.Count(first, []byte(","))
	for _, c := range []byte(";\t") {
		if n := bytes.Count(first, []byte{c}); n > most {
			best, most = c, n
		}
	}
	return best
}

// isDarshanLog recognises the header of a binary log: the version as text in 8 bytes,
// then a magic number in the byte order of the machine, which Darshan 1 did not have.
func isDarshanLog(head []byte) bool {
	const magic = 6567223
	return firstDarshan().Match(head) || len(head) >= 16 && (binary.LittleEndian.Uint64(head[8:]) == magic || binary.BigEndian.Uint64(head[8:]) == magic)
}

// looksLikeStrace reports whether most whole lines look like strace's.
func looksLikeStrace(text []byte) bool {
	yes, no := 0, 0
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		switch {
		case StraceSummary(line):
			return yes > no
		case len(bytes.TrimSpace(line)) == 0, BesideStrace(line):
		case isStraceLine(line):
			yes++
		case whole || yes+no == 0:
			no++
		}
	}
	return yes > no
}

// isStraceLine skips process, time, numbers and words in brackets, and looks at the word
// that follows.
func isStraceLine(line []byte) bool {
	const numbers = " 0123456789:.()"
	line = bytes.TrimPrefix(line, []byte("[pid"))
	for again := true; again; {
		line = bytes.TrimLeft(line, numbers)
		var word []byte
		switch {
		case bytes.HasPrefix(line, []byte("[")): // its context, number or address
			word, line, again = bytes.Cut(line, []byte("]"))
		case bytes.HasPrefix(line, []byte("]")): // behind the process
			line = line[1:]
		case bytes.HasPrefix(line, []byte("/*")): // its number elsewhere
			word, line, again = bytes.Cut(line, []byte("*/"))
		case bytes.HasPrefix(line, []byte("<")) && !bytes.HasPrefix(line, []byte("<...")): // the name of the process, of -Y
			word, line, again = bytes.Cut(line, []byte(">"))
		case bytes.HasPrefix(line, []byte("+")) && !bytes.HasPrefix(line, []byte("+++")): // a time relative to the last line
			line = line[1:]
		default:
			again = false
		}
		if bytes.HasPrefix(word, []byte("[ Process ")) {
			return true
		}
	}
	for _, prefix := range []string{"<... ", "+++ ", "--- ", "strace: ", "????("} { // the last of a call that ended with its thread
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

// BesideStrace reports whether a line may stand below a call of strace: a frame of the
// stack (-k), or bytes that were moved (-e read, -e write).
func BesideStrace(line []byte) bool {
	return bytes.HasPrefix(line, []byte(" > ")) || bytes.HasPrefix(line, []byte(" | ")) || bytes.HasPrefix(line, []byte(" * "))
}

// StraceSummary reports whether the table of strace -C begins with a line, behind which
// are no calls: the titles of columns, which -U chooses, or the line below them.
func StraceSummary(line []byte) bool {
	const titles = "% time seconds usecs/call calls errors syscall min max avg total name count wtime stime"
	if bytes.HasPrefix(line, []byte("------")) {
		return true
	}
	n := 0
	for word := range bytes.FieldsSeq(line) {
		if !strings.Contains(titles, string(word)) {
			return false
		}
		n++
	}
	return n > 1
}

// WrongFormat returns the error of a reader of format want, for a file that begins
// with head.
func WrongFormat(head []byte, want Format) error {
	e := &FormatError{Err: ErrWrongFormat}
	if want != FormatEvents && want != FormatParquet && want != FormatDarshan {
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
