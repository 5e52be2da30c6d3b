package launch

import (
	"os"
	"sync"
	"testing"
)

// TestRundirs makes and removes the directories of many runs at the same time, each of
// which sweeps those of dead runs.
func TestRundirs(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			for range 100 {
				r, err := NewRunDir(tmp, 2)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(r.Scratch(1)); err != nil {
					t.Error(err)
				}
				if err := r.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	runs.Wait()
}
