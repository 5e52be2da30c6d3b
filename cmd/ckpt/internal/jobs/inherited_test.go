package jobs

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStartAlone: a process that is started so has not what this one was given; others have
// it again afterwards.
func TestStartAlone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD, 100) // as a shell passes one on
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	list := func(start func(func() error) error) string {
		cmd := exec.Command("readlink", "/proc/self/fd/"+strconv.Itoa(fd))
		var out strings.Builder
		cmd.Stdout = &out
		if err := start(cmd.Start); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it fails where there is no such descriptor
		return out.String()
	}
	plainly := func(start func() error) error { return start() }
	if got := list(plainly); !strings.HasPrefix(got, "pipe:") {
		t.Fatalf("a child has %q, want the pipe", got)
	}
	if got := list(startAlone); got != "" {
		t.Errorf("a process started alone has %q", got)
	}
	if got := list(plainly); !strings.HasPrefix(got, "pipe:") {
		t.Errorf("a later child has %q, want the pipe", got)
	}
}
