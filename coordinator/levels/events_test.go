package levels

import (
	"ckpt/image"
	"ckpt/internal/vfs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMeasureTier reads a journal with each kind of failure, a restart by a user, one that
// failed and needed the store the second time, and a torn line.
func TestMeasureTier(t *testing.T) {
	store, err := image.CreateStore(vfs.OS{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Unlock()
	text := `{"type":"start"}
{"type":"checkpoint","number":1,"storage_level":"protected","pause_s":0.5}
{"type":"storage_level","number":1,"storage_level":"draining","bytes":9}
{"type":"storage_level","number":1,"storage_level":"stored","bytes":9,"copy_s":2.5}
{"type":"checkpoint","number":2,"pause_s":7}
{"type":"recovered","number":1,"local_ranks":4,"copied_ranks":0,"rebuilt_ranks":0,"stored_ranks":0}
{"type":"restarted","after_failure":true,"restart_s":1}
{"type":"recovered","number":1,"local_ranks":2,"copied_ranks":2,"rebuilt_ranks":0,"stored_ranks":0}
{"type":"restarted","after_failure":true,"restart_s":2}
{"type":"start"}
{"type":"recovered","number":1,"local_ranks":0,"copied_ranks":0,"rebuilt_ranks":0,"stored_ranks":4}
{"type":"restarted","after_failure":false,"restart_s":9}
{"type":"recovered","number":1,"local_ranks":4,"copied_ranks":0,"rebuilt_ranks":0,"stored_ranks":0}
{"type":"recovered","number":1,"local_ranks":0,"copied_ranks":0,"rebuilt_ranks":0,"stored_ranks":4}
{"type":"recovered","number":1,"local_ranks":2,"copied_ranks":0,"rebuilt_ranks":2,"stored_ranks":0}
{"type":"restarted","after_failure":true,"restart_s":3}
{"type":"restarted","after_failure":true,"restart_s":4}
{"type":"recovered","local_ra`
	if err := os.WriteFile(filepath.Join(j.Dir(), "history.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := MeasureTier(j)
	if err != nil {
		t.Fatal(err)
	}
	want := &TierRun{Pauses: []float64{0.5}, Drains: []float64{2.5}, Failures: []TierFailure{
		{Local: 4, RestartS: 1}, {Local: 2, Copied: 2, RestartS: 2}, {Stored: 4, RestartS: 3},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Failures[0].NeedsNodes() || !got.Failures[1].NeedsNodes() || got.Failures[1].NeedsStore() || !got.Failures[2].NeedsStore() {
		t.Errorf("%+v", got.Failures)
	}
}
