package launch

import (
	"encoding/hex"
	"io"
	"os"

	"github.com/zeebo/blake3"
)

// Digest returns the BLAKE3 and the length of a file that processes run.
func Digest(path string) (digest string, bytes int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := blake3.New()
	bytes, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), bytes, err
}
