package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func newKey(t testing.TB, token string) *Key {
	t.Helper()
	k, err := NewKey(token)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// listen returns a listener of a run, and the connections that it lets in. An echo answers
// on each.
func listen(t testing.TB) (l *listener, in chan net.Conn) {
	t.Helper()
	open, err := newKey(t, token).listen("127.0.0.1:0", 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	in = make(chan net.Conn, 1000)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			conn, err := open.Accept()
			if err != nil {
				return
			}
			in <- conn
			go func() {
				defer conn.Close()
				io.Copy(conn, conn)
			}()
		}
	}()
	t.Cleanup(func() {
		open.Close()
		<-over
		for len(in) > 0 {
			(<-in).Close()
		}
	})
	return open.(*listener), in
}

// echo sends a text and expects it back.
func echo(conn net.Conn, text string) error {
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("%q came back for %q", got, text)
	}
	return nil
}

// works checks that a process of the run is served.
func works(t *testing.T, l *listener) {
	t.Helper()
	conn, err := newKey(t, token).Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := echo(conn, "hello"); err != nil {
		t.Error(err)
	}
}

func TestSameToken(t *testing.T) {
	l, in := listen(t)
	works(t, l)
	s := (<-in).(*SecureConn).ConnectionState()
	if s.Version != tls.VersionTLS13 || s.DidResume {
		t.Errorf("version %x, resumed %v", s.Version, s.DidResume)
	}
	if _, err := NewKey(""); err == nil {
		t.Error("there is a key without a token")
	}
}

// foreign is a certificate that nobody made of a token.
func foreign(t *testing.T) tls.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	like := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<37, 0)}
	der, err := x509.CreateCertificate(rand.Reader, like, like, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

// TestStrangers has strangers of several kinds connect: none gets a byte of an answer,
// none comes out of Accept, and a process of the run is served meanwhile.
func TestStrangers(t *testing.T) {
	l, in := listen(t)
	works(t, l)
	(<-in).Close()
	public := newKey(t, token).config.Certificates[0].Certificate
	speak := func(conn net.Conn, config *tls.Config) error {
		config.InsecureSkipVerify = true
		return echo(tls.Client(conn, config), "let me in")
	}
	old := newKey(t, token).config.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS12
	for name, try := range map[string]func(net.Conn) error{
		"plain bytes":           func(c net.Conn) error { return echo(c, `{"token":"`+token+`","role":"control"}`+"\n") },
		"random bytes":          func(c net.Conn) error { return echo(c, rand.Text()+rand.Text()) },
		"no certificate":        func(c net.Conn) error { return speak(c, &tls.Config{}) },
		"certificate of others": func(c net.Conn) error { return speak(c, &tls.Config{Certificates: []tls.Certificate{foreign(t)}}) },
		"another token":         func(c net.Conn) error { return speak(c, newKey(t, token+"0").config.Clone()) },
		"right certificate, another key": func(c net.Conn) error {
			return speak(c, &tls.Config{Certificates: []tls.Certificate{{Certificate: public, PrivateKey: newKey(t, "other").config.Certificates[0].PrivateKey}}})
		},
		"old version": func(c net.Conn) error { return speak(c, old) },
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := try(conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: served or not refused: %v", name, err)
		}
		conn.Close()
		works(t, l)
		if (<-in).Close(); len(in) > 0 {
			t.Errorf("%s: let in", name)
		}
	}
}

// TestImpostor: a process of the run does not speak to a stranger in the place of the
// coordinator.
func TestImpostor(t *testing.T) {
	for name, config := range map[string]*tls.Config{
		"another token":               newKey(t, "other").config,
		"no client certificate asked": {Certificates: []tls.Certificate{foreign(t)}},
	} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", config)
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan []byte, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				heard <- nil
				return
			}
			b, _ := io.ReadAll(conn)
			conn.Close()
			heard <- b
		}()
		conn, err := newKey(t, token).Dial(t.Context(), l.Addr().String())
		if !errors.Is(err, errStranger) {
			t.Errorf("%s: %v, want %v", name, err, errStranger)
		}
		if err == nil {
			conn.Close()
		}
		if b := <-heard; len(b) > 0 {
			t.Errorf("%s: the impostor has heard %q", name, b)
		}
		l.Close()
	}
}

// recording passes bytes on between a client and the listener, and keeps those of the
// client.
func recording(t *testing.T, to string) (address string, said func() []byte) {
	t.Helper()
	relay, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var kept bytes.Buffer
	over := make(chan struct{})
	go func() {
		defer close(over)
		near, err := relay.Accept()
		if err != nil {
			return
		}
		defer near.Close()
		far, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		back := make(chan struct{})
		go func() {
			defer close(back)
			io.Copy(near, far)
		}()
		io.Copy(io.MultiWriter(far, &kept), near)
		far.Close()
		<-back
	}()
	return relay.Addr().String(), func() []byte {
		relay.Close()
		<-over
		return kept.Bytes()
	}
}

// TestReplay records a connection and sends the same bytes again: nobody is let in, and the
// recording does not show what was said.
func TestReplay(t *testing.T) {
	l, in := listen(t)
	address, said := recording(t, l.Addr().String())
	conn, err := newKey(t, token).Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "stop the job, please; this is a long and secret order"
	if err := echo(conn, secret); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	(<-in).Close()
	b := said()
	if len(b) < len(secret) || bytes.Contains(b, []byte(secret)) || bytes.Contains(b, []byte(token)) {
		t.Errorf("%d bytes were recorded; they show the secret: %v", len(b), bytes.Contains(b, []byte(secret)))
	}
	again, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Write(b); err != nil {
		t.Fatal(err)
	}
	_ = again.(*net.TCPConn).CloseWrite()
	answer, _ := io.ReadAll(again) // a handshake, which the recording does not answer
	if bytes.Contains(answer, []byte(secret)) {
		t.Error("the replay was answered")
	}
	works(t, l)
	if (<-in).Close(); len(in) > 0 {
		t.Error("the replay was let in")
	}
}

// TestSlowStrangers has more strangers connect than there are slots, and say nothing or a
// byte at a time: processes of the run still get in, and no more than the bound are held.
func TestSlowStrangers(t *testing.T) {
	l, in := listen(t)
	var strangers []net.Conn
	defer func() {
		for _, c := range strangers {
			c.Close()
		}
	}()
	for i := range MaxUnproven + 64 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, c)
		if i%2 == 0 {
			_, _ = c.Write([]byte{22})
		}
	}
	for range 3 {
		works(t, l)
		(<-in).Close()
	}
	l.mu.Lock()
	held := len(l.unproven)
	l.mu.Unlock()
	if held > MaxUnproven {
		t.Errorf("%d strangers are held, want at most %d", held, MaxUnproven)
	}
}

// TestHangUp ends one direction although the other end does not read.
func TestHangUp(t *testing.T) {
	l, in := listen(t)
	conn, err := newKey(t, token).Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	far := <-in
	if err := far.(*SecureConn).SetPatience(time.Minute); err != nil {
		t.Error(err)
	}
	far.(*SecureConn).HangUp()
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, want the end of the connection", err)
	}
	far.Close()
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want that it is closed", err)
	}
}

// TestDialEnds: nobody answers, until the context ends.
func TestDialEnds(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := newKey(t, token).Dial(ctx, deaf.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	deaf.Close()
	if _, err := newKey(t, token).Dial(t.Context(), deaf.Addr().String()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
}

// FuzzStranger feeds a listener what a stranger may send: nobody is let in.
func FuzzStranger(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 3})
	f.Add(bytes.Repeat([]byte{22, 3, 3, 64, 0}, 100))
	k := newKey(f, token)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := tls.Server(&script{says: bytes.NewReader(b)}, k.config).Handshake(); err == nil {
			t.Error("a stranger was let in")
		}
	})
}

// A script is a connection whose other end says the same whatever it hears.
type script struct {
	net.Conn
	says *bytes.Reader
}

func (s *script) Read(b []byte) (int, error)       { return s.says.Read(b) }
func (s *script) Write(b []byte) (int, error)      { return len(b), nil }
func (s *script) Close() error                     { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkStream sends one way over the loopback interface, plain and encrypted.
func BenchmarkStream(b *testing.B) {
	k := newKey(b, token)
	for _, size := range []int{1 << 10, 64 << 10, 4 << 20} {
		for name, open := range map[string]func() (net.Listener, func(context.Context, string) (net.Conn, error)){
			"plain": func() (net.Listener, func(context.Context, string) (net.Conn, error)) {
				l, _ := net.Listen("tcp", "127.0.0.1:0")
				return l, func(ctx context.Context, a string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", a)
				}
			},
			"tls": func() (net.Listener, func(context.Context, string) (net.Conn, error)) {
				l, _ := k.Listen("127.0.0.1:0")
				return l, k.Dial
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				l, dial := open()
				defer l.Close()
				read := make(chan int64)
				go func() {
					conn, err := l.Accept()
					if err != nil {
						read <- 0
						return
					}
					defer conn.Close()
					n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 1<<20))
					read <- n
				}()
				conn, err := dial(b.Context(), l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				buf := make([]byte, size)
				b.SetBytes(int64(size))
				b.ResetTimer()
				for range b.N {
					if _, err := conn.Write(buf); err != nil {
						b.Fatal(err)
					}
				}
				conn.Close()
				if n := <-read; n != int64(b.N*size) {
					b.Errorf("%d bytes of %d arrived", n, b.N*size)
				}
			})
		}
	}
}

// BenchmarkConnect makes connections.
func BenchmarkConnect(b *testing.B) {
	k := newKey(b, token)
	l, err := k.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	for b.Loop() {
		conn, err := k.Dial(b.Context(), l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		conn.Close()
	}
}
