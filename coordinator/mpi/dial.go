package mpi

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"
)

// Dial connects like net.Dialer. While descriptors, memory or places in a backlog are
// short it tries again, with growing pauses, until ctx ends.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dialAgain(ctx, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	})
}

func dialAgain(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	pause := time.Millisecond
	for {
		conn, err := dial(ctx)
		// ENOSPC is of epoll: there are too many watches.
		if err == nil || !Shortage(err) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.ENOBUFS) {
			return conn, err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Shortage reports whether descriptors or memory are short, for which it may help to wait.
func Shortage(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN},
		func(is error) bool { return errors.Is(err, is) })
}
