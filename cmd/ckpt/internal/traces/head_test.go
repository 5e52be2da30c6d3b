package traces

import (
	"errors"
	"testing"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/pattern"
)

func TestAccessText(t *testing.T) {
	both := analyze.Activity{Access: analyze.Shared, Spatial: pattern.SequentialAccess, Detail: pattern.Contiguous,
		WriteSpatial: pattern.SequentialAccess, WriteDetail: pattern.Contiguous, ReadSpatial: pattern.RandomAccess, ReadDetail: pattern.Random}
	both.Writes, both.Reads = 1024, 1024
	same := both
	same.ReadSpatial = same.WriteSpatial
	none := analyze.Activity{Access: analyze.Independent, Detail: pattern.NoDetail}
	for _, test := range []struct {
		a          *analyze.Activity
		text, word string
	}{
		{&both, "shared; writes sequential (contiguous), reads random", "seq./random"},
		{&same, "shared, sequential (contiguous)", "sequential"},
		{&none, "independent; nothing is read or written", "none"},
	} {
		if got := accessText(test.a); got != test.text {
			t.Errorf("%q, want %q", got, test.text)
		}
		if got := spatialWord(test.a); got != test.word {
			t.Errorf("%q, want %q", got, test.word)
		}
	}
}

func TestRunText(t *testing.T) {
	began := time.Date(2017, 6, 20, 17, 49, 39, 0, time.UTC)
	for want, tr := range map[string]iotrace.Trace{
		"": {Origin: began},
		"13m0s, began 2017-06-20 17:49:39 UTC, job 6265799": {Runtime: 780 * time.Second, Origin: began,
			Properties: []iotrace.Property{{Name: "job", Value: "6265799"}}},
		"1.5s": {Runtime: 1500 * time.Millisecond, Properties: []iotrace.Property{{Name: "job", Value: "0"}}},
	} {
		if got := runText(&tr); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTimesText: a database waits for syncs and locks, not for its writes.
func TestTimesText(t *testing.T) {
	r := &analyze.Report{ActiveRanks: 1, Wall: 3}
	r.Metadata, r.MetadataTime, r.Syncs, r.SyncTime = 3626, 0.329, 1604, 2.558
	if got, want := metadataText(r), "3626 operations in 329ms, 1604 syncs in 2.558s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := waitsText(r); got != "" {
		t.Errorf("%q", got)
	}
	r.Wall = 2 // less than the syncs take: threads wait at one time
	if got, want := metadataText(r), "3626 operations in 329ms, 1604 syncs in 2.558s, summed over the threads"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// One rank does the I/O, and four open its files.
	r.Ranks = 4
	r.Operations = []analyze.Operation{{Op: "lock-wait", Count: 256, Time: 4.02}}
	if got, want := waitsText(r), "256 waits in 4.02s, summed over the ranks"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBurstsText: counters do not tell of bursts.
func TestBurstsText(t *testing.T) {
	for want, a := range map[string]analyze.Activity{"0": {}, "unknown": {Totals: analyze.Totals{Reads: 1}}, "2": {Totals: analyze.Totals{Reads: 5}, BurstsTotal: 2}} {
		if got := burstsText(&a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestKindsText: as PyDarshan counts files.
func TestKindsText(t *testing.T) {
	var files []analyze.File
	for range 3 {
		files = append(files, analyze.File{Activity: analyze.Activity{Totals: analyze.Totals{Writes: 1}}})
	}
	if got := kindsText(files); got != "" {
		t.Errorf("%q: all are the same", got)
	}
	files = append(files, analyze.File{Activity: analyze.Activity{Totals: analyze.Totals{Reads: 1}}}, analyze.File{Activity: analyze.Activity{Totals: analyze.Totals{Reads: 1, Writes: 1}}}, analyze.File{})
	if got, want := kindsText(files), "3 only written, 1 only read, 1 read and written, 1 neither read nor written"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r := &analyze.Report{Wall: 3, Busy: 2}
	r.BytesRead, r.BytesWritten = 1<<30, 1<<30
	if got, want := timeText(r), "3s, of which 2s reading or writing, at 1.0 GiB/s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWarningText: a number that the sentence has is not repeated.
func TestWarningText(t *testing.T) {
	for want, w := range map[string]iotrace.Warning{
		"1024 requests of io_uring are missing":                {Text: "1024 requests of io_uring are missing", Count: 1024},
		"the trace ends there":                                 {Code: "cut", Text: "the trace ends there", Count: 1},
		"Blocks are damaged (1833 operations)":                 {Text: "Blocks are damaged.", Count: 1833},
		"1 mapping of a file of 16777216 bytes: unseen":        {Text: "1 mapping of a file of 16777216 bytes: unseen", Count: 1, Bytes: 16777216},
		"21 mappings of files (1 operation, 16.0 MiB, 1 file)": {Text: "21 mappings of files", Count: 1, Bytes: 16777216, Files: []iotrace.WarnedFile{{Count: 1}}},
	} {
		if got := warningText(w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestNoHint: --lenient is advised only where it may help.
func TestNoHint(t *testing.T) {
	for _, no := range []bool{false, true} {
		var damaged *damagedTrace
		if !errors.As(traceError(&iotrace.FormatError{Reason: "damaged", NoPart: no}), &damaged) || (damaged.Hint() == "") != no {
			t.Errorf("no part %v: %v", no, damaged)
		}
	}
}

func TestRough(t *testing.T) {
	for x, want := range map[float64]string{0: "0s", 0.000012345: "12µs", 0.0123456: "12.35ms", 3.417369: "3.417s", 71.123456: "1m11.12s", 766.494308: "12m46s"} {
		if got := rough(x); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
}

func TestCutMiddle(t *testing.T) {
	for _, c := range [][2]string{{"mpirun ./a.out", "mpirun ./a.out"}, {"0123456789abcdefghij", "01234567…efghij"}, {"0123456789abcde", "0123456789abcde"}} {
		t.Setenv("LC_ALL", "C.UTF-8")
		if got := cutMiddle(c[0], 15); len([]rune(got)) != min(15, len(c[0])) || got[:7] != c[1][:7] || got[len(got)-6:] != c[1][len(c[1])-6:] {
			t.Errorf("%q, want %q", got, c[1])
		}
	}
}
