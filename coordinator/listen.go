package coordinator

import (
	"fmt"
	"net"
	"strings"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/internal/wording"
)

// listenAddress reads what {listen} takes, HOST or HOST:PORT, and returns the address to
// listen on. Other hosts are told this address: it must name one interface.
func listenAddress(listen string) (string, error) {
	bad := func(why string) (string, error) {
		return "", &job.UsageError{Text: wording.Sprintf("{listen} %s: %s", listen, why), Fix: "give an address of this host that the other hosts reach, like 10.0.0.1 or 10.0.0.1:7000"}
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(listen, "["), "]"), "0"
	}
	ips := []net.IP{net.ParseIP(host)}
	if host == "" {
		return bad("no address that other hosts can be told")
	}
	if ips[0] == nil {
		if ips, err = net.LookupIP(host); err != nil {
			return bad(fmt.Sprintf("the name has no address here: %v", err))
		}
		if ips = reachable(ips); len(ips) == 0 {
			return bad("the name means the loopback interface here, which other hosts do not reach")
		}
	}
	if ips[0].IsUnspecified() {
		return bad("all addresses of this host; other hosts can be told only one")
	}
	address := net.JoinHostPort(ips[0].String(), port)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return bad(reason(err))
	}
	return address, l.Close()
}

// reachable leaves out the loopback interface, to which distributions point the own name.
func reachable(ips []net.IP) []net.IP {
	var out []net.IP
	for _, ip := range ips {
		if !ip.IsLoopback() {
			out = append(out, ip)
		}
	}
	return out
}

// reason is an error of the network without what it was about.
func reason(err error) string {
	if op, ok := err.(*net.OpError); ok && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// listenAt opens the socket of the run for other hosts.
func (s *socket) listenAt(address string) error {
	key, err := wire.NewKey(s.token)
	if err != nil {
		return err
	}
	if s.listener, err = key.Listen(address); err != nil {
		return err
	}
	s.address = wire.TLS + ":" + s.listener.Addr().String()
	return nil
}
