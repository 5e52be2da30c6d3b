package wire

import (
	"errors"
	"net"
	"time"
)

// acceptPause is the time between attempts to accept a connection.
const acceptPause = 10 * time.Millisecond

// AcceptAll passes connections on until the listener is closed. Descriptors or memory
// may be short for a while: until then, those that connect wait in the backlog. Whenever
// that has taken longer than patience, failing is told.
func AcceptAll(l net.Listener, serve func(net.Conn), patience time.Duration, failing func(error)) {
	last := time.Now() // when accepting did not fail
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			serve(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(acceptPause)
			if time.Since(last) < patience {
				continue
			}
			failing(err)
		}
		last = time.Now()
	}
}
