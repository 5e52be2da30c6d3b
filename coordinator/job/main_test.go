package job

import (
	"testing"

	"go.uber.org/goleak"

	"ckpt/image"
	"ckpt/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
