package read

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// TestNoLog reads files that are no logs that this package reads.
func TestNoLog(t *testing.T) {
	const tail = "\x00\x00\x00\x00\x37\x35\x64\x00\x00\x00\x00\x00"
	for _, c := range []struct {
		text, want string
		kind       error
	}{
		{"", "an empty file", iotrace.ErrWrongFormat},
		{"hello, world, hello, world", "not a Darshan log", iotrace.ErrWrongFormat},
		{"2.06" + tail, "log of Darshan 2.06; ckpt reads those of Darshan 3 (darshan-parser of Darshan 2.3.1", iotrace.ErrWrongFormat},
		{"1.4" + strings.Repeat("\x00", 20), "log of Darshan 1.4", iotrace.ErrWrongFormat},
		{"1.24" + tail, "log of Darshan 1.24", iotrace.ErrWrongFormat},
		{"3.50" + tail, "format 3.50 of a newer Darshan; ckpt reads formats up to 3.41", iotrace.ErrWrongFormat},
		{"4.00" + tail, "format 4.00 of a newer Darshan", iotrace.ErrWrongFormat},
		{"3-41" + tail, `invalid version "3-41"`, nil},
		{"3.41" + tail, "the header has 16 of 1328 bytes", iotrace.ErrTruncated},
		{"3.21" + tail, "the header has 16 of 360 bytes", iotrace.ErrTruncated},
		{"3.21" + tail + "\x03" + strings.Repeat("\x00", 400), "compression 3 is unknown", nil},
		{"3.21" + tail + strings.Repeat("\xff", 400), "compression 255 is unknown", nil},
		{"3.21" + tail + strings.Repeat("\x00", 400), "the data of the job are damaged", nil},
		{"3.21" + tail + strings.Repeat("\x00", 344), "the data of the job have 0 of 1064 bytes", iotrace.ErrTruncated},
	} {
		_, rep, err := Darshan(bytes.NewReader([]byte(c.text)), int64(len(c.text)), iotrace.Options{})
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !fe.NoPart || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) || rep == nil {
			t.Errorf("%.20q: %v", c.text, err)
		}
	}
}

// load reads a log.
func load(t testing.TB, b []byte, o iotrace.Options) *iotrace.Trace {
	t.Helper()
	tr, _, err := Darshan(bytes.NewReader(b), int64(len(b)), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := iotracetest.Valid(tr); err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestOwnLogs compares logs of testdata/job.c with what the tools of Darshan printed of
// them.
func TestOwnLogs(t *testing.T) {
	for name, b := range iotracetest.Files(t, "*.darshan") {
		tr := load(t, b, iotrace.Options{Strict: true})
		h, err := readHeader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(name, ".darshan")
		if h.compression == bzipped { // another compression of the same
			base = "testdata/dxt"
		}
		x := &comparison{t: t, log: name}
		p := parseParser(textOf(t, base+".parser.txt"))
		x.compare(h, tr, p)
		x.job(h, tr, p)
		x.dxt(tr, textOf(t, base+".dxt.txt"))
		if x.records < 5 || x.counters < 300 || x.unreadable > 0 {
			t.Errorf("%s: %d records and %d numbers were compared, %d not", name, x.records, x.counters, x.unreadable)
		}
		var file bytes.Buffer
		if err := iotrace.WriteTrace(&file, tr); err != nil {
			t.Fatal(err)
		}
		back, err := iotrace.ReadTrace(&file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := diff(tr, back); diff != "" {
			t.Errorf("%s: an events file changes the trace: %s", name, diff)
		}
	}
}

func textOf(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func diff(a, b *iotrace.Trace) string { return cmp.Diff(a, b, cmpopts.EquateEmpty()) }

// formats are all formats with the versions of POSIX, MPI-IO, STDIO, LUSTRE and of both
// modules of DXT that the releases with it wrote.
var formats = []struct {
	format                      string
	posix, mpiio, stdio, lustre uint32
	dxtPOSIX, dxtMPIIO          uint32
}{
	{"3.00", 1, 1, 0, 1, 0, 0},
	{"3.10", 2, 2, 1, 1, 1, 1},
	{"3.10", 3, 2, 1, 1, 1, 1},
	{"3.20", 4, 3, 2, 1, 1, 2},
	{"3.21", 4, 3, 2, 1, 1, 2},
	{"3.41", 4, 3, 2, 2, 2, 3},
}

// everyKind calls f for all formats, byte orders and compressions that the writer has.
func everyKind(f func(name string, w *logWriter, versions map[int]uint32)) {
	for _, v := range formats {
		for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
			for i := range 3 {
				w := newWriter(order, v.format)
				w.plain, w.apart = i == 1, i == 2
				f(fmt.Sprintf("%s posix %d %v %d", v.format, v.posix, order, i), w, map[int]uint32{posix: v.posix, mpiio: v.mpiio, stdio: v.stdio,
					lustre: v.lustre, dxtPOSIX: v.dxtPOSIX, dxtMPIIO: v.dxtMPIIO})
			}
		}
	}
}

// TestVersions reads records in which each number is another one.
func TestVersions(t *testing.T) {
	everyKind(func(name string, w *logWriter, versions map[int]uint32) {
		values := map[string]float64{}
		give := func(prefix string) func(string) float64 {
			return func(name string) float64 {
				switch {
				case name == "FOPENS":
					return 0
				case name == "RENAME_TARGETS", name == "RENAMED_FROM":
					return 1
				}
				key := prefix + name
				if values[key] == 0 {
					values[key] = float64(len(values) + 1000)
				}
				return values[key]
			}
		}
		for _, m := range parserModules {
			mod := int(m.module) + 1 // POSIX and MPI-IO
			if m.module == iotrace.STDIO {
				mod = stdio
			}
			if v := versions[mod]; v > 0 {
				w.modules[mod] = moduleData{v, append(w.record(mod, v, 1, -1, give(m.prefix)), w.record(mod, v, 2, 3, give(m.prefix))...), false}
			}
		}
		tr := load(t, w.bytes(), iotrace.Options{Strict: true})
		if want := []string{"/scratch/a", "/scratch/b"}; !slices.Equal(tr.Files, want) || len(tr.Ranks) != 4 || len(tr.Counters) != 2*len(w.modules) {
			t.Fatalf("%s: %+v", name, tr)
		}
		checked := 0
		for i := range tr.Counters {
			c := &tr.Counters[i]
			if want := int32(3 - 4*(1-i%2)); c.Rank != want || int(c.File) != i%2 {
				t.Errorf("%s: rank %d and file %d", name, c.Rank, c.File)
			}
			prefix := parserModules[c.Module].prefix
			counters, times := namesOf(map[iotrace.Module]int{iotrace.POSIX: posix, iotrace.MPIIO: mpiio, iotrace.STDIO: stdio}[c.Module], 9)
			for _, short := range append(slices.Clone(counters), times...) {
				value, _ := valueOf(c, short)
				if value == nil || short == "F_MAX_READ_TIME" && c.Module == iotrace.STDIO {
					continue
				}
				want := "-1"
				switch n := values[prefix+short]; {
				case n > 0 && strings.HasPrefix(short, "F_"):
					want = fmt.Sprintf("%.6f", n)
				case n > 0:
					want = fmt.Sprintf("%.0f", n)
				case strings.HasPrefix(short, "F_"):
					want = "-1.000000"
				}
				if checked++; !equal(value, want) {
					t.Errorf("%s: %s%s is %v, want %s", name, prefix, short, value, want)
				}
			}
			switch c.Module {
			case iotrace.POSIX:
				if want := int64(values["POSIX_FSYNCS"] + values["POSIX_FDSYNCS"]); c.Syncs != want {
					t.Errorf("%s: %d syncs, want %d", name, c.Syncs, want)
				}
			case iotrace.MPIIO:
				v := values
				reads := int64(v["MPIIO_INDEP_READS"] + v["MPIIO_COLL_READS"] + v["MPIIO_SPLIT_READS"] + v["MPIIO_NB_READS"])
				writes := int64(v["MPIIO_INDEP_WRITES"] + v["MPIIO_COLL_WRITES"] + v["MPIIO_SPLIT_WRITES"] + v["MPIIO_NB_WRITES"])
				if opens := int64(v["MPIIO_INDEP_OPENS"] + v["MPIIO_COLL_OPENS"]); c.Reads != reads || c.Writes != writes || c.Opens != opens {
					t.Errorf("%s: %+v", name, c)
				}
			}
		}
		if checked < 20*len(tr.Counters) {
			t.Errorf("%s: only %d numbers were checked", name, checked)
		}
		var want []iotrace.Renaming
		if versions[posix] > 3 {
			last := int64(0) // through any interface
			for _, c := range tr.Counters {
				if c.File == 0 {
					last = max(last, c.LastOpen, c.LastReadEnd, c.LastWriteEnd, c.LastClose)
				}
			}
			if want = append(want, iotrace.Renaming{From: 0, To: 1, At: last}); last < 1e12 {
				t.Errorf("%s: closed at %d", name, last)
			}
		}
		if !slices.Equal(tr.Renames, want) {
			t.Errorf("%s: renames %v, want %v", name, tr.Renames, want)
		}
	})
}

// TestJob reads what a log says of its job.
func TestJob(t *testing.T) {
	everyKind(func(name string, w *logWriter, _ map[int]uint32) {
		tr := load(t, w.bytes(), iotrace.Options{})
		start, took := time.Unix(1_600_000_000, 0), 11*time.Second
		if w.format == "3.41" {
			start, took = start.Add(250*time.Millisecond), 10*time.Second+500*time.Millisecond
		}
		want := &iotrace.Trace{Job: "./prog -x 1", Source: "darshan", Origin: start.UTC(), Runtime: took,
			Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}, {Rank: 2}, {Rank: 3}},
			Properties: []iotrace.Property{{Name: "darshan log", Value: w.format}, {Name: "user", Value: "1000"}, {Name: "job", Value: "77"},
				{Name: "processes", Value: "4"}, {Name: "lib_ver", Value: "3.x"}, {Name: "h", Value: "romio_no_indep_rw=true;cb_nodes=4"},
				{Name: "/", Value: "ext4"}, {Name: "/scratch", Value: "lustre"}}}
		if w.format == "3.20" {
			want.Warnings = tr.Warnings
			if len(tr.Warnings) != 1 || tr.Warnings[0].Code != "darshan-3.2.0" {
				t.Errorf("%s: %v", name, tr.Warnings)
			}
		}
		if diff := diff(want, tr); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	})
	w := newWriter(binary.LittleEndian, "3.41")
	w.exe, w.noNames, w.end, w.endNS = "", true, 0, 0
	if tr := load(t, w.bytes(), iotrace.Options{}); tr.Job != "job 77" || tr.Runtime != 0 {
		t.Errorf("%+v", tr)
	}
	w.nprocs = maxRanks + 1 // too many to list without a record
	w.modules[stdio] = moduleData{2, w.record(stdio, 2, 1, maxRanks, func(string) float64 { return 1 }), false}
	tr := load(t, w.bytes(), iotrace.Options{})
	if want := []iotrace.Rank{{Rank: maxRanks}}; !slices.Equal(tr.Ranks, want) || tr.Counters[0].Rank != 0 {
		t.Errorf("%+v", tr.Ranks)
	}
}

// TestDXT reads segments.
func TestDXT(t *testing.T) {
	everyKind(func(name string, w *logWriter, versions map[int]uint32) {
		if versions[dxtPOSIX] == 0 {
			return
		}
		ev := func(op iotrace.Op, m iotrace.Module, rank, file int32, off, n, start, end int64) iotrace.Event {
			return iotrace.Event{Op: op, Module: m, Rank: rank, File: file, Peer: iotrace.None, Offset: off, Bytes: n, Start: start, End: end}
		}
		p := []iotrace.Event{ev(iotrace.Write, iotrace.POSIX, 2, 0, 0, 4096, 1e9, 1_000_000_125), ev(iotrace.Write, iotrace.POSIX, 2, 0, 1<<40, 1, 3e9, 4e9),
			ev(iotrace.Read, iotrace.POSIX, 2, 0, 512, 0, 2e9, 2e9), ev(iotrace.Read, iotrace.POSIX, 0, 1, 7, 7, 5e8, 6e8)}
		m := []iotrace.Event{ev(iotrace.Write, iotrace.MPIIO, 1, 1, 100, 50, 25e8, 26e8), ev(iotrace.Read, iotrace.MPIIO, 1, 1, -1, 50, 27e8, 28e8)}
		threads := versions[dxtPOSIX] > 1
		w.modules[dxtPOSIX] = moduleData{versions[dxtPOSIX], append(w.dxt(1, 2, "n2", threads, p[:3]...), w.dxt(2, 0, "", threads, p[3])...), false}
		w.modules[dxtMPIIO] = moduleData{versions[dxtMPIIO], w.dxt(2, 1, strings.Repeat("n", 64), versions[dxtMPIIO] > 2, m...), false}
		if versions[dxtMPIIO] == 1 {
			m[0].Offset = iotrace.None
		}
		tr := load(t, w.bytes(), iotrace.Options{Strict: true})
		if diff := cmp.Diff([]iotrace.Event{p[3], p[0], p[2], m[0], m[1], p[1]}, tr.Events); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		want := []iotrace.Rank{{Rank: 0}, {Rank: 1, Node: strings.Repeat("n", 64)}, {Rank: 2, Node: "n2"}, {Rank: 3}}
		if !slices.Equal(want, tr.Ranks) {
			t.Errorf("%s: %v", name, tr.Ranks)
		}
	})
}

// TestStripes reads layouts of files, also those with several parts.
func TestStripes(t *testing.T) {
	everyKind(func(name string, w *logWriter, versions map[int]uint32) {
		var b []byte
		want := []iotrace.Striping{{File: 0, Size: 1 << 20, Count: 3, OSTs: []int64{5, 6, 7}, End: iotrace.None}}
		if versions[lustre] == 1 {
			b = w.ints(nil, 1, -1, 48, 1, 5, 1<<20, 3, 5, 6, 7)
			b = append(b, b...) // of another rank
			b = append(b, w.ints(nil, 2, 0, 48, 1, 5, 1<<20, 0)...)
		} else {
			component := func(b []byte, size, count, start, end int64) []byte {
				return append(w.ints(b, size, count, 0, 0, start, end, 0), make([]byte, 16)...)
			}
			b = component(w.ints(nil, 1, -1, 1, 3), 1<<20, 3, 0, -1)
			b = w.ints(b, 5, 6, 7)
			b = append(b, w.ints(nil, 2, -1, 4, 4)...)
			b = component(b, 1<<20, 0, 0, 1<<16) // on the metadata server
			b = component(b, 1<<20, 1, 1<<16, 1<<30)
			b = component(b, 4<<20, 2, 1<<30, -1)
			b = component(b, -1, 1, 0, 0) // not in use
			b = w.ints(b, 9, 11, 12, 0)
			want = append(want, iotrace.Striping{File: 1, Size: 1 << 20, Count: 1, OSTs: []int64{9}, Start: 1 << 16, End: 1 << 30},
				iotrace.Striping{File: 1, Size: 4 << 20, Count: 2, OSTs: []int64{11, 12}, Start: 1 << 30, End: iotrace.None})
		}
		w.modules[lustre] = moduleData{versions[lustre], b, false}
		tr := load(t, w.bytes(), iotrace.Options{})
		if diff := cmp.Diff(want, tr.Striping); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	})
}
