package coordinator

import (
	"encoding/hex"
	"io"
	"os"

	"github.com/zeebo/blake3"

	"ckpt/coordinator/launch"
)

// libraryID identifies the binary that the ranks run.
type libraryID struct {
	digest string
	bytes  int64
}

// program is the file whose content is the library zone. Tests of stored jobs name a
// small one, so that a store of before fits another build.
var program = launch.Self

// identifySelf digests the binary that the ranks will run.
func identifySelf() (libraryID, error) {
	f, err := os.Open(program)
	if err != nil {
		return libraryID{}, err
	}
	defer f.Close()
	h := blake3.New()
	n, err := io.Copy(h, f)
	return libraryID{hex.EncodeToString(h.Sum(nil)), n}, err
}
