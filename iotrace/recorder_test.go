package iotrace

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"ckpt/internal/testkit"

	"github.com/google/go-cmp/cmp"
)

// TestRecorder records from several goroutines.
func TestRecorder(t *testing.T) {
	var buf bytes.Buffer
	r := NewRecorder(&buf, Meta{Job: "j", Source: "ckpt"})
	r.Measure()
	r.Warn(Warning{Code: "c", Text: "t", Count: 1})
	r.Warn(Warning{Code: "c", Text: "t", Count: 2})
	const workers, each = 4, 20000
	var wg sync.WaitGroup
	for g := range workers {
		wg.Go(func() {
			me := r.Rank(Rank{Rank: g})
			file := r.File("/shared")
			for i := range each {
				start := r.Since(time.Now())
				r.Record(Event{Op: Write, Rank: me, File: file, Peer: None, Offset: int64(i), Bytes: int64(g), Start: start, End: r.Since(time.Now())})
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if r.Spent() <= 0 {
		t.Error("no time was spent")
	}
	if err := r.Close(); err == nil {
		t.Error("closed twice")
	}
	r.Record(Event{Op: Open, Rank: None, File: None})
	tr, err := ReadTrace(&buf)
	if err != nil {
		t.Fatal(err)
	}
	encode(t, tr) // fails if an event is invalid
	next := make(map[int32]int64)
	for _, e := range tr.Events {
		if e.Offset != next[e.Rank] {
			t.Fatalf("rank %d: offset %d follows %d", e.Rank, e.Offset, next[e.Rank])
		}
		next[e.Rank]++
	}
	if len(tr.Ranks) != workers || len(tr.Events) != workers*each || cmp.Diff([]string{"/shared"}, tr.Files) != "" {
		t.Errorf("%d ranks, %d events, files %q", len(tr.Ranks), len(tr.Events), tr.Files)
	}
	if diff := cmp.Diff([]Warning{{Code: "c", Text: "t", Count: 3}}, tr.Warnings); diff != "" {
		t.Error(diff)
	}
	if age := time.Since(tr.Origin); age < 0 || age > time.Hour {
		t.Errorf("origin %v", tr.Origin)
	}
}

// TestRecorderNil uses a recorder that is not there.
func TestRecorderNil(t *testing.T) {
	var r *Recorder
	r.Record(Event{Op: Write})
	r.Warn(Warning{Code: "c"})
	if r.Rank(Rank{}) != None || r.File("f") != None || r.Since(time.Now()) != 0 || r.Close() != nil {
		t.Error("a nil recorder does something")
	}
}

// TestRecorderFails keeps the first error, and counts what is lost.
func TestRecorderFails(t *testing.T) {
	r := NewRecorder(&failing{150}, Meta{})
	me := r.Rank(Rank{Rank: 1})
	for range 3 {
		r.Record(Event{Op: Open, Rank: me, File: None, Peer: None, Offset: None})
		r.w.flush()
	}
	err := r.Close()
	if !errors.Is(err, io.ErrClosedPipe) || err.Error() != "2 events were not recorded: io: read/write on closed pipe" {
		t.Error(err)
	}
	r = NewRecorder(io.Discard, Meta{})
	r.Record(Event{Op: Open, Rank: 5, File: None})
	if err := r.Close(); err == nil || err.Error() != "1 events were not recorded: event 0: open: rank 5 of 0" {
		t.Error(err)
	}
	if r.File("") != None {
		t.Error("an empty path is a file")
	}
}

// TestRecordAllocates checks that recording leaves no garbage.
func TestRecordAllocates(t *testing.T) {
	if testkit.Enabled {
		t.Skip("the race detector allocates")
	}
	r := NewRecorder(io.Discard, Meta{})
	me, file := r.Rank(Rank{Rank: 1}), r.File("/f")
	n := int64(0)
	one := func() {
		n++
		r.Record(Event{Op: Write, Rank: me, File: file, Peer: None, Offset: n * 512, Bytes: 512, Start: n, End: n + 9})
	}
	for range 30000 {
		one() // beyond the first blocks
	}
	if got := testing.AllocsPerRun(30000, one); got > 0 {
		t.Errorf("%.3f allocations an event", got)
	}
}
