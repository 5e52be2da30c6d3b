package rank

import (
	"context"
	"net"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire/secure"
)

// A network is how this rank and the others reach each other: over the loopback interface
// if the coordinator is reached through a socket of this host, else encrypted, over the
// interface that reaches the coordinator.
type network struct {
	key  *secure.Key // nil: plain
	host string      // address of the interface
}

// networkOf returns the network of a rank that is connected to its coordinator.
func networkOf(conn net.Conn, token string) (network, error) {
	if _, ok := conn.(*secure.Conn); !ok {
		return network{host: "127.0.0.1"}, nil
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return network{}, err
	}
	key, err := secure.NewKey(token)
	return network{key, host}, err
}

func (n network) listen() (net.Listener, error) {
	address := net.JoinHostPort(n.host, "0")
	if n.key != nil {
		return n.key.Listen(address)
	}
	return net.Listen("tcp", address)
}

func (n network) dial(ctx context.Context, address string) (net.Conn, error) {
	if n.key != nil {
		return n.key.Dial(ctx, address)
	}
	return mpi.Dial(ctx, "tcp", address)
}
