package durable

import (
	"bytes"
	"encoding/json"
	"fmt"

	"ckpt/internal/vfs"
)

// ReplaceSealed is Replace for a value: its JSON in a line, and the CRC-32C of that line
// in another.
func ReplaceSealed(fsys vfs.FS, path string, v any) error {
	b, err := Sealed(v)
	if err != nil {
		return err
	}
	return Replace(fsys, path, b)
}

// Sealed returns what ReplaceSealed writes.
func Sealed(v any) ([]byte, error) {
	line, err := json.Marshal(v)
	return fmt.Appendf(line, "\n%08x\n", Sum(line)), err
}

// ReadSealed reads a file of ReplaceSealed, at most limit bytes long, into v.
func ReadSealed(fsys vfs.FS, path string, limit int64, v any) error {
	b, err := ReadFile(fsys, path, limit)
	if err != nil {
		return err
	}
	line, sealed := unseal(b)
	if !sealed {
		return Damaged(path, 0, "checksum does not match")
	}
	if err := json.Unmarshal(line, v); err != nil {
		return Damaged(path, 0, "%v", err)
	}
	return nil
}

// ReadSealedOrPlain is ReadSealed for a file that earlier versions wrote as JSON without a
// checksum. A sealed file with a damaged byte is no JSON, since the checksum follows it.
func ReadSealedOrPlain(fsys vfs.FS, path string, limit int64, v any) error {
	b, err := ReadFile(fsys, path, limit)
	if err != nil {
		return err
	}
	line, sealed := unseal(b)
	if sealed {
		b = line
	}
	if err := json.Unmarshal(b, v); err != nil {
		return Damaged(path, 0, "it is neither JSON nor JSON with its checksum: %v", err)
	}
	return nil
}

// unseal returns the first line, and whether the second is its checksum.
func unseal(b []byte) (line []byte, sealed bool) {
	line, sum, _ := bytes.Cut(b, []byte("\n"))
	return line, string(sum) == fmt.Sprintf("%08x\n", Sum(line))
}

// sealedEnd is how a sealed line ends: with a last member, which is the CRC-32C of the line
// without it.
const sealedEnd = `,"crc32c":"%08x"}`

// SealLine returns a JSON object in a line, which has members, with its checksum as another.
func SealLine(line []byte) []byte {
	body := line[: len(line)-1 : len(line)-1]
	return fmt.Appendf(body, sealedEnd, Sum(line))
}

// IsSealedLine reports whether a line is one of SealLine, as it was written.
func IsSealedLine(line []byte) bool {
	at := len(line) - len(fmt.Sprintf(sealedEnd, 0))
	return at > 0 && bytes.Equal(line, SealLine(append(line[:at:at], '}')))
}
