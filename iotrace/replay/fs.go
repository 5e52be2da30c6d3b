package replay

import (
	"errors"
	"io"
	"syscall"

	"ckpt/internal/vfs"
)

// An openFile has what a replay needs of a file: single calls, as in the trace.
type openFile interface {
	vfs.File
	vfs.Vectored
	io.Seeker
	Truncate(size int64) error
}

// asOpen checks that a file can do all that.
func asOpen(f vfs.File, err error) (openFile, error) {
	if err != nil {
		return nil, err
	}
	if f, ok := f.(openFile); ok {
		return f, nil
	}
	return nil, errors.Join(errors.ErrUnsupported, f.Close())
}

// direct opens the same file with O_DIRECT.
func direct(f openFile) (openFile, error) {
	d, err := asOpen(vfs.ReopenDirect(f))
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = ErrDirect
	}
	return d, err
}
