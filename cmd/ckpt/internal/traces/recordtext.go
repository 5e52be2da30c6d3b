package traces

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/durable"
	"ckpt/iotrace/strace"
)

// A recordText is the file of what is recorded: the text of strace, or records of the
// kernel, which become that text if they are to be kept.
type recordText struct {
	dir, name string
	kept      bool
}

func newText() (*recordText, error) {
	dir, err := os.MkdirTemp("", "ckpt-strace-")
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil, fullTemp(os.TempDir(), err)
	}
	if err != nil {
		return nil, err
	}
	return &recordText{dir: dir, name: filepath.Join(dir, "strace")}, nil
}

func (t *recordText) remove() {
	if !t.kept {
		os.RemoveAll(t.dir)
	}
}

// keep keeps the text and returns a hint to it, with its use. It masks the values of the
// environment: without that the text cannot stay, and the hint says so.
func (t *recordText) keep(use string) string {
	if err := strace.Mask(t.name); err != nil {
		return fmt.Sprintf("the text of strace was removed, as the environment in it could not be masked: %v", err)
	}
	t.kept = true
	return "the text is kept: " + fmt.Sprintf(use, t.name)
}

// cut returns an error if the text has no end because its disk is full. strace itself
// continues without its text, and ends as the command does.
func (t *recordText) cut() error {
	const end = "+++\n" // of "+++ exited with 0 +++"
	f, err := os.OpenFile(t.name, os.O_RDWR, 0)
	if err != nil {
		return nil // reading it tells
	}
	defer f.Close()
	last := make([]byte, len(end))
	if n, err := f.Seek(-int64(len(end)), io.SeekEnd); err == nil {
		if _, err := f.ReadAt(last, n); err == nil && string(last) == end {
			return nil
		}
	}
	probe := filepath.Join(t.dir, "probe")
	err = os.WriteFile(probe, make([]byte, 64<<10), 0o600)
	os.Remove(probe)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fullTemp(t.dir, fmt.Errorf("the text of strace is cut: %w", errors.Unwrap(err)))
	}
	return nil
}

// fullTemp names the directory of temporary files as the one that is full.
func fullTemp(dir string, err error) error {
	return ui.WithHint(fmt.Errorf("%w: %s: %w", durable.ErrStorageFull, dir, err), "free some space there, or set TMPDIR to a directory with more")
}
