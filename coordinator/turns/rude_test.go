package turns

import (
	"bufio"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"ckpt/image/iosched"
	"ckpt/internal/vfs"
)

// A rude client speaks the protocol by hand.
type rude struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func newRude(t testing.TB, dir string) *rude {
	t.Helper()
	i, err := Find(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &rude{t, conn, bufio.NewReader(conn)}
}

func (r *rude) says(list ...message) *rude {
	for _, m := range list {
		if _, err := r.Write(appendFrame(nil, m)); err != nil {
			return r // the controller has closed the connection
		}
	}
	return r
}

// ends reads until the controller ends the connection, and returns its reason.
func (r *rude) ends() (why string) {
	for {
		m, err := readFrame(r.r, maxReport)
		if err != nil {
			return why
		}
		if m, ok := m.(*refused); ok {
			why = m.Why
		}
	}
}

// TestRude has clients break the rules. Each loses its connection, and others are served.
func TestRude(t *testing.T) {
	dir := t.TempDir()
	log, _ := serve(t, dir, ServeOptions{Arbiter: iosched.TurnOptions{MaxBursts: 4}, MaxConns: 8, MaxUserConns: 4})
	greeting := &hello{Version: version, App: "rude"}
	for name, c := range map[string]struct {
		says []message
		why  string
	}{
		"no greeting":      {[]message{&alive{}}, "no greeting"},
		"other version":    {[]message{&hello{Version: 9}}, "version 9"},
		"wild rank":        {[]message{&hello{Version: version, Rank: 1 << 40}}, "rank"},
		"wild weight":      {[]message{&hello{Version: version, Weight: -1}, &ask{Burst: 1}}, "weight"},
		"twice":            {[]message{greeting, &ask{Burst: 1}, &ask{Burst: 1}}, "already"},
		"unknown burst":    {[]message{greeting, &ask{Burst: 1}, &progress{2, 1}}, "no burst 2"},
		"before asking":    {[]message{greeting, &end{1}}, "joined"},
		"message of ours":  {[]message{greeting, &granted{1, 1}}, "unexpected"},
		"too many bursts":  {[]message{greeting, &ask{Burst: 1}, &ask{Burst: 2}, &ask{Burst: 3}, &ask{Burst: 4}, &ask{Burst: 5}}, "no more"},
		"greeting, again":  {[]message{greeting, greeting}, "unexpected"},
		"wild progress":    {[]message{greeting, &ask{Burst: 1}, &progress{1, 1 << 63}, &alive{}, &progress{9, 1}}, "no burst 9"},
		"ended, and again": {[]message{greeting, &ask{Burst: 1}, &end{1}, &end{1}}, "no burst 1"},
	} {
		if why := newRude(t, dir).says(c.says...).ends(); !strings.Contains(why, c.why) {
			t.Errorf("%s: refused with %q, want %q", name, why, c.why)
		}
	}
	garbage := newRude(t, dir)
	_, _ = garbage.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	if why := garbage.ends(); !strings.Contains(why, "malformed") {
		t.Errorf("garbage: %q", why)
	}
	works(t, dir)
	// More connections than one user may have.
	var open []*rude
	for len(open) < 4 { // those before may not be gone yet
		r := newRude(t, dir).says(greeting)
		if m, err := readFrame(r.r, maxReport); err == nil && reflect.DeepEqual(m, &welcome{version, uint64(defaultLease)}) {
			open = append(open, r)
		}
	}
	if why := newRude(t, dir).ends(); !strings.Contains(why, "4 connections") {
		t.Errorf("one connection too many: %q", why)
	}
	for _, r := range open {
		r.Close()
		r.ends()
	}
	for len(log.of(Refused)) < 14 {
		time.Sleep(time.Millisecond)
	}
}

// TestSlowReader has clients ask, and read nothing. Others take turns; a client for which
// too much piles up loses its connection.
func TestSlowReader(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, ServeOptions{Arbiter: iosched.TurnOptions{Lease: 50 * time.Millisecond}, Beat: time.Millisecond})
	for n := range 20 {
		newRude(t, dir).says(&hello{Version: version, App: fmt.Sprint("slow", n)}, &ask{Burst: 1, Bytes: part})
	}
	for range 5 {
		works(t, dir)
	}
	greedy := newRude(t, dir).says(&hello{Version: version, App: "greedy"})
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for b := appendFrame(nil, &status{}); ; {
			if _, err := greedy.Write(b); err != nil {
				return
			}
		}
	}()
	<-closed
	works(t, dir)
}
