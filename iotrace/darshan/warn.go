package darshan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ckpt/iotrace"
)

// warn says what the trace lacks.
func (l *reading) warn() {
	if len(l.notRead) > 0 {
		code, text := iotrace.WarnCountedElsewhere, fmt.Sprintf("The log also has data of %s, which ckpt does not read; darshan-parser prints them.", list(l.notRead))
		if len(l.lost) > 0 {
			code = "modules-not-read"
			text += fmt.Sprintf(" The I/O of %s is missing.", list(l.lost))
		}
		l.warning(code, 0, "%s", text)
	}
	if len(l.newer) > 0 {
		l.warning("module-version", 0, "The log has data of %s in a version that ckpt does not know: their I/O is missing. Use a newer ckpt, or DXT text of darshan-dxt-parser.", list(l.newer))
	}
	const more = " Run the program with DARSHAN_MODMEM=64 (MiB; the default is 4), or have NAME_EXCLUDE leave out files."
	ofDXT := func(name string) bool { return strings.HasPrefix(name, "DXT_") }
	if partial := slices.DeleteFunc(slices.Clone(l.partial), ofDXT); len(partial) > 0 {
		l.warning("partial-data", 0, "Darshan ran out of memory for %s: I/O is missing."+more, list(partial))
	}
	if partial := slices.DeleteFunc(slices.Clone(l.partial), func(name string) bool { return !ofDXT(name) }); len(partial) > 0 {
		l.warning("partial-events", 0, "Darshan ran out of memory for %s: totals are complete, but of later requests only the counters are known, not their order and times."+more, list(partial))
	}
	l.about("stdio-in-posix", &l.oldSTDIO, "Darshan 3.0 counted POSIX and stdio together: the records of files used with fopen are left out, as darshan-parser does.")
	if l.head.minor == 20 {
		l.warning("darshan-3.2.0", 0, "Darshan 3.2.0 wrote wrong values for the commonest request sizes, and maybe for other counters. Use Darshan 3.2.1 or newer.")
	}
	if l.nameless > 0 {
		l.warning("no-names", l.nameless, "Darshan ran out of memory for names: %d files are shown by number. Run the program with DARSHAN_NAMEMEM=8 (MiB; the default is 1).", l.nameless)
	}
	l.about("impossible-segments", &l.odd, "Segments of DXT with impossible offsets, lengths or times are missing.")
	if l.negative > 0 {
		l.warning("negative-sums", l.negative, "Sums of times that are negative in the log, a fault of Darshan, count as unknown: %d.", l.negative)
	}
	l.about("negative-durations", &l.oddTimes, "Segments of DXT end before they start: their duration counts as 0.")
}

// A tally counts what a warning is about, by file.
type tally map[int32]*iotrace.WarnedFile

func (y *tally) add(file int32, bytes int64) {
	if *y == nil {
		*y = make(tally)
	}
	f := (*y)[file]
	if f == nil {
		f = &iotrace.WarnedFile{File: file}
		(*y)[file] = f
	}
	f.Count++
	f.Bytes = iotrace.Sum(f.Bytes, max(bytes, 0))
}

// about is warning for what is counted by file.
func (l *reading) about(code string, y *tally, text string) {
	if len(*y) == 0 {
		return
	}
	w := iotrace.Warning{Code: code, Text: text}
	for _, file := range slices.Sorted(maps.Keys(*y)) {
		f := *(*y)[file]
		w.Count += f.Count
		w.Bytes = iotrace.Sum(w.Bytes, f.Bytes)
		w.Files = append(w.Files, f)
	}
	l.t.Warnings = append(l.t.Warnings, w)
}

func (l *reading) warning(code string, count int64, text string, args ...any) {
	l.t.Warnings = append(l.t.Warnings, iotrace.Warning{Code: code, Text: fmt.Sprintf(text, args...), Count: count})
}

// list joins names: A, B and C.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
