package coordinator

import (
	"testing"

	"ckpt/image"
	"ckpt/internal/vfs"
)

// makeJob makes a job that has nothing yet, in a store of its own.
func makeJob(t testing.TB) *image.Job {
	t.Helper()
	store, err := image.CreateStore(vfs.OS{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Unlock() })
	return j
}
