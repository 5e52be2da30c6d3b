package read

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

func ones(string) float64 { return 1 }

// TestWarnings makes logs that lack something.
func TestWarnings(t *testing.T) {
	le := binary.LittleEndian
	w := newWriter(le, "3.41")
	w.modules[3] = moduleData{1, []byte{1}, false}  // H5F
	w.modules[15] = moduleData{1, []byte{1}, true}  // HEATMAP
	w.modules[16] = moduleData{1, []byte{1}, false} // DFS
	w.modules[40] = moduleData{1, []byte{1}, false}
	w.modules[mpiio] = moduleData{4, []byte{1}, false}
	w.modules[dxtPOSIX] = moduleData{2, nil, true}
	w.modules[stdio] = moduleData{2, append(w.record(stdio, 2, 99, 0, func(name string) float64 {
		if name == "F_META_TIME" {
			return -0.25
		}
		return 1
	}), w.record(stdio, 2, 99, 1, ones)...), true}
	tr := load(t, w.bytes(), iotrace.Options{})
	want := []iotrace.Warning{
		{Code: "modules-not-read", Text: "The log also has data of H5F, HEATMAP, DFS and number 40, which ckpt does not read; darshan-parser prints them. The I/O of DFS and number 40 is missing."},
		{Code: "module-version", Text: "The log has data of MPI-IO in a version that ckpt does not know: their I/O is missing. Use a newer ckpt, or DXT text of darshan-dxt-parser."},
		{Code: "partial-data", Text: "Darshan ran out of memory for STDIO and HEATMAP: I/O is missing. Run the program with DARSHAN_MODMEM=64 (MiB; the default is 4), or have NAME_EXCLUDE leave out files."},
		{Code: "partial-events", Text: "Darshan ran out of memory for DXT_POSIX: totals are complete, but of later requests only the counters are known, not their order and times. Run the program with DARSHAN_MODMEM=64 (MiB; the default is 4), or have NAME_EXCLUDE leave out files."},
		{Code: "no-names", Count: 1, Text: "Darshan ran out of memory for names: 1 files are shown by number. Run the program with DARSHAN_NAMEMEM=8 (MiB; the default is 1)."},
		{Code: "negative-sums", Count: 1, Text: "Sums of times that are negative in the log, a fault of Darshan, count as unknown: 1."},
	}
	sameWarnings(t, tr, want)
	// Other modules have the reads and writes that H5F and HEATMAP count.
	w = newWriter(le, "3.41")
	w.modules[3] = moduleData{1, []byte{1}, false}
	w.modules[15] = moduleData{1, []byte{1}, false}
	sameWarnings(t, load(t, w.bytes(), iotrace.Options{}), []iotrace.Warning{{Code: iotrace.WarnCountedElsewhere,
		Text: "The log also has data of H5F and HEATMAP, which ckpt does not read; darshan-parser prints them."}})
	if tr.Files[0] != "<record 99>" || tr.Counters[0].MetaTime != iotrace.None {
		t.Errorf("%q, %v", tr.Files, tr.Counters[0].MetaTime)
	}

	w = newWriter(le, "3.00")
	fopened := func(name string) float64 {
		if name == "FOPENS" {
			return 3
		}
		return 1
	}
	one := w.record(posix, 1, 1, 0, fopened)
	w.modules[posix] = moduleData{1, slices.Concat(one, one, w.record(posix, 1, 2, 0, func(name string) float64 { return 0 })), false}
	tr = load(t, w.bytes(), iotrace.Options{})
	sameWarnings(t, tr, []iotrace.Warning{{Code: "stdio-in-posix", Count: 2, Files: []iotrace.WarnedFile{{File: 0, Count: 2}},
		Text: "Darshan 3.0 counted POSIX and stdio together: the records of files used with fopen are left out, as darshan-parser does."}})
	if len(tr.Counters) != 1 || tr.Files[tr.Counters[0].File] != "/scratch/b" {
		t.Errorf("%+v", tr.Counters)
	}

	w = newWriter(le, "3.21")
	bad := []iotrace.Event{{Op: iotrace.Write, Offset: -3, Bytes: 10}, {Op: iotrace.Write, Bytes: -5}, {Op: iotrace.Read, Start: -1e9, End: 2e9, Bytes: 1},
		{Op: iotrace.Read, Start: 5e9, End: 4e9, Bytes: 7}}
	w.modules[dxtPOSIX] = moduleData{1, w.dxt(1, 0, "n", false, bad...), false}
	tr = load(t, w.bytes(), iotrace.Options{})
	sameWarnings(t, tr, []iotrace.Warning{
		{Code: "impossible-segments", Count: 3, Bytes: 11, Files: []iotrace.WarnedFile{{Count: 3, Bytes: 11}}, Text: "Segments of DXT with impossible offsets, lengths or times are missing."},
		{Code: "negative-durations", Count: 1, Bytes: 7, Files: []iotrace.WarnedFile{{Count: 1, Bytes: 7}}, Text: "Segments of DXT end before they start: their duration counts as 0."}})
	if len(tr.Events) != 1 || tr.Events[0].Start != 5e9 || tr.Events[0].End != 5e9 {
		t.Errorf("%+v", tr.Events)
	}
	if _, _, err := Darshan(bytes.NewReader(w.bytes()), int64(len(w.bytes())), iotrace.Options{Strict: true}); err == nil {
		t.Error("Strict lets impossible segments pass")
	}
}

func sameWarnings(t *testing.T, tr *iotrace.Trace, want []iotrace.Warning) {
	t.Helper()
	if diff := diff(&iotrace.Trace{Warnings: want}, &iotrace.Trace{Warnings: tr.Warnings}); diff != "" {
		t.Error(diff)
	}
}

// TestDarshanDamage reads logs that are cut or changed.
func TestDarshanDamage(t *testing.T) {
	fresh := func() *logWriter {
		w := newWriter(binary.LittleEndian, "3.21")
		w.plain = true
		return w
	}
	le := binary.LittleEndian
	for _, c := range []struct {
		name, want string
		kind       error
		log        func() []byte
	}{
		{"no start", "impossible start", nil, func() []byte { w := fresh(); w.start = -5; return w.bytes() }},
		{"processes", "the job has -1 processes", nil, func() []byte { w := fresh(); w.nprocs = -1; return w.bytes() }},
		{"header", "a region begins inside of the header", nil, func() []byte { b := fresh().bytes(); le.PutUint64(b[24:], 8); return b }},
		{"far", "a region of", nil, func() []byte { b := fresh().bytes(); le.PutUint64(b[32:], 1<<63); return b }},
		{"names behind the end", "the log ends before the names do", iotrace.ErrTruncated, func() []byte { b := fresh().bytes(); le.PutUint64(b[32:], 1<<40); return b }},
		{"cut", "the log ends before the names do", iotrace.ErrTruncated, func() []byte { b := fresh().bytes(); return b[:len(b)-1] }},
		{"name without end", "the names end early", iotrace.ErrTruncated, func() []byte { b := fresh().bytes(); le.PutUint64(b[32:], le.Uint64(b[32:])-1); return b }},
		{"old name", "the names end early", iotrace.ErrTruncated, func() []byte {
			w := fresh()
			w.format, w.names = "3.00", map[uint64]string{1: "/a"}
			b := w.bytes()
			le.PutUint32(b[len(b)-6:], 1<<31)
			return b
		}},
		{"record", "the data of STDIO end early", iotrace.ErrTruncated, func() []byte {
			w := fresh()
			w.modules[stdio] = moduleData{2, w.record(stdio, 2, 1, 0, ones)[:100], false}
			return w.bytes()
		}},
		{"version 0", "the records of STDIO have version 0", nil, func() []byte { w := fresh(); w.modules[stdio] = moduleData{0, []byte{1}, false}; return w.bytes() }},
		{"rank", "rank -7", nil, func() []byte {
			w := fresh()
			w.modules[stdio] = moduleData{2, w.record(stdio, 2, 1, -7, ones), false}
			return w.bytes()
		}},
		{"segments", "the data of DXT_POSIX end early", iotrace.ErrTruncated, func() []byte {
			w := fresh()
			b := w.dxt(1, 0, "n", false)
			le.PutUint64(b[88:], 1<<62)
			w.modules[dxtPOSIX] = moduleData{1, b, false}
			return w.bytes()
		}},
		{"counts", "-1 writes", nil, func() []byte {
			w := fresh()
			b := w.dxt(1, 0, "n", false)
			le.PutUint64(b[88:], math.MaxUint64)
			w.modules[dxtPOSIX] = moduleData{1, b, false}
			return w.bytes()
		}},
		{"components", "-1 components", nil, func() []byte {
			w := fresh()
			w.format = "3.41"
			w.modules[lustre] = moduleData{2, w.ints(nil, 1, 0, -1, 0), false}
			return w.bytes()
		}},
		{"targets", "the data of LUSTRE end early", iotrace.ErrTruncated, func() []byte {
			w := fresh()
			w.modules[lustre] = moduleData{1, w.ints(nil, 1, 0, 4, 1, 0, 1, 1<<62), false}
			return w.bytes()
		}},
		{"checksum", "the names are damaged", nil, func() []byte {
			w := fresh()
			w.plain = false
			b := w.bytes()
			b[len(b)-1] ^= 1
			return b
		}},
		{"stream", "the names end early", iotrace.ErrTruncated, func() []byte {
			w := fresh()
			w.plain = false
			b := w.bytes()
			le.PutUint64(b[32:], le.Uint64(b[32:])-3)
			return b
		}},
		{"bzip2", "the data of the job are damaged", nil, func() []byte { b := fresh().bytes(); b[16] = 1; return b }},
	} {
		b := c.log()
		_, _, err := Darshan(bytes.NewReader(b), int64(len(b)), iotrace.Options{})
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) || fe.Offset < 0 || fe.Offset > int64(len(b)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestLenient reads around a damaged module.
func TestLenient(t *testing.T) {
	w := newWriter(binary.BigEndian, "3.41")
	w.plain = true
	w.modules[posix] = moduleData{4, w.record(posix, 4, 1, 0, ones)[:300], false}
	w.modules[stdio] = moduleData{2, w.record(stdio, 2, 1, 0, ones), false}
	b := w.bytes()
	tr, rep, err := Darshan(bytes.NewReader(b), int64(len(b)), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Counters) != 1 || tr.Counters[0].Module != iotrace.STDIO || !errors.Is(rep.Cut, iotrace.ErrTruncated) || rep.Unknown != 1 {
		t.Errorf("%+v, %+v, %v", tr, rep, err)
	}
}

// TestBombs reads small files that unpack to much.
func TestBombs(t *testing.T) {
	part := 2
	if testkit.Nightly() {
		part = 1
	}
	for name, make := range map[string]func(w *logWriter){
		"counters": func(w *logWriter) {
			w.modules[posix] = moduleData{4, bytes.Repeat(w.record(posix, 4, 1, 0, func(string) float64 { return 0 }), 100_000), false}
		},
		"names": func(w *logWriter) { w.names = map[uint64]string{1: strings.Repeat("a", 64<<20/part)} },
		"segments": func(w *logWriter) {
			w.modules[dxtPOSIX] = moduleData{2, w.dxt(1, 0, "", true, slices.Repeat([]iotrace.Event{{}}, 2_000_000/part)...), false}
		},
	} {
		w := newWriter(binary.LittleEndian, "3.41")
		make(w)
		b := w.bytes()
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := Darshan(bytes.NewReader(b), int64(len(b)), iotrace.Options{})
		runtime.ReadMemStats(&after)
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), "unpack to more than 256 times their length") {
			t.Errorf("%s: %v", name, err)
		}
		// A record of 704 bytes becomes Counters of half as many again, in a slice that grows.
		if most := uint64(64<<20/part + 8*unpackRatio*len(b)); after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%s: %d bytes take %d bytes of memory, want %d at most", name, len(b), after.TotalAlloc-before.TotalAlloc, most)
		}
	}
}

// TestNoFile returns the errors of the file system as they are.
func TestNoFile(t *testing.T) {
	broken := errors.New("broken")
	w := newWriter(binary.LittleEndian, "3.41")
	w.modules[stdio] = moduleData{2, w.record(stdio, 2, 1, 0, ones), false}
	b := w.bytes()
	for _, from := range []int64{0, 1400, int64(len(b)) - 10} {
		for _, lenient := range []bool{false, true} {
			_, _, err := Darshan(brokenAt{bytes.NewReader(b), from, broken}, int64(len(b)), iotrace.Options{Lenient: lenient})
			if !errors.Is(err, broken) {
				t.Errorf("%d: %v", from, err)
			}
		}
	}
}

// brokenAt fails behind some bytes.
type brokenAt struct {
	r    *bytes.Reader
	from int64
	err  error
}

func (b brokenAt) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > b.from {
		return 0, b.err
	}
	return b.r.ReadAt(p, at)
}

// FuzzLog reads arbitrary bytes.
func FuzzLog(f *testing.F) {
	for _, b := range iotracetest.Files(f, "*.darshan") {
		f.Add(b)
		f.Add(b[:len(b)*2/3])
	}
	everyKind(func(_ string, w *logWriter, versions map[int]uint32) {
		if !w.plain { // streams have checksums, which changes do not get past
			return
		}
		for mod, v := range versions {
			switch {
			case v == 0:
			case mod == posix, mod == mpiio, mod == stdio:
				w.modules[mod] = moduleData{v, w.record(mod, v, 1, 0, func(name string) float64 { return float64(len(name) % 3) }), false}
			case mod == lustre && v == 1:
				w.modules[mod] = moduleData{v, w.ints(nil, 1, -1, 48, 1, 5, 1<<20, 3, 5, 6, 7), false}
			case mod == dxtPOSIX, mod == dxtMPIIO:
				w.modules[mod] = moduleData{v, w.dxt(1, 0, "n0", mod == dxtPOSIX && v > 1 || v > 2, iotrace.Event{Op: iotrace.Write, Bytes: 9, End: 5e8}), false}
			}
		}
		f.Add(w.bytes())
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, _, err := Darshan(bytes.NewReader(b), int64(len(b)), iotrace.Options{})
		if err != nil {
			var fe *iotrace.FormatError
			if !errors.As(err, &fe) || fe.Offset < 0 || fe.Offset > int64(len(b)) {
				t.Fatal(err)
			}
			var rep *iotrace.Report
			if tr, rep, err = Darshan(bytes.NewReader(b), int64(len(b)), iotrace.Options{Lenient: true}); err == nil && rep.Cut == nil {
				t.Fatal("lenient says nothing")
			}
		}
		if err == nil {
			if err := iotracetest.Valid(tr); err != nil {
				t.Fatal(err)
			}
		}
	})
}
