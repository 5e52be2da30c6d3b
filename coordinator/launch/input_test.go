package launch

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"ckpt/coordinator/job"
)

// readAll returns what a run reads of an input.
func readAll(t *testing.T, in *Input) string {
	t.Helper()
	f, done, err := in.open()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if f == nil {
		return ""
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestInputAgain: each run reads the same, and so does one with what the job has kept.
func TestInputAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, []byte("before after"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		for range 5 {
			_, _ = w.Write(bytes.Repeat([]byte("line\n"), 20000))
		}
		w.Close()
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, c := range map[string]struct {
		in   io.Reader
		want string
	}{
		"nothing": {nil, ""}, "null": {null, ""}, "file": {file, "after"}, "pipe": {r, string(bytes.Repeat([]byte("line\n"), 100000))},
	} {
		in, err := NewInput(c.in)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := readAll(t, in); got != c.want {
				t.Errorf("%s: %d bytes, want %d", name, len(got), len(c.want))
			}
		}
		kept, err := in.Kept()
		if err != nil || !kept.Ended {
			t.Fatalf("%s: %v, ended %v", name, err, kept.Ended)
		}
		in.Close()
		again, err := Again(&kept)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, again); got != c.want {
			t.Errorf("%s, of another process: %d bytes, want %d", name, len(got), len(c.want))
		}
		again.Close()
	}
}

// TestLongInput: a long file is read again by its name, unless it has changed; a long pipe
// cannot be kept.
func TestLongInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, []byte("begin"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, job.InputLimit+1); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in, err := NewInput(file)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := in.Kept()
	if err != nil || kept.File == nil || kept.File.Path != path || len(kept.Data) > 0 {
		t.Fatalf("%+v, %v", kept.File, err)
	}
	again, err := Again(&kept)
	if err != nil || readAll(t, again)[:5] != "begin" {
		t.Errorf("%v", err)
	}
	again.file.Close()
	long, err := NewInput(struct{ io.Reader }{file})
	if err != nil {
		t.Fatal(err)
	}
	<-long.tooLong
	long.Close()
}

// TestInputThatStaysOpen: an input that nobody ends does not hold up the end.
func TestInputThatStaysOpen(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	in, err := NewInput(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("some"); err != nil {
		t.Fatal(err)
	}
	f, done, err := in.open()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(f, got); err != nil || string(got) != "some" || !in.More(3) {
		t.Errorf("%q, %v", got, err)
	}
	kept, err := in.Kept()
	if err != nil || kept.Ended || string(kept.Data) != "some" {
		t.Errorf("%+v, %v", kept, err)
	}
	in.Close()
	if in.More(4) {
		t.Error("more of a closed input")
	}
	done()
}
