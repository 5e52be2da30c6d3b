package strace

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMask(t *testing.T) {
	name := filepath.Join(t.TempDir(), "text")
	const before = "1 1.5 execve(\"/a\", [\"a\"], [\"KEY=se\\\"cret\"..., \"PMI_RANK=3\"]) = 0\n1 1.6 write(1, \"B=c\", 3) = 3\n"
	const after = "1 1.5 execve(\"/a\", [\"a\"], [\"KEY=xxxxxxxx\"..., \"PMI_RANK=3\"]) = 0\n1 1.6 write(1, \"B=c\", 3) = 3\n"
	if err := os.WriteFile(name, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Mask(name); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != after {
		t.Errorf("%v\n%s", err, b)
	}
}
