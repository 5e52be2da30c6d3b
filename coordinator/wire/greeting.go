package wire

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire/secure"
)

// A Greeting is the first line on a connection to the coordinator. A
// connection that does not show the token of the run is closed.
type Greeting struct {
	Token       string `json:"token"`
	Role        string `json:"role"` // RoleRank or RoleControl
	Rank        int    `json:"rank,omitempty"`
	Incarnation int    `json:"incarnation,omitempty"`
	Host        string `json:"host,omitempty"`      // of a rank: identity, as ThisHost says it,
	HostName    string `json:"host_name,omitempty"` // and name
	// Process is what the agent of a program's process knows of it; nil of a simulated rank.
	Process *Process `json:"process,omitempty"`
}

// A Process is one of a user's program, as its agent describes it.
type Process struct {
	Version  int    `json:"version"`          // of the agent: Version
	Client   int    `json:"client"`           // version of the client in the program
	Language string `json:"language"`         // of the client: c, fortran or python
	Size     int    `json:"size"`             // ranks of the program, as MPI says
	Sizes    []Size `json:"sizes,omitempty"`  // ranks of the program, as its launcher says
	Host     string `json:"host"`             // identity of the node
	Name     string `json:"name"`             // of the node, for people
	PID      int    `json:"pid"`              // on that node
	Program  string `json:"program"`          // the executable,
	Digest   string `json:"digest,omitempty"` // and its BLAKE3; rank 0 only
	// Trouble says why the process cannot take part, "" if it can: the job ends with it.
	Trouble string `json:"trouble,omitempty"`
}

// A Size is a number of ranks that a launcher puts into the environment.
type Size struct {
	Variable string `json:"variable"`
	Ranks    int    `json:"ranks"`
}

// Version is that of what agents of programs and the coordinator tell each other.
const Version = 1

const (
	RoleRank    = "rank"
	RoleControl = "control"

	GreetingLimit = 32 << 10
	GreetingTime  = 10 * time.Second
)

// Dial connects to an address like unix:/path, tls:host:port or tcp:host:port. Connections
// to another host prove with TLS that both ends know the token.
func Dial(ctx context.Context, address, token string) (net.Conn, error) {
	network, at, ok := strings.Cut(address, ":")
	if !ok {
		return nil, fmt.Errorf("address %q of the coordinator is malformed", address)
	}
	ctx, done := context.WithTimeout(ctx, GreetingTime)
	defer done()
	if network != secure.Network {
		conn, err := mpi.Dial(ctx, network, at)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the coordinator is gone, or on another host, where it must listen on the network", err)
		}
		return conn, err
	}
	key, err := secure.NewKey(token)
	if err != nil {
		return nil, err
	}
	return key.Dial(ctx, at)
}

// Greet sends the first line.
func Greet(conn net.Conn, g Greeting) error {
	line, err := json.Marshal(g)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(line, '\n'))
	return err
}

// ReadGreeting reads and checks the first line.
func ReadGreeting(conn net.Conn, r *bufio.Reader, token string) (Greeting, error) {
	var g Greeting
	if err := conn.SetReadDeadline(time.Now().Add(GreetingTime)); err != nil {
		return g, err
	}
	line, err := r.ReadSlice('\n')
	if err != nil {
		return g, fmt.Errorf("no greeting: %w", err)
	}
	if err := json.Unmarshal(line, &g); err != nil {
		return g, fmt.Errorf("no greeting: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(g.Token), []byte(token)) != 1 {
		return g, errors.New("wrong token")
	}
	return g, conn.SetReadDeadline(time.Time{})
}
