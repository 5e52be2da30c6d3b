package peer

import (
	"context"
	"fmt"
	"net"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire/secure"
)

// A Network is how processes of a run reach each other: over the loopback interface if the
// coordinator is reached through a socket of this host, else encrypted, over the interface
// that reaches the coordinator.
type Network struct {
	key  *secure.Key // nil: plain
	host string      // address of the interface
}

// Loopback is the network of a run on one host.
var Loopback = Network{host: "127.0.0.1"}

// NetworkOf returns the network of a rank that is connected to its coordinator.
func NetworkOf(conn net.Conn, token string) (Network, error) {
	if _, ok := conn.(*secure.Conn); !ok {
		return Loopback, nil
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return Network{}, fmt.Errorf("address of this host: %w", err)
	}
	return Encrypted(host, token)
}

// Encrypted is the network of a run on several hosts; host is the address of an interface.
func Encrypted(host, token string) (Network, error) {
	key, err := secure.NewKey(token)
	return Network{key, host}, err
}

// Remote reports whether processes may be on other hosts.
func (n Network) Remote() bool { return n.key != nil }

// Listen takes connections on a free port.
func (n Network) Listen() (net.Listener, error) {
	address := net.JoinHostPort(n.host, "0")
	if n.key != nil {
		return n.key.Listen(address)
	}
	return net.Listen("tcp", address)
}

// Dial connects to an address.
func (n Network) Dial(ctx context.Context, address string) (net.Conn, error) {
	if n.key != nil {
		return n.key.Dial(ctx, address)
	}
	return mpi.Dial(ctx, "tcp", address)
}
