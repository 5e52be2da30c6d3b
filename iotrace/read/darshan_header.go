package read

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"ckpt/iotrace"
)

const (
	magic = 6567223

	headBytes   = 360  // of the header
	headBytes41 = 1328 // of format 3.41
	modules     = 16   // in the header
	modules41   = 64
)

// A format is the version in the header: 3.41 is {3, 41}.
type format struct{ major, minor int }

// newest is the last format that this package knows.
var newest = format{3, 41}

func (f format) String() string { return fmt.Sprintf("%d.%02d", f.major, f.minor) }

func (f format) before(minor int) bool { return f.minor < minor }

type compression uint8

const (
	zlibbed compression = iota
	bzipped
	plain
)

var compressionNames = [...]string{zlibbed: "zlib", bzipped: "bzip2", plain: "none"}

// A place is a part of the file.
type place struct{ off, length int64 }

// A header says where everything is.
type header struct {
	format
	order       binary.ByteOrder
	compression compression
	job, names  place
	modules     [modules41]module
}

type module struct {
	place
	version uint32
	partial bool // it lacks records
}

func readHeader(r io.ReaderAt, size int64) (*header, error) {
	var b [headBytes41]byte
	n, err := r.ReadAt(b[:min(headBytes41, size)], 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if n < 16 || iotrace.Detect(b[:n]) != iotrace.FormatDarshan {
		return nil, iotrace.WrongFormat(b[:n], iotrace.FormatDarshan)
	}
	h := &header{order: binary.LittleEndian}
	if h.order.Uint64(b[8:]) != magic {
		h.order = binary.BigEndian
	}
	if h.format, err = parseFormat(b[:8]); err != nil {
		return nil, err
	}
	inHead, want, at := modules, headBytes, 20
	if !h.before(41) {
		inHead, want, at = modules41, headBytes41, 24
	}
	if n < want {
		return nil, truncated(int64(n), "the header has %d of %d bytes", n, want)
	}
	if h.compression = compression(b[16]); int(h.compression) >= len(compressionNames) {
		return nil, damaged(16, "compression %d is unknown", b[16])
	}
	var partial uint64
	if h.before(41) {
		partial = uint64(h.order.Uint32(b[at:]))
		at += 4
	} else {
		partial = h.order.Uint64(b[at:])
		at += 8
	}
	next := func() (p place, err error) {
		off, length := h.order.Uint64(b[at:]), h.order.Uint64(b[at+8:])
		if off > 1<<62 || length > 1<<62 {
			return p, damaged(int64(at), "a region of %d bytes at offset %d", length, off)
		}
		at += 16
		return place{int64(off), int64(length)}, nil
	}
	if h.names, err = next(); err != nil {
		return nil, err
	}
	for i := range inHead {
		m := h.moved(i)
		p, err := next()
		if err != nil {
			return nil, err
		}
		if m < modules41 {
			h.modules[m].place = p
			h.modules[m].partial = partial>>i&1 != 0
		}
	}
	for i := range inHead {
		if m := h.moved(i); m < modules41 {
			h.modules[m].version = h.order.Uint32(b[at+4*i:])
		}
	}
	h.job = place{int64(want), h.behindJob(size) - int64(want)}
	if h.job.length < 0 {
		return nil, damaged(24, "a region begins inside of the header")
	}
	return h, nil
}

// moved returns today's number of a module.
func (h *header) moved(i int) int {
	if h.before(20) && i >= h5d {
		i++
	}
	if h.before(41) && i >= pnetcdfVar {
		i++
	}
	return i
}

// behindJob returns where the region of the job ends: only its beginning is known.
func (h *header) behindJob(size int64) int64 {
	if h.names.off != 0 {
		return h.names.off
	}
	for i := range h.modules {
		if off := h.modules[i].off; off != 0 {
			return off
		}
	}
	return size
}

func parseFormat(b []byte) (f format, err error) {
	text, _, _ := strings.Cut(string(b), "\x00")
	major, minor, ok := strings.Cut(text, ".")
	var errs [2]error
	f.major, errs[0] = strconv.Atoi(major)
	f.minor, errs[1] = strconv.Atoi(minor)
	if !ok || errs[0] != nil || errs[1] != nil || f.major < 0 || f.minor < 0 {
		return f, damaged(0, "invalid version %q of the format", text)
	}
	switch {
	case f.major < 3:
		return f, wrong("this is a log of Darshan %s; ckpt reads those of Darshan 3 (darshan-parser of Darshan 2.3.1 prints its counters)", text)
	case f.major > newest.major || f.minor > newest.minor:
		return f, wrong("this log has the format %s of a newer Darshan; ckpt reads formats up to %v (darshan-dxt-parser of that Darshan prints DXT text)", text, newest)
	}
	return f, nil
}

func wrong(text string, args ...any) error {
	return &iotrace.FormatError{Reason: fmt.Sprintf(text, args...), Err: iotrace.ErrWrongFormat}
}

func damaged(at int64, text string, args ...any) error {
	return &iotrace.FormatError{Offset: at, Reason: fmt.Sprintf(text, args...)}
}

func truncated(at int64, text string, args ...any) error {
	return &iotrace.FormatError{Offset: at, Reason: fmt.Sprintf(text, args...), Err: iotrace.ErrTruncated}
}

const (
	jobBytes      = 4096 // of the region, at most
	metadataBytes = 1024
)

// lastSecond is the end of the year 9999.
const lastSecond = 253402300799

// readJob reads the record of the job, its command line and the mounted file systems.
func (l *reading) readJob() error {
	g, err := l.open("data of the job", l.head.job)
	if err != nil {
		return err
	}
	b, err := g.upTo(jobBytes)
	if err != nil {
		return err
	}
	fine := !l.head.before(41) // there are nanoseconds
	numbers := 5
	if fine {
		numbers = 7
	}
	if len(b) < 8*numbers+metadataBytes {
		return truncated(g.at(), "the data of the job have %d of %d bytes", len(b), 8*numbers+metadataBytes)
	}
	next := func() int64 {
		n := int64(l.head.order.Uint64(b))
		b = b[8:]
		return n
	}
	moment := func() (at time.Time, ok bool) {
		s, ns := next(), int64(0)
		if fine {
			ns = next()
		}
		return time.Unix(s, ns).UTC(), s >= 0 && s <= lastSecond && ns >= 0 && ns < 1e9
	}
	user := next()
	start, ok1 := moment()
	end, ok2 := moment()
	if !ok1 || !ok2 {
		return damaged(g.at(), "the job has an impossible start or end")
	}
	nprocs, job := next(), next()
	if nprocs < 0 || nprocs > math.MaxInt32 {
		return damaged(g.at(), "the job has %d processes", nprocs)
	}
	if start.Unix() != 0 {
		l.t.Origin = start
	}
	switch took := end.Sub(start); {
	case end.Unix() == 0 || took < 0 || took > iotrace.MaxTime: // the end was not recorded
	case fine:
		l.t.Runtime = took
	default: // whole seconds: Darshan counts the one that has begun
		l.t.Runtime = took + time.Second
	}
	l.property("darshan log", l.head.String())
	l.property("user", fmt.Sprint(user))
	l.property("job", fmt.Sprint(job))
	l.property("processes", fmt.Sprint(nprocs))
	for line := range strings.Lines(untilZero(b[:metadataBytes])) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key != "" {
			l.property(key, value)
		}
	}
	exe, mounts, _ := strings.Cut(untilZero(b[metadataBytes:]), "\n")
	for line := range strings.Lines(mounts) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(words[1], "/") {
			l.property(words[1], words[0])
		}
	}
	l.t.Job = strings.TrimSpace(exe)
	if l.t.Job == "" && job != 0 {
		l.t.Job = fmt.Sprintf("job %d", job)
	}
	if nprocs <= maxRanks { // else only ranks with records
		l.nprocs = nprocs
		for i := range l.nprocs {
			l.tables.Rank(iotrace.Rank{Rank: int(i)})
		}
	}
	return nil
}

func (l *reading) property(name, value string) {
	l.t.Properties = append(l.t.Properties, iotrace.Property{Name: name, Value: value})
}

// untilZero returns the text in front of the first zero byte.
func untilZero(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
