package jobs

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestRequestFilter(t *testing.T) {
	begin := time.Unix(1000, 0)
	for _, step := range []struct {
		name    string
		signals []os.Signal
		after   time.Duration
		want    bool // of the last
	}{
		{"one", []os.Signal{syscall.SIGTERM}, 0, true},
		{"timeout's two", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, time.Millisecond, false},
		{"two, far apart", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 2 * time.Second, true},
		{"two ^C", []os.Signal{os.Interrupt, os.Interrupt}, time.Millisecond, true},
		{"a hangup and its repetition", []os.Signal{syscall.SIGHUP, syscall.SIGHUP}, time.Millisecond, false},
		{"a batch system's two", []os.Signal{syscall.SIGUSR1, syscall.SIGTERM}, time.Minute, false},
		{"two signals to stop after one before the end", []os.Signal{syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGTERM}, time.Minute, true},
		{"two kinds", []os.Signal{syscall.SIGHUP, syscall.SIGTERM}, time.Millisecond, true},
	} {
		var f requestFilter
		var got bool
		for i, s := range step.signals {
			got = f.isNew(s, begin.Add(time.Duration(i)*step.after))
		}
		if got != step.want {
			t.Errorf("%s: new %v, want %v", step.name, got, step.want)
		}
	}
}
