package source

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestVersions checks that other formats of DMTCP are told from damage.
func TestVersions(t *testing.T) {
	b := mixed().Bytes()
	start := func(s string) []byte { return append([]byte(s), bytes.Repeat([]byte{1}, 20000)...) }
	for _, c := range []struct {
		name        string
		b           []byte
		unsupported bool
		reason      string
	}{
		{"2.0", start("DMTCP_CHECKPOINT_IMAGE_v2.0\n"), true, "version 2.0"},
		{"3.1", start("DMTCP_CHECKPOINT_IMAGE_v3.1\n"), true, "version 3.1"},
		{"5.0", start("DMTCP_CHECKPOINT_IMAGE_v5.0\n\x00"), true, "version 5.0"},
		{"4.01", start("DMTCP_CHECKPOINT_IMAGE_v4.01\n\x00"), true, "version 4.01"},
		{"odd", start("DMTCP_CHECKPOINT_IMAGE_v\xff\xfe"), true, "version ?"},
		{"short 2.0", []byte("DMTCP_CHECKPOINT_IMAGE_v2.0\n"), true, "version 2.0"},
		{"2.0 under gzip", compressed(t, start("DMTCP_CHECKPOINT_IMAGE_v2.0\n")), true, "version 2.0"},
		{"32 bit", slices.Concat(b[:132], []byte{0}, b[133:4096+132], []byte{0}, b[4096+133:]), true, "32-bit"},
		{"99 bit", slices.Concat(b[:132], []byte{9}, b[133:4096+132], []byte{9}, b[4096+133:]), false, "ELF type 9"},
		{"no image", start("\x7fELF"), false, "signature"},
		{"end of the file name", start("DMTCP_CHECKPOINT"), false, "signature"},
		{"empty", nil, false, "ends early"},
		{"one byte", []byte("D"), false, "ends early"},
		{"other byte", []byte("d"), false, "signature"},
		{"half of gzip's magic", []byte{0x1f}, false, "signature"},
		{"gzip's magic", []byte{0x1f, 0x8b}, false, "ends early"},
		{"bad gzip", []byte{0x1f, 0x8b, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, false, "compressed file is damaged"},
		{"gzip of nothing", compressed(t, nil), false, "ends early"},
	} {
		_, err := readImage(c.b)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		if fe := formatError(t, err, int64(len(c.b))+4096); fe.Unsupported != c.unsupported || !strings.Contains(fe.Reason, c.reason) {
			t.Errorf("%s: %+v", c.name, fe)
		}
	}
}
