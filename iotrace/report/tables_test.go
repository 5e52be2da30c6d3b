package report

import (
	"fmt"
	"strings"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

// TestCountedTables: a page has what the text has of MPI-IO and stripes, and no zeros
// where counters do not tell.
func TestCountedTables(t *testing.T) {
	calls := iotrace.Counters{Module: iotrace.MPIIO, Rank: iotrace.None, Writes: 100, Calls: iotrace.Calls{CollectiveWrites: 100}, BytesWritten: 1 << 20}
	below := iotrace.Counters{Module: iotrace.POSIX, Rank: iotrace.None, Writes: 10, BytesWritten: 2 << 20, Opens: 3, MetaTime: 2e9}
	tr := &iotrace.Trace{Source: "darshan", Ranks: []iotrace.Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"out"},
		Counters: []iotrace.Counters{calls, below}, Striping: []iotrace.Striping{{Size: 1 << 20, Count: 4}}}
	r := analyze.Analyze(tr, analyze.Options{})
	var text strings.Builder
	for _, table := range tables(r) {
		fmt.Fprintln(&text, table.Title, table.Head)
		for _, row := range table.Rows {
			fmt.Fprintln(&text, table.Title, row)
		}
	}
	for _, want := range []string{
		"MPI-IO [{all files name} {2 n} {2 n} {writes } {100 n} {100.0 % n} {10 n} {2 n}]",
		"Stripes [{1 MiB n} {4 n} {1 n} {out name}]",
		"Operations [{open } {3 n} {0 B n} {unknown n}]",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is missing in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "bursts") {
		t.Errorf("%s", &text)
	}
	if !r.Traceable() {
		t.Error("DXT could not have recorded this")
	}
	tr.Counters = []iotrace.Counters{{Module: iotrace.STDIO, Writes: 100}, {Module: iotrace.POSIX, Opens: 1}}
	if analyze.Analyze(tr, analyze.Options{}).Traceable() {
		t.Error("DXT does not record streams")
	}
}
