package family

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestPeer: the process at the other end of a socket is the one that listens.
func TestPeer(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := Peer(c.(*net.UnixConn))
	if err != nil || int(p.Pid) != os.Getpid() || int(p.Uid) != os.Getuid() {
		t.Errorf("%+v, %v", p, err)
	}
	c.Close()
	if _, err := Peer(c.(*net.UnixConn)); err == nil {
		t.Error("a closed connection has a peer")
	}
}
