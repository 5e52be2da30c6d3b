package coordinator

import "ckpt/coordinator/launch"

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
	digest, bytes, err := launch.Digest(program)
	return libraryID{digest, bytes}, err
}
