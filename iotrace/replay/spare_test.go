package replay

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"ckpt/iotrace"
)

// TestManyFiles: a trace that closes nothing takes no more open files than it uses at
// a time; one that closes its files later needs them all.
func TestManyFiles(t *testing.T) {
	const ranks, files, limit = 4, 50, 8
	tr := &iotrace.Trace{}
	for r := range int32(ranks) {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: int(r)})
	}
	add := func(rank, file int32, op iotrace.Op) {
		now := int64(len(tr.Events))
		e := iotrace.Event{Op: op, Rank: rank, File: file, Peer: iotrace.None, Offset: iotrace.None, Create: op == iotrace.Open, Start: now, End: now + 1}
		if op == iotrace.Write {
			e.Offset, e.Bytes = int64(rank)*100, 100
		}
		tr.Events = append(tr.Events, e)
	}
	for f := range int32(files) {
		tr.Files = append(tr.Files, fmt.Sprintf("f%d", f))
		for r := range int32(ranks) {
			if f%3 == 0 {
				add(r, f, iotrace.Open)
			}
			if f%6 != 0 { // or it is opened, and no more
				add(r, f, iotrace.Write)
				add(r, f, iotrace.Write)
			}
		}
	}
	m := newMemFS()
	m.limit = limit
	res, err := Run(context.Background(), tr, Options{Dir: "/new", fs: m})
	if err != nil || m.open != 0 || len(m.names()) != 0 {
		t.Fatalf("%v; %d files are open; %v is left", err, m.open, m)
	}
	if res.Replayed.BytesWritten != res.Traced.BytesWritten || res.Replayed.Operations != res.Traced.Operations {
		t.Errorf("%+v, traced %+v", res.Replayed, res.Traced)
	}
	for f := range int32(files) {
		for r := range int32(ranks) {
			if f%6 != 0 {
				add(r, f, iotrace.Close)
			}
		}
	}
	if _, err := Run(context.Background(), tr, Options{Dir: "/new", fs: m}); !errors.Is(err, syscall.EMFILE) || m.open != 0 {
		t.Errorf("%v; %d files are open", err, m.open)
	}
}
