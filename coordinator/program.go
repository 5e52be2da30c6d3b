package coordinator

import "ckpt/coordinator/launch"

// libraryID identifies the binary that the ranks run.
type libraryID struct {
	digest string
	bytes  int64
}

// LibraryFile is the file whose content is the library zone. Tests name a small one, so
// that a store of before fits another build, and that jobs need not store all of ckpt.
var LibraryFile = launch.Self

// identifySelf digests the binary that the ranks will run.
func identifySelf() (libraryID, error) {
	digest, bytes, err := launch.Digest(LibraryFile)
	return libraryID{digest, bytes}, err
}
