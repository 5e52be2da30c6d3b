package process

import (
	"context"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzLink is a client that sends anything. The agent must neither crash nor hang, and
// must not touch memory that was not announced.
func FuzzLink(f *testing.F) {
	add := func(list ...message) {
		var b []byte
		for _, m := range list {
			e := m.encode()
			b = binary.LittleEndian.AppendUint16(b, uint16(len(e)))
			b = append(b, e...)
		}
		f.Add(b)
	}
	hello := message{kind: kindHello, value: 1, a: 0, b: 1, payload: []byte("c")}
	protect := message{kind: kindProtect, value: 1, a: 1 << 40, b: 1 << 20, payload: []byte("u")}
	call := message{kind: uint32(Boundary), value: 1, a: 1, b: 1}
	copied := message{kind: kindCopied, value: uint32(unix.EFAULT)}
	add(hello, protect, call, message{kind: kindTracked, value: 1}, copied)
	add(hello, protect, message{kind: kindProtect, value: 3, a: -1, b: 1 << 62, payload: []byte("v")}, call)
	add(hello, protect, message{kind: kindForget, payload: []byte("u")}, message{kind: uint32(Query), payload: []byte("u")}, copied)
	add(hello, message{kind: uint32(Restore)}, copied, copied, message{kind: uint32(Wait)})
	part := message{kind: kindProtect, value: 1, a: 1 << 40, b: 6 * 8, c: sharingGlobal}
	for _, n := range []int64{1, 1, 10, 2, 4, 1, 0, 0} {
		part.payload = binary.LittleEndian.AppendUint64(part.payload, uint64(n))
	}
	part.payload = append(part.payload, 'w')
	add(hello, part, message{kind: kindProtect, a: 1, b: 1, c: sharingReplicated, payload: []byte("t")}, call)
	add(message{kind: kindHello, value: 7, a: 5, b: 3})
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		for len(b) >= 2 {
			n := min(int(binary.LittleEndian.Uint16(b)), len(b)-2)
			if unix.Send(pair[1], b[2:2+n], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) != nil {
				break
			}
			b = b[2+n:]
		}
		_ = unix.Shutdown(pair[1], unix.SHUT_WR)
		defer unix.Close(pair[1])
		p, err := Open(pair[0])
		if err != nil {
			return
		}
		defer p.Close()
		_ = p.Welcome(nil)
		for call := range p.Calls() {
			_, _ = p.Capture(context.Background(), 1, 0)
			c, err := p.View(context.Background(), 2, 0)
			for _, r := range c.Regions {
				if part := r.Mem[:min(len(r.Mem), 1<<16)]; p.Fetch(part) == nil {
					p.Release(part)
				}
				if c.Clean(7, r.Name, 0, call.Step) {
					t.Errorf("region %q is clean against no checkpoint", r.Name)
				}
			}
			_ = p.Answer(Answer{Status: Status(len(c.Regions)), Text: "x"})
			_ = err
		}
	})
}
