package bench

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun: every figure is there; the time that it takes is nobody's concern.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	last := 0
	o := Options{Dir: dir, Events: 5000, Size: 2 << 20, Rounds: 2, Progress: func(n int) { last = n }}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(r.Reading, r.Recording) {
		if s.Rate <= 0 || s.CPURate <= 0 || s.PerEvent <= 0 {
			t.Errorf("%+v", s)
		}
	}
	if len(r.Reading) != 5 || len(r.Spent) != 2 || len(r.Plain) != 2 || len(r.Recorded) != 2 || r.Ratio <= 0 || r.Share <= 0 || r.Operations != 16 || r.Events < 5000 {
		t.Errorf("%+v", r)
	}
	if last != o.Steps() {
		t.Errorf("%d of %d steps", last, o.Steps())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left", err, left)
	}
	if _, err := Run(context.Background(), Options{Events: 1}); err == nil {
		t.Error("one event")
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Run(ctx, o); err == nil {
		t.Error("it was not interrupted")
	}
}
