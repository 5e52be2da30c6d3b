package metrics

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/image"
	"ckpt/image/nodes"
)

// otlp is the part of ExportTraceServiceRequest that a collector reads, as protocol buffers have it in
// JSON: other fields are refused.
type otlp struct {
	ResourceSpans []struct {
		Resource struct {
			Attributes []otlpAttribute `json:"attributes"`
		} `json:"resource"`
		ScopeSpans []struct {
			Scope struct {
				Name string `json:"name"`
			} `json:"scope"`
			Spans []otlpSpan `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

type otlpSpan struct {
	TraceID    string          `json:"traceId"`
	SpanID     string          `json:"spanId"`
	Parent     string          `json:"parentSpanId"`
	Name       string          `json:"name"`
	Kind       int             `json:"kind"`
	Start      string          `json:"startTimeUnixNano"`
	End        string          `json:"endTimeUnixNano"`
	Attributes []otlpAttribute `json:"attributes"`
	Status     struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"status"`
}

type otlpAttribute struct {
	Key   string                     `json:"key"`
	Value map[string]json.RawMessage `json:"value"`
}

// TestSpans: each line is a request of OTLP/JSON; the parts of a checkpoint are below it and within
// its time, its drain is in the same trace, and an aborted checkpoint is an error.
func TestSpans(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var lines []string
	s := &Spans{Now: func() time.Time { return now }, Write: func(line []byte) error { lines = append(lines, string(line)); return nil }, Warn: func(err error) { t.Error(err) }}
	s.Event(&coordinator.StartEvent{Job: "night", App: "bt.S.4"})
	s.Event(&job.CheckpointEvent{Number: 3, Iteration: 15, Ranks: 4, StoredBytes: 1 << 60, Files: 5, Pause: 0.5, Latency: image.Latency{Coordination: 0.25, Management: 0.125, Storage: 1.625, Total: 2}})
	now = now.Add(10 * time.Second)
	s.Event(&levels.LevelEvent{Number: 3, Level: nodes.Protected})
	s.Event(&levels.LevelEvent{Number: 3, Level: nodes.Stored, Bytes: 7, Seconds: 4})
	s.Event(&levels.LevelEvent{Number: 3, Level: nodes.InNext, Store: "/a", Bytes: 7, Seconds: 4})
	s.Event(&levels.LevelEvent{Number: 3, Level: nodes.InNext, Store: "/b", Bytes: 7, Seconds: 4})
	s.Event(&coordinator.AbortedEvent{Number: 4, Reason: "rank 2 is silent"})
	var all []otlpSpan
	for _, line := range lines {
		var request otlp
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&request); err != nil || strings.Count(line, "\n") != 1 || len(request.ResourceSpans) != 1 || len(request.ResourceSpans[0].ScopeSpans) != 1 {
			t.Fatalf("%v in %s", err, line)
		}
		if a := request.ResourceSpans[0].Resource.Attributes; len(a) == 0 || a[0].Key != "service.name" || string(a[0].Value["stringValue"]) != `"ckpt"` {
			t.Errorf("attributes %v", a)
		}
		all = append(all, request.ResourceSpans[0].ScopeSpans[0].Spans...)
	}
	names, root := "", all[0]
	ids := map[string]bool{}
	for _, x := range all {
		names += x.Name + ", "
		if ids[x.SpanID] || !regexp.MustCompile("^[0-9a-f]{32}$").MatchString(x.TraceID) || !regexp.MustCompile("^[0-9a-f]{16}$").MatchString(x.SpanID) || x.Kind != 1 {
			t.Errorf("%s: ids %s %s, kind %d", x.Name, x.TraceID, x.SpanID, x.Kind)
		}
		ids[x.SpanID] = true
		for _, a := range x.Attributes {
			if len(a.Value) != 1 {
				t.Errorf("%s: %s has %d values", x.Name, a.Key, len(a.Value))
			}
		}
		if x.Name == "checkpoint" {
			continue
		}
		if x.Parent != root.SpanID || x.TraceID != root.TraceID {
			t.Errorf("%s is not below the checkpoint", x.Name)
		}
		if from, to := at(t, x.Start), at(t, x.End); from < at(t, root.Start) || to < from || x.Name != "drain" && to > at(t, root.End) {
			t.Errorf("%s: from %d to %d", x.Name, from, to)
		}
	}
	if names != "checkpoint, agree, capture, lay out, write and commit, drain, drain, drain, checkpoint, " {
		t.Fatalf("spans %s", names)
	}
	if at(t, root.End)-at(t, root.Start) != 2e9 || at(t, all[2].End)-at(t, all[2].Start) != 25e7 || at(t, all[5].End)-at(t, all[5].Start) != 4e9 {
		t.Errorf("durations %+v", all)
	}
	if last := all[8]; last.Status.Code != 2 || last.Status.Message != "rank 2 is silent" || last.TraceID == root.TraceID {
		t.Errorf("%+v", last)
	}
	if a := root.Attributes[4]; a.Key != "ckpt.checkpoint.stored_bytes" || string(a.Value["intValue"]) != `"1152921504606846976"` {
		t.Errorf("%s %s", a.Key, a.Value["intValue"])
	}
}

func at(t *testing.T, nanoseconds string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(nanoseconds, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSpansWarn: a file that cannot be written costs its spans, and is told once.
func TestSpansWarn(t *testing.T) {
	told, bad := 0, true
	s := &Spans{Now: time.Now, Warn: func(error) { told++ }, Write: func([]byte) error {
		if bad {
			return errors.New("no")
		}
		return nil
	}}
	for range 3 {
		s.Event(&job.CheckpointEvent{Number: 1})
	}
	bad = false
	s.Event(&job.CheckpointEvent{Number: 2})
	bad = true
	s.Event(&job.CheckpointEvent{Number: 3})
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
	if err := AppendTo(t.TempDir() + "/none/spans")(nil); err == nil {
		t.Error("a file in no directory was written")
	}
}

// fullFile is a file on a storage that is full after some bytes.
type fullFile struct {
	*os.File
	room int
}

func (f *fullFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:min(len(p), f.room)])
	if f.room -= n; err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

// TestSpansFull: a line that does not fit leaves no part behind, so that the next one is whole.
func TestSpansFull(t *testing.T) {
	path := t.TempDir() + "/spans"
	add := AppendTo(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := add([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 3} {
		if err := appendLine(&fullFile{f, room}, []byte("two, which is long\n")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
	if err := add([]byte("three\n")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); string(text) != "one\nthree\n" {
		t.Errorf("%q, %v", text, err)
	}
}
