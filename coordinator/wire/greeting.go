// Package wire is how the coordinator of a job speaks with its ranks and with other commands: the
// environment of a rank process, the greeting that begins a connection, the bodies of messages,
// errors that keep their kind on the way, and the [Client] of a running job.
//
// # Promises
//
//   - A connection without the random token of the run is closed at its first line.
//   - Sending to a rank never blocks, even if the rank does not read.
//
// # Peers
//
// Processes of a run also serve each other directly, past the coordinator: the files of a
// node's directory of the tier, and the parity that a node holds for others.
//
//	s, err := wire.ServeDirs(self, wire.ServedDirs{FS: fsys, Dir: "/nvme/0", Job: "a"})
//	…
//	c := wire.NewPeerClient(self, wire.Peer{Rank: 0, Host: "h0", Address: s.Address(), Dir: "/nvme/0", Job: "a"})
//	f, err := c.FS(ctx).Create("/nvme/0/jobs/a/0001/rank-3.img")
//
// A connection begins with the handshake of package mpi, on several hosts within TLS. Then it
// carries requests, several at a time, and answers in any order (see peer_port.go).
//
//   - A process that does not know the token of the run is served nothing.
//   - No name leads out of the directory of the job.
//   - Errors of the other side are what they were there: errors.Is and errors.As agree.
//   - A request ends when the peer dies, when it gives no sign of life for the silence limit,
//     or when its context does.
//   - A connection takes at most 16 MiB on either side.
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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/mpi"
)

// A Greeting is the first line on a connection to the coordinator, which closes those without the
// token of the run.
type Greeting struct {
	Token       string `json:"token"`
	Role        string `json:"role"` // RoleRank or RoleControl
	Rank        int    `json:"rank,omitempty"`
	Incarnation int    `json:"incarnation,omitempty"`
	Host        string `json:"host,omitempty"`      // of a rank: identity, as ThisHost says it,
	HostName    string `json:"host_name,omitempty"` // and name
	// Process is what the agent of a program's process knows of it; nil if simulated.
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

type Size struct {
	Variable string `json:"variable"`
	Ranks    int    `json:"ranks"`
}

// Version is the version of what agents of programs and the coordinator tell each other.
const Version = 1

const (
	RoleRank    = "rank"
	RoleControl = "control"

	GreetingLimit = 32 << 10
	GreetingTime  = 10 * time.Second
)

// Dial connects to an address like unix:/path, tls:host:port or tcp:host:port. Connections to
// another host prove with TLS that both ends know the token.
func Dial(ctx context.Context, address, token string) (net.Conn, error) {
	network, at, ok := strings.Cut(address, ":")
	if !ok {
		return nil, fmt.Errorf("address %q of the coordinator is malformed", address)
	}
	ctx, done := context.WithTimeout(ctx, GreetingTime)
	defer done()
	if network != TLS {
		conn, err := mpi.Dial(ctx, network, at)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: the coordinator is gone, or on another host, where it must listen on the network", err)
		}
		return conn, err
	}
	key, err := NewKey(token)
	if err != nil {
		return nil, err
	}
	return key.Dial(ctx, at)
}

func Greet(conn net.Conn, g Greeting) error {
	line, err := json.Marshal(g)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(line, '\n'))
	return err
}

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

const (
	EnvSocket      = "CKPT_SOCKET" // of the coordinator
	EnvToken       = "CKPT_TOKEN"
	EnvIncarnation = "CKPT_INCARNATION"
	EnvBeat        = "CKPT_BEAT" // period of the signs of life
	EnvRank        = "CKPT_RANK"
	EnvAgent       = "CKPT_AGENT"    // path of the binary that is the agent of a program's process
	EnvClient      = "CKPT_CLIENT"   // the descriptor that leads to the client; set by the client
	EnvChildren    = "CKPT_CHILDREN" // whether children of a program's process copy its memory; set by the user
)

// RankVariables are where launchers tell a process its rank, ours first.
var RankVariables = []string{EnvRank, "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}

// SizeVariables are where launchers tell a process the number of ranks.
var SizeVariables = []string{"PMIX_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}

const acceptPause = 10 * time.Millisecond

// AcceptAll passes connections on until the listener is closed. While descriptors or memory are
// short, those that connect wait in the backlog; failing hears of it after each patience.
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

// Ended reports whether the other end of a connection is closed. It takes nothing of what was
// sent.
func Ended(conn net.Conn) bool {
	for {
		inner, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = inner.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true // closed by us
	}
	ended := false
	err = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		ended = err == nil && n > 0 && p[0].Revents != 0
	})
	return ended || err != nil
}
