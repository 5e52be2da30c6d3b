package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// TestErrorsKeepKind sends errors to the other side, where they are what they were.
func TestErrorsKeepKind(t *testing.T) {
	all := []error{fs.ErrExist, fs.ErrNotExist, fs.ErrPermission, fs.ErrClosed, vfs.ErrLocked, errors.ErrUnsupported, durable.ErrStorageFull, durable.ErrNewerVersion,
		durable.ErrOtherJob, container.ErrRegionsDiffer, syscall.ENOSPC, syscall.EIO, syscall.ENOENT, syscall.ENOTEMPTY}
	sent := append([]error{
		errors.New("of no kind"),
		durable.Op("write", "/a/file", 7, syscall.ENOSPC),
		&durable.DamageError{File: "/a/file", Offset: 9, Reason: "checksum"},
		&fs.PathError{Op: "open", Path: "/a/file", Err: fs.ErrNotExist},
	}, all...)
	if err := DecodeError(EncodeError(context.Canceled), ""); errors.Is(err, context.Canceled) {
		t.Error("a cancelled context of the other side passes for one of this side")
	}
	for _, err := range sent {
		err = fmt.Errorf("while testing: %w", err)
		got := DecodeError(EncodeError(err), "nothing")
		for _, is := range all {
			if errors.Is(err, is) != errors.Is(got, is) {
				t.Errorf("%v is %v: %t, and %t on the other side", err, is, errors.Is(err, is), errors.Is(got, is))
			}
		}
		var a, b *durable.DamageError
		if errors.As(err, &a) != errors.As(got, &b) {
			t.Errorf("%v: damage %v, and %v on the other side", err, a, b)
		}
		if a == nil && got.Error() != err.Error() || a != nil && got.Error() != a.Error() {
			t.Errorf("%v reads %v on the other side", err, got)
		}
	}
}
