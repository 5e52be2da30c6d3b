package read

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ckpt/iotrace"
)

// maxRanks bounds the list of ranks that a log announces.
const maxRanks = 1 << 20

// Darshan reads a log of so many bytes. With Lenient it returns the modules in front of the
// damage and behind it.
func Darshan(r io.ReaderAt, size int64, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	rep := &iotrace.Report{}
	head, err := readHeader(r, size)
	if err != nil {
		return nil, rep, noPart(err)
	}
	l := &reading{r: r, size: size, o: o, head: head, rep: rep, files: make(map[uint64]int32), others: make(map[int64]int32),
		t: &iotrace.Trace{Source: "darshan", Events: make([]iotrace.Event, 0, o.Events)}}
	l.tables = iotrace.NewTables(l.t)
	if err := l.readJob(); err != nil {
		return nil, rep, noPart(err)
	}
	if err := l.survive(l.readNames()); err != nil {
		return nil, rep, err
	}
	for i := range head.modules {
		if err := l.survive(l.readModule(i)); err != nil {
			return nil, rep, err
		}
	}
	l.t.Sort()
	l.rename()
	l.warn()
	return l.t, rep, nil
}

// noPart marks an error without which nothing else of the log can be read.
func noPart(err error) error {
	var fe *iotrace.FormatError
	if errors.As(err, &fe) {
		fe.NoPart = true
	}
	return err
}

// A reading is a log that is being read.
type reading struct {
	r    io.ReaderAt
	size int64
	o    iotrace.Options
	head *header
	rep  *iotrace.Report
	done int64 // bytes read

	t      *iotrace.Trace
	tables *iotrace.Tables
	nprocs int64
	names  map[uint64]string
	files  map[uint64]int32 // index by number of the record
	others map[int64]int32  // index of ranks that the job does not announce

	renamed []renamed

	// Reasons for warnings.
	notRead, newer, partial []string
	lost                    []string // not read, and their I/O is in no other module
	nameless, negative      int64
	oldSTDIO, odd, oddTimes tally
}

func (l *reading) tell(n int64) {
	l.done += n
	if l.o.Progress != nil {
		l.o.Progress(min(l.done, l.size))
	}
}

// survive keeps a lenient reading going if a part of the log cannot be read.
func (l *reading) survive(err error) error {
	var fe *iotrace.FormatError
	if !l.o.Lenient || !errors.As(err, &fe) {
		return err
	}
	if l.rep.Cut == nil {
		l.rep.Cut = err
	}
	l.rep.Note(0, "", err.Error())
	return nil
}

func (l *reading) readModule(i int) error {
	m := l.head.modules[i]
	if m.length == 0 && !m.partial {
		return nil
	}
	name := moduleName(i)
	last, ok := latest[i]
	if m.partial {
		l.partial = append(l.partial, name)
	}
	switch {
	case m.length == 0:
		return nil
	case !ok:
		l.notRead = append(l.notRead, name)
		if !aboveOthers[i] {
			l.lost = append(l.lost, name)
		}
		return nil
	case m.version > last:
		l.newer = append(l.newer, name)
		return nil
	}
	g, err := l.open("data of "+name, m.place)
	if err != nil {
		return err
	}
	if m.version == 0 {
		return damaged(m.off, "the records of %s have version 0", name)
	}
	switch i {
	case lustre:
		return l.readLustre(g, m.version)
	case dxtPOSIX:
		return l.readDXT(g, iotrace.POSIX, m.version > 1, false)
	case dxtMPIIO:
		return l.readDXT(g, iotrace.MPIIO, m.version > 2, m.version == 1)
	}
	return l.readCounters(g, i, m.version)
}

// readNames reads the paths of the records.
func (l *reading) readNames() error {
	l.names = make(map[uint64]string)
	if l.head.names.length == 0 {
		return nil
	}
	g, err := l.open("names", l.head.names)
	if err != nil {
		return err
	}
	var number [8]byte
	for {
		if err := g.fill(number[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		id := l.head.order.Uint64(number[:])
		name, err := l.readName(g)
		if err != nil {
			return err
		}
		if name != "" && l.names[id] == "" {
			l.names[id] = name
		}
	}
}

func (l *reading) readName(g *region) (string, error) {
	if l.head.minor > 0 {
		return g.text()
	}
	var length [4]byte
	if err := g.rest(length[:]); err != nil {
		return "", err
	}
	var name bytes.Buffer
	for n := int64(l.head.order.Uint32(length[:])); n > 0; {
		piece := make([]byte, min(n, 4096))
		if err := g.rest(piece); err != nil {
			return "", err
		}
		name.Write(piece)
		n -= int64(len(piece))
	}
	return strings.TrimRight(name.String(), "\x00"), nil
}

// file returns the index of a record's file.
func (l *reading) file(id uint64) int32 {
	if i, ok := l.files[id]; ok {
		return i
	}
	name := l.names[id]
	if name == "" {
		l.nameless++
		name = fmt.Sprintf("<record %d>", id)
	}
	i := l.tables.File(name)
	l.files[id] = i
	return i
}

// rank returns the index of a rank; None stands for all ranks together.
func (l *reading) rank(n int64, at int64) (int32, error) {
	switch {
	case n == iotrace.None:
		return iotrace.None, nil
	case n < 0 || n > 1<<31-1:
		return 0, damaged(at, "rank %d", n)
	case n < l.nprocs:
		return int32(n), nil
	}
	i, ok := l.others[n]
	if !ok {
		i = l.tables.Rank(iotrace.Rank{Rank: int(n)})
		l.others[n] = i
	}
	return i, nil
}

// The modules, by the number in the header.
const (
	posix      = 1
	mpiio      = 2
	h5d        = 4
	pnetcdfVar = 6
	lustre     = 8
	stdio      = 9
	dxtPOSIX   = 10
	dxtMPIIO   = 11
)

var moduleNames = [...]string{"NULL", "POSIX", "MPI-IO", "H5F", "H5D", "PNETCDF_FILE", "PNETCDF_VAR", "BG/Q", "LUSTRE", "STDIO", "DXT_POSIX", "DXT_MPIIO", "MDHIM",
	"APXC", "APMPI", "HEATMAP", "DFS", "DAOS"}

func moduleName(i int) string {
	if i < len(moduleNames) {
		return moduleNames[i]
	}
	return fmt.Sprintf("number %d", i)
}

// latest has the newest version of the modules that this package reads.
var latest = map[int]uint32{posix: 4, mpiio: 3, stdio: 2, lustre: 2, dxtPOSIX: 2, dxtMPIIO: 3}

// aboveOthers has the modules that this package does not read without losing I/O. The
// libraries of H5F, H5D, PNETCDF_FILE and PNETCDF_VAR call MPI-IO, POSIX or stdio,
// HEATMAP adds up other modules, BG/Q, APXC and APMPI know no files.
var aboveOthers = map[int]bool{3: true, h5d: true, 5: true, pnetcdfVar: true, 7: true, 13: true, 14: true, 15: true}

// A renamed file has another name from some time on.
type renamed struct {
	from uint64 // record of the old name
	to   int32
}

// rename keeps which files were renamed. Darshan does not know when: a program renames
// a file that it has closed, so the last time in the records of the old name stands
// for it.
func (l *reading) rename() {
	if len(l.renamed) == 0 {
		return
	}
	last := make(map[int32]int64)
	for i := range l.t.Counters {
		c := &l.t.Counters[i]
		last[c.File] = max(last[c.File], c.LastOpen, c.LastReadEnd, c.LastWriteEnd, c.LastClose)
	}
	seen := make(map[iotrace.Renaming]bool) // ranks may rename the same file
	for _, r := range l.renamed {
		n := iotrace.Renaming{From: l.file(r.from), To: r.to}
		n.At = last[n.From]
		if n.From != n.To && !seen[n] {
			seen[n] = true
			l.t.Renames = append(l.t.Renames, n)
		}
	}
	slices.SortStableFunc(l.t.Renames, func(a, b iotrace.Renaming) int { return cmp.Compare(a.At, b.At) })
}

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
