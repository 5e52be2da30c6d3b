package durable

import (
	"encoding/json"
	"fmt"
	"strings"

	"ckpt/internal/vfs"
)

// ReplaceSealed is Replace for a value: its JSON in a line, and the CRC-32C of that line
// in another.
func ReplaceSealed(fsys vfs.FS, path string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Replace(fsys, path, fmt.Appendf(line, "\n%08x\n", Sum(line)))
}

// ReadSealed reads a file of ReplaceSealed, at most limit bytes long, into v.
func ReadSealed(fsys vfs.FS, path string, limit int64, v any) error {
	b, err := ReadFile(fsys, path, limit)
	if err != nil {
		return err
	}
	line, sum, _ := strings.Cut(string(b), "\n")
	if sum != fmt.Sprintf("%08x\n", Sum([]byte(line))) {
		return Damaged(path, 0, "checksum does not match")
	}
	if err := json.Unmarshal([]byte(line), v); err != nil {
		return Damaged(path, 0, "%v", err)
	}
	return nil
}
