package export

import (
	"bytes"
	"encoding/json"
	"testing"

	"ckpt/iotrace/iotracetest"
)

func TestMeta(t *testing.T) {
	want := iotracetest.Full()
	var buf bytes.Buffer
	if err := WriteMeta(&buf, want); err != nil {
		t.Fatal(err)
	}
	var got metaFile
	if err := json.Unmarshal(buf.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Job != want.Job || !got.Origin.Equal(want.Origin) || got.Runtime != 90 || len(got.Ranks) != len(want.Ranks) ||
		len(got.Files) != len(want.Files) || len(got.Renames) != len(want.Renames) || len(got.Renames) == 0 || len(got.Warnings) != 2 || got.Warnings[0].Count != 12 || got.Events != len(want.Events) {
		t.Errorf("%s", buf.Bytes())
	}
}
