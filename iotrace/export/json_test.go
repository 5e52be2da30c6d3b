package export

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// TestJSON compares JSON lines with the trace, member by member.
func TestJSON(t *testing.T) {
	tr := iotracetest.Golden()
	tr.Job = "j\"\n\xff"
	tr.Events[0].Rank = iotrace.None
	var buf bytes.Buffer
	if err := WriteJSON(&buf, tr); err != nil {
		t.Fatal(err)
	}
	iotracetest.SameAs(t, "golden.jsonl", buf.Bytes(), *update)
	lines := bytes.Split(bytes.TrimSuffix(buf.Bytes(), []byte("\n")), []byte("\n"))
	var head map[string]any
	if err := json.Unmarshal(lines[0], &head); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "trace", "job": `j"` + "\n" + `\xff`, "source": "ckpt", "origin": "2026-10-20T12:00:00.123456789Z",
		"ranks": float64(len(tr.Ranks)), "files": float64(len(tr.Files)), "events": float64(len(tr.Events))}
	if diff := cmp.Diff(want, head); diff != "" {
		t.Error(diff)
	}
	if len(lines) != 1+len(tr.Ranks)+len(tr.Events) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, l := range lines[1+len(tr.Ranks):] {
		type line struct {
			Type, Op, Module, Zone, Node, File string
			PeerNode                           string `json:"peer_node"`
			Create                             bool
			Rank, Peer                         *int
			Checkpoint, Round                  int32
			Offset                             *int64
			Bytes                              int64
			Start                              int64 `json:"start_ns"`
			End                                int64 `json:"end_ns"`
		}
		var got line
		d := json.NewDecoder(bytes.NewReader(l))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		e := &tr.Events[i]
		want := line{Type: "event", Op: e.Op.String(), Zone: e.Zone.String(), Create: e.Create, Checkpoint: e.Checkpoint, Round: e.Round,
			Bytes: e.Bytes, Start: e.Start, End: e.End}
		if e.Module != iotrace.POSIX {
			want.Module = e.Module.String()
		}
		if e.Rank != iotrace.None {
			r := tr.Ranks[e.Rank]
			want.Rank, want.Node = &r.Rank, r.Node
		}
		if e.File != iotrace.None {
			want.File = tr.Files[e.File]
		}
		if e.Peer != iotrace.None {
			r := tr.Ranks[e.Peer]
			want.Peer, want.PeerNode = &r.Rank, r.Node
		}
		if e.Offset != iotrace.None {
			want.Offset = &e.Offset
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: %s", l, diff)
		}
	}
}
