package traces

import (
	"errors"
	"fmt"
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
		return nil, ui.WithHint(fmt.Errorf("no temporary directory: %w", err), "set TMPDIR to a directory that you can write to")
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

// fullTemp names the directory of temporary files as the one that is full.
func fullTemp(dir string, err error) error {
	return ui.WithHint(fmt.Errorf("%w: %s: %w", durable.ErrStorageFull, dir, err), "free some space there, or set TMPDIR to a directory with more")
}
