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

// TestRemoveTakesSegments: a run that ends while ranks are starting leaves no segment
// behind, and touches none of another run.
func TestRemoveTakesSegments(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	shm := t.TempDir()
	mine, err := NewRunDir(shm, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewRunDir(shm, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Remove()
	paths := []string{mine.Segment(shm, 0, 2, 0), mine.Segment(os.TempDir(), 0, 3, 0), other.Segment(shm, 0, 2, 0)}
	for _, p := range paths {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := mine.Remove(); err != nil {
		t.Fatal(err)
	}
	for i, p := range paths {
		if _, err := os.Stat(p); (err == nil) != (i == 2) {
			t.Errorf("%s: %v", p, err)
		}
	}
}
