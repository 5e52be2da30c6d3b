package image

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/iotrace"
)

// TestTraceOfTransaction: a replay must know which files the checkpoint makes itself,
// and under which name a renamed one was written.
func TestTraceOfTransaction(t *testing.T) {
	t.Parallel()
	g := newGroupJob(t, groupRanks(), groupLayouts()["shared"], codec.UseNone, false)
	var b bytes.Buffer
	rec := iotrace.NewRecorder(&b, iotrace.Meta{Job: testJob, Source: "ckpt", Origin: time.Now()})
	g.trace = &container.Tracing{Recorder: rec, Rank: rec.Rank(iotrace.Rank{Rank: iotrace.None, Node: "coordinator"}), Checkpoint: 1}
	if _, err := g.take(t.Context(), 1, 0, groupMemory(1)); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	trace, _, err := iotrace.Import(&b, iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range trace.Events {
		op := e.Op.String()
		if e.Create {
			op = "create"
		}
		got = append(got, fmt.Sprint(op, " ", trace.Files[e.File]))
	}
	want := []string{"create 0001/job.img", "close 0001/job.img",
		"create 0001/manifest.tmp", "write 0001/manifest.tmp", "sync 0001/manifest.tmp", "close 0001/manifest.tmp", "rename 0001/manifest.tmp"}
	if !slices.Equal(got, want) {
		t.Errorf("the trace has\n%s", strings.Join(got, "\n"))
	}
}
