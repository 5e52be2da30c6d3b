package traces

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

// collective is a job of 64 ranks with counters only: they write a file together, and
// four of them write for all.
func collective() *iotrace.Trace {
	t := &iotrace.Trace{Source: "darshan", Files: []string{"/scratch/" + strings.Repeat("long/", 20) + "out.h5"},
		Striping: []iotrace.Striping{{Size: 1 << 20, Count: 4}}}
	for r := range 64 {
		t.Ranks = append(t.Ranks, iotrace.Rank{Rank: r})
	}
	t.Counters = []iotrace.Counters{{Module: iotrace.MPIIO, Rank: iotrace.None, Calls: iotrace.Calls{CollectiveWrites: 640}, Writes: 640, BytesWritten: 640 << 10}}
	for _, r := range []int32{0, 16, 32, 48} {
		t.Counters = append(t.Counters, iotrace.Counters{Module: iotrace.POSIX, Rank: r, Writes: 2, BytesWritten: 200 << 10, Reads: 1, BytesRead: 1 << 20})
	}
	return t
}

// TestShowLayers: the text says who calls MPI-IO, who writes, and what is missing.
func TestShowLayers(t *testing.T) {
	var out bytes.Buffer
	g := &ui.Globals{Streams: ui.Streams{Out: &out}}
	if err := showLayers(g, analyze.Analyze(collective(), analyze.Options{})); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	words := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{"The trace has counters only.", "DXT_ENABLE_IO_TRACE=1", "MPI-IO 1 64 640 0.62 1.0", "POSIX 1 4 8 0.78 100.0 4 4.00 1024.0",
		"64 ranks call MPI-IO for 1 file; 4 of them do the POSIX I/O: ranks 0, 16, 32, 48",
		"writes: 100 % collective; 640 calls, 1.0 KiB each, become 8 requests, 100.0 KiB each: × 1.25 the bytes",
		"4.00 MiB are read that the program did not ask for", "1 MiB × 4 1 …"} {
		if !strings.Contains(words, ui.Text(want)) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if _, table, _ := strings.Cut(text, "collective  requests"); strings.Contains(table, "reads") {
		t.Errorf("a row of reads without reads through MPI-IO:\n%s", text)
	}
	// Both directions, and numbers as long as they get, fit.
	tr := collective()
	tr.Counters[0].Reads, tr.Counters[0].IndependentReads, tr.Counters[0].BytesRead = 123457, 123457, 1<<50
	out.Reset()
	showLayers(g, analyze.Analyze(tr, analyze.Options{}))
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if text := out.String(); !strings.Contains(text, " writes       100 % ") || !strings.Contains(text, " reads          0 % ") {
		t.Errorf("writes and reads:\n%s", text)
	}
	// A trace of POSIX events alone has no such part.
	out.Reset()
	plain := &iotrace.Trace{Files: []string{"f"}, Ranks: []iotrace.Rank{{}}, Events: []iotrace.Event{{Op: iotrace.Write, Bytes: 1}}}
	if showLayers(g, analyze.Analyze(plain, analyze.Options{})); out.Len() > 0 {
		t.Errorf("%s", out.String())
	}
}

// TestNeedEvents: commands that need events say so, with the remedy.
func TestNeedEvents(t *testing.T) {
	err := needEvents(collective(), "replay")
	if err == nil || !strings.Contains(err.Error(), "has counters only: it has no events to replay") {
		t.Errorf("%v", err)
	}
	if err := needEvents(&iotrace.Trace{}, "replay"); err != nil {
		t.Errorf("an empty trace: %v", err)
	}
}
