package source

import (
	"bytes"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// The signature belongs to the format, not to the program's version.
const (
	signaturePrefix = "DMTCP_CHECKPOINT_IMAGE_v"
	signature       = signaturePrefix + "4.0\n\x00"
)

var imageMagic = []byte{0x1f, 0x8b}

// IsImage reports whether a file that begins with head is an image of DMTCP, of any
// version of the format, compressed or not. It needs the first 512 bytes.
func IsImage(head []byte) bool {
	if bytes.HasPrefix(head, imageMagic) {
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return false
		}
		start := make([]byte, len(signaturePrefix))
		n, _ := io.ReadFull(z, start) // head may end early; use what was unpacked
		head = start[:n]
	}
	return bytes.HasPrefix(head, []byte(signaturePrefix))
}

// CompanionDir returns the name of the directory in which DMTCP puts the files that an
// image shares with others. ok is false if the image does not have a name of DMTCP.
func CompanionDir(image string) (dir string, ok bool) {
	stem, ok := strings.CutSuffix(image, ".dmtcp")
	return stem + companionSuffix, ok
}

const companionSuffix = "_files"

// IsCompanion reports whether a directory is the CompanionDir of some image.
func IsCompanion(dir string) bool { return strings.HasSuffix(dir, companionSuffix) }

func version(head []byte) string {
	v := head[len(signaturePrefix):min(len(head), 32)]
	if i := bytes.IndexAny(v, "\n\x00"); i >= 0 {
		v = v[:i]
	}
	return strings.ToValidUTF8(string(v), "?")
}
