package mpi

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestDialAgain has dialling fail. For want of something it is tried again, for any other
// reason it is not, and the end of the context ends it.
func TestDialAgain(t *testing.T) {
	failure := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	short := []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.ENOSPC, syscall.ENOBUFS}
	tries := 0
	conn, err := dialAgain(t.Context(), func(context.Context) (net.Conn, error) {
		if tries++; tries <= len(short) {
			return nil, failure(short[tries-1])
		}
		return near, nil
	})
	if err != nil || conn != near || tries != len(short)+1 {
		t.Errorf("%v, %v after %d attempts", conn, err, tries)
	}
	tries = 0
	refused := func(context.Context) (net.Conn, error) { tries++; return nil, failure(syscall.ECONNREFUSED) }
	if _, err := dialAgain(t.Context(), refused); !errors.Is(err, syscall.ECONNREFUSED) || tries != 1 {
		t.Errorf("%v after %d attempts, want to be refused once", err, tries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := dialAgain(ctx, func(context.Context) (net.Conn, error) { cancel(); return nil, failure(syscall.EMFILE) }); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("%v, want why it could not be dialled", err)
	}
}
