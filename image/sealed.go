package image

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"ckpt/internal/durable"

	"github.com/zeebo/blake3"
)

// Manifests and job descriptions are text between a line that says what it is
// and a line with the digest of all before, so that a person can read them and
// any flipped bit is found.
const (
	sumPrefix     = "blake3 "
	formatVersion = 1 // of manifests, descriptions and the store
)

// seal puts body between the two lines; it should end in a newline.
func seal(magic string, body []byte) []byte {
	b := fmt.Appendf(nil, "%s%d\n%s", magic, formatVersion, body)
	return fmt.Appendf(b, "%s%x\n", sumPrefix, blake3.Sum256(b))
}

// sealOf returns the digest in the last line of a sealed text.
func sealOf(b []byte) string { return string(b[len(b)-65 : len(b)-1]) }

// DigestOf returns the digest of the description of a job, as Job.Digest does.
func DigestOf(spec []byte) string { return sealOf(seal(specMagic, spec)) }

// unseal undoes seal. Its errors are durable.DamageError, and durable.ErrNewerVersion if the
// text is sound but not for us.
func unseal(path, magic string, b []byte) (body []byte, version int, err error) {
	const sumLine = len(sumPrefix) + 64 + 1
	what := strings.TrimSpace(magic)
	at := len(b) - sumLine
	if at < 0 || !bytes.HasPrefix(b, []byte(magic)) {
		return nil, 0, durable.Damaged(path, 0, "not a %s, or cut short at %d bytes", what, len(b))
	}
	if want := fmt.Sprintf("%s%x\n", sumPrefix, blake3.Sum256(b[:at])); string(b[at:]) != want {
		return nil, 0, durable.Damaged(path, int64(at), "checksum of the %s does not match", what)
	}
	line, body, ok := bytes.Cut(b[len(magic):at], []byte("\n"))
	version, err = strconv.Atoi(string(line))
	if !ok || err != nil || version < 1 {
		return nil, 0, durable.Damaged(path, 0, "version %.20q of the %s is not a number", line, what)
	}
	if version > formatVersion {
		return nil, 0, durable.Op("read", path, -1, fmt.Errorf("%s format %d: %w", what, version, durable.ErrNewerVersion))
	}
	return body, version, nil
}
