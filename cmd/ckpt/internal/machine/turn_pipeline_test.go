package machine

import (
	"io"
	"os"
	"os/exec"
	"testing"
)

// begun starts a process that waits, between two pipes or none.
func begun(t *testing.T, in io.Reader, out io.Writer, command ...string) int {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout = in, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

// TestPipeline: a command has the name of the first one in turns whose bytes come to it,
// whatever programs are between them. Commands that write into one pipe are not of one
// pipeline.
func TestPipeline(t *testing.T) {
	pipe := func() (*os.File, *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	waits := []string{"sh", "-c", "kill -STOP $$", "storage", "turn"}
	turn := func(words ...string) []string { return append(waits[:len(waits):len(waits)], words...) }
	r1, w1 := pipe()
	r2, w2 := pipe()
	r3, w3 := pipe()
	first := begun(t, nil, w1, turn("--", "/bin/tar", "c")...)
	between := begun(t, r1, w2, "sleep", "1000")
	second := begun(t, r2, w3, turn("--name", "mine", "--", "dd")...)
	beside := begun(t, nil, w3, turn("--name=other", "--", "dd")...)
	last := begun(t, r3, nil, turn("--", "cat")...)
	for _, f := range []*os.File{r1, w1, r2, w2, r3, w3} {
		f.Close()
	}
	want := nameOf([]string{"tar"}, first)
	for pid, want := range map[int]string{first: "", between: want, second: want, beside: "", last: want} {
		if got := upstream(pid); got != want {
			t.Errorf("process %d is called %q, want %q", pid, got, want)
		}
	}
	if got := turnName(second, wordsOf(second)); got != "mine" {
		t.Errorf("the second is called %q", got)
	}
	if got := turnName(beside, wordsOf(beside)); got != "other" {
		t.Errorf("the one beside is called %q", got)
	}
}
