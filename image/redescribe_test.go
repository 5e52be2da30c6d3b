package image

import "testing"

// TestRedescribe: a description says more as long as there is no checkpoint, to whoever
// has the lock.
func TestRedescribe(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	if err := k.job.Redescribe([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if spec, err := k.job.Spec(); err != nil || string(spec) != "more" {
		t.Errorf("%s, %v", spec, err)
	}
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	if err := k.job.Redescribe([]byte("most")); err == nil {
		t.Error("described after a checkpoint")
	}
	if err := checkCheckpoint(k.job, 1); err != nil {
		t.Error(err)
	}
	if err := k.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := k.job.Redescribe([]byte("most")); err == nil {
		t.Error("described without the lock")
	}
}
