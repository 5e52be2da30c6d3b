package source

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCutOff cuts an image off everywhere in the file header and in the fields of
// the others, and in steps in padding and data. Whether the length is known, or
// data is skipped, changes nothing.
func TestCutOff(t *testing.T) {
	im := tiny()
	b := im.Bytes()
	field := make([]bool, len(b)+1)
	for i := range 2 * headerSize {
		field[i] = true
	}
	for _, at := range im.Headers() {
		for i := range int64(atName + nameSize + 1) {
			field[at+i] = true
		}
		field[at+headerSize-1], field[at+headerSize] = true, true
	}
	for n := range int64(len(b)) {
		if !field[n] && n%64 != 0 {
			continue
		}
		_, err := readImage(b[:n])
		fe := formatError(t, err, n)
		if fe.Unsupported || !strings.Contains(fe.Reason, "ends early") || fe.Offset != n {
			t.Fatalf("of %d bytes: %v", n, err)
		}
		if n%512 != 0 {
			continue
		}
		_, piped := readAll(pipe(b[:n]), -1)
		_, known := readAll(pipe(b[:n]), n)
		_, zipped := readAll(bytes.NewReader(compressed(t, b[:n])), -1)
		for _, e := range []error{piped, known, zipped} {
			if diff := cmp.Diff(err, e); diff != "" {
				t.Fatalf("of %d bytes: %s", n, diff)
			}
		}
	}
}

// TestCutOffMixed does the same, coarser, where there is more to cut.
func TestCutOffMixed(t *testing.T) {
	b := mixed().Bytes()
	for n := 0; n < len(b); n += 97 {
		_, err := readImage(b[:n])
		if fe := formatError(t, err, int64(n)); fe.Offset != int64(n) {
			t.Fatalf("of %d bytes: %v", n, err)
		}
	}
}

// step goes through the bytes of a compressed file: one by one where gzip has
// its header and checksum, in larger steps between.
func imageStep(i, n int) int {
	if i < 32 || i > n-32 {
		return i + 1
	}
	return min(i+61, n-31)
}

func TestCutOffGzip(t *testing.T) {
	im := tiny()
	im.Gzip = true
	b := im.Bytes()
	for n := 2; n < len(b); n = imageStep(n, len(b)) {
		p, err := readImage(b[:n])
		if err == nil {
			t.Fatalf("of %d bytes: %+v", n, p)
		}
		if fe := formatError(t, err, im.Size()); !strings.Contains(fe.Reason, "ends early") {
			t.Fatalf("of %d bytes: %v", n, err)
		}
	}
}
