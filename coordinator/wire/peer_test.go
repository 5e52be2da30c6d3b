package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"path"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

const (
	peerToken = "token"
	jobDir    = "/nvme/0/jobs/a"
)

func selfOf(rank int) Self { return Self{Rank: rank, Token: peerToken, Network: Loopback} }

// serving serves a node's directory, and returns a client of it.
func serving(t *testing.T, fsys vfs.FS, dir string, contribute func(context.Context, string) (nodes.Contributor, error)) *PeerClient {
	t.Helper()
	s, err := ServeDirs(selfOf(0), ServedDirs{FS: fsys, Dir: dir, Job: "a", Contribute: contribute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c := NewPeerClient(selfOf(1), Peer{Rank: 0, Host: "h0", Address: s.Address(), Dir: dir, Job: "a", Silence: time.Minute})
	t.Cleanup(c.Close)
	return c
}

// directories makes those of a job in memory.
func directories(t *testing.T, fsys vfs.FS) {
	t.Helper()
	if err := durable.MkdirAll(fsys, jobDir); err != nil {
		t.Fatal(err)
	}
}

// TestConformance holds the files of a peer to what every file system promises.
func TestConformance(t *testing.T) {
	m := memfs.New()
	directories(t, m)
	testkit.Conform(t, serving(t, m, "/nvme/0", nil).FS(t.Context()), jobDir)
}

// TestLarge moves more than a request holds, by several goroutines, and reads it back.
func TestLarge(t *testing.T) {
	dir := t.TempDir()
	if err := durable.MkdirAll(vfs.OS{}, dir+"/jobs/a"); err != nil {
		t.Fatal(err)
	}
	beneath := vfs.NewBeneath(dir)
	fsys := serving(t, beneath, dir, nil).FS(t.Context())
	f, err := fsys.Create(dir + "/jobs/a/large")
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 21*maxData+4711)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	var g sync.WaitGroup
	half := 10*maxData + 17
	for _, at := range []int{0, half} {
		g.Go(func() {
			b := want[at:min(at+half, len(want))]
			if at > 0 {
				b = want[at:]
			}
			if n, err := f.WriteAt(b, int64(at)); n != len(b) || err != nil {
				t.Errorf("wrote %d of %d bytes, %v", n, len(b), err)
			}
		})
	}
	g.Wait()
	if err := f.Sync(); err != nil {
		t.Error(err)
	}
	got := make([]byte, len(want)+100)
	n, err := f.ReadAt(got, 0)
	if n != len(want) || err != io.EOF || !bytes.Equal(got[:n], want) {
		t.Errorf("read %d of %d bytes, %v", n, len(want), err)
	}
	if f.Truncate(100) != nil {
		t.Error("the file cannot be cut")
	}
	if size, err := f.Size(); size != 100 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestErrors has the other side fail, in ways that callers tell apart.
func TestErrors(t *testing.T) {
	for _, is := range []error{syscall.ENOSPC, syscall.EIO, syscall.EDQUOT, &durable.DamageError{File: "x", Offset: 3, Reason: "checksum"}} {
		m := memfs.New()
		directories(t, m)
		fault := memfs.WithFault(m, memfs.Fault{At: 2, Err: is})
		f, err := serving(t, fault, "/nvme/0", nil).FS(t.Context()).Create(jobDir + "/x")
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte("bytes"), 0)
		var pe *fs.PathError
		if !errors.Is(err, is) && !errors.As(err, new(*durable.DamageError)) || !errors.As(err, &pe) || pe.Path != jobDir+"/x" {
			t.Errorf("%v is not %v of %s", err, is, jobDir+"/x")
		}
		if full := errors.Is(is, syscall.ENOSPC) || errors.Is(is, syscall.EDQUOT); errors.Is(durable.Op("write", "x", -1, err), durable.ErrStorageFull) != full {
			t.Errorf("%v: full is not %t", err, full)
		}
	}
}

// TestOutside asks for what is not of the job, through a client that does not check names.
func TestOutside(t *testing.T) {
	m := memfs.New()
	for _, dir := range []string{jobDir, "/nvme/0/jobs/b", "/nvme/1/jobs/a"} {
		if err := durable.MkdirAll(m, dir); err != nil {
			t.Fatal(err)
		}
	}
	c := serving(t, m, "/nvme/0", nil)
	n, err := c.connection(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := m.CrashClone(memfs.Crash{Mode: memfs.Kept}).Digest()
	for _, name := range []string{"", "..", "../1/jobs/a/x", "jobs/b", "jobs/b/x", "jobs/a/../b/x", "/nvme/0/jobs/b/x", "jobs/ab", "x",
		"jobs/a/", "jobs//a/x", "lock", "format/x"} {
		for op := byte(opCreate); op <= opFree; op++ {
			for _, q := range []request{{op: op, name: name, to: "jobs/a/x"}, {op: opRename, name: "jobs/a", to: name}} {
				if _, err := n.call(t.Context(), &q); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("operation %d on %q: %v", q.op, name, err)
				}
			}
		}
	}
	for _, op := range []byte{opCreate, opOpenWrite, opRemove, opRename, opLock} {
		for _, name := range []string{".", "jobs"} {
			if _, err := n.call(t.Context(), &request{op: op, name: name, to: "jobs/a/x"}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("operation %d on %q: %v", op, name, err)
			}
		}
	}
	if m.CrashClone(memfs.Crash{Mode: memfs.Kept}).Digest() != before {
		t.Error("something has changed")
	}
	if _, err := c.FS(t.Context()).Create("/nvme/1/jobs/a/x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another node's directory: %v", err)
	}
}

// TestStrangePeers connects without the token, as another rank than is meant, and for another
// job.
func TestStrangePeers(t *testing.T) {
	m := memfs.New()
	directories(t, m)
	c := serving(t, m, "/nvme/0", nil)
	for what, wrong := range map[string]*PeerClient{
		"another token": NewPeerClient(Self{Rank: 1, Token: "other", Network: Loopback}, c.peer),
		"another rank":  NewPeerClient(c.self, Peer{Rank: 5, Host: "h0", Address: c.peer.Address, Dir: c.peer.Dir, Job: "a", Silence: time.Minute}),
		"another job":   NewPeerClient(c.self, Peer{Rank: 0, Host: "h0", Address: c.peer.Address, Dir: c.peer.Dir, Job: "b", Silence: time.Minute}),
	} {
		if _, err := wrong.FS(t.Context()).Stat(jobDir); err == nil {
			t.Errorf("%s is served", what)
		}
		wrong.Close()
	}
	// One that says nothing holds up nobody.
	conn, err := net.Dial("tcp", c.peer.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := c.FS(t.Context()).Stat(jobDir); err != nil {
		t.Error(err)
	}
}

// parity is a Contributor that remembers.
type parity struct {
	mu      sync.Mutex
	got     []byte
	size    int64
	fail    error
	aborted chan struct{}
}

func (p *parity) Add(off int64, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if need := int(off) + len(b); need > len(p.got) {
		p.got = append(p.got, make([]byte, need-len(p.got))...)
	}
	copy(p.got[off:], b)
	return p.fail
}

func (p *parity) End(size int64) (nodes.ParityInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
	return nodes.ParityInfo{Set: 3, Index: 2, Bytes: size, Digest: "d"}, p.fail
}

func (p *parity) Abort() { close(p.aborted) }

// TestContributions gives bytes to parity on the other side, twice over one connection, and
// in vain.
func TestContributions(t *testing.T) {
	all := make(map[string]*parity)
	for _, name := range []string{"one", "two", "failing", "aborted"} {
		all[name] = &parity{aborted: make(chan struct{})}
	}
	all["failing"].fail = syscall.ENOSPC
	m := memfs.New()
	c := serving(t, m, "/nvme/0", func(_ context.Context, name string) (nodes.Contributor, error) {
		if all[name] == nil {
			return nil, fs.ErrNotExist
		}
		return all[name], nil
	})
	if _, err := c.Contribute(t.Context(), "nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to nothing: %v", err)
	}
	want := bytes.Repeat([]byte("parity of members "), 300_000)
	give := func(name string) (nodes.ParityInfo, error) {
		to, err := c.Contribute(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(want); at += 300_000 {
			if err := to.Add(int64(at), want[at:min(at+300_000, len(want))]); err != nil {
				to.Abort()
				return nodes.ParityInfo{}, err
			}
		}
		return to.End(int64(len(want)))
	}
	for _, name := range []string{"one", "two"} {
		info, err := give(name)
		p := all[name]
		p.mu.Lock()
		if err != nil || info.Set != 3 || info.Bytes != int64(len(want)) || !bytes.Equal(p.got, want) || p.size != int64(len(want)) {
			t.Errorf("%s: %v, %+v, %d bytes", name, err, info, len(p.got))
		}
		p.mu.Unlock()
	}
	if len(c.streams) != 1 {
		t.Errorf("%d connections for one contribution after the other", len(c.streams))
	}
	if _, err := give("failing"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("failing: %v", err)
	}
	to, err := c.Contribute(t.Context(), "aborted")
	if err != nil {
		t.Fatal(err)
	}
	to.Abort()
	<-all["aborted"].aborted
	<-all["failing"].aborted
}

// stalled is a file system whose files wait before they write.
type stalled struct {
	vfs.Buffered
	begun chan struct{}
	go_   chan struct{}
}

type stalledFile struct {
	vfs.Plain
	s *stalled
}

func (s *stalled) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return stalledFile{vfs.Only(f), s}, err
}

func (f stalledFile) WriteAt(p []byte, off int64) (int, error) {
	f.s.begun <- struct{}{}
	<-f.s.go_
	return f.File.WriteAt(p, off)
}

// TestCancel cancels a write that the disk of the other side holds up. Other calls go on.
func TestCancel(t *testing.T) {
	m := memfs.New()
	directories(t, m)
	s := &stalled{vfs.Through(m), make(chan struct{}, 10), make(chan struct{})}
	c := serving(t, s, "/nvme/0", nil)
	ctx, cancel := context.WithCancel(t.Context())
	f, err := c.FS(ctx).Create(jobDir + "/x")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := f.WriteAt([]byte("late"), 0)
		ended <- err
	}()
	<-s.begun
	if _, err := c.FS(t.Context()).Stat(jobDir); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	close(s.go_)
	if _, err := c.FS(t.Context()).Stat(jobDir); err != nil {
		t.Error(err)
	}
}

// TestSlowLives has a disk take longer than the silence limit: the signs of life count.
func TestSlowLives(t *testing.T) {
	m := memfs.New()
	directories(t, m)
	s := &stalled{vfs.Through(m), make(chan struct{}, 10), make(chan struct{})}
	c := serving(t, s, "/nvme/0", nil)
	c.peer.Silence = time.Second
	f, err := c.FS(t.Context()).Create(jobDir + "/x")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-s.begun
		time.Sleep(3 * c.peer.Silence)
		close(s.go_)
	}()
	if _, err := f.WriteAt([]byte("late"), 0); err != nil {
		t.Error(err)
	}
}

// TestSilent has a peer take connections and say nothing.
func TestSilent(t *testing.T) {
	p, err := selfOf(0).Listen(func(conn net.Conn, _ int) { _, _ = io.Copy(io.Discard, conn) })
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := NewPeerClient(selfOf(1), Peer{Rank: 0, Host: "h0", Address: p.Address(), Dir: "/nvme/0", Job: "a", Silence: 50 * time.Millisecond})
	defer c.Close()
	_, err = c.FS(t.Context()).Stat(jobDir)
	if want := "rank 0 on host h0 is gone: no sign of life for 50ms"; !errors.Is(err, ErrGone) || err.Error() != "stat "+jobDir+": "+want {
		t.Errorf("%v", err)
	}
}

// TestCut cuts the connection after each byte, in either direction, of a session that makes
// a file, writes, reads and renames: each call ends, with an error from the cut on, and
// what is reported done is done.
func TestCut(t *testing.T) {
	session := func(fsys vfs.FS) (done int, err error) {
		f, err := fsys.Create(jobDir + "/x.tmp")
		if err != nil {
			return 0, err
		}
		defer f.Close()
		steps := []func() error{
			func() error { _, err := f.WriteAt([]byte("some bytes"), 3); return err },
			f.Sync,
			func() error { _, err := f.ReadAt(make([]byte, 5), 0); return err },
			func() error { return fsys.Rename(jobDir+"/x.tmp", jobDir+"/x") },
			func() error { _, err := fsys.ReadDir(jobDir); return err },
			func() error { return fsys.SyncDir(jobDir) },
		}
		for i, step := range steps {
			if err := step(); err != nil {
				return 1 + i, err
			}
		}
		return 1 + len(steps), nil
	}
	for _, toServer := range []bool{true, false} {
		for at := 0; ; at++ {
			m := memfs.New()
			directories(t, m)
			done, err := session(cutSession(t, m, toServer, at))
			if err == nil {
				if at < 200 {
					t.Errorf("only %d bytes in a session", at)
				}
				break
			}
			if !errors.Is(err, ErrGone) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			after := m.CrashClone(memfs.Crash{Mode: memfs.Lost})
			b, rerr := durable.ReadFile(after, jobDir+"/x", 100)
			if done == 7 && rerr != nil || rerr == nil && string(b) != "\x00\x00\x00some bytes" {
				t.Fatalf("cut at %d, after %d calls: %q, %v", at, done, b, rerr)
			}
		}
	}
}

// cutSession connects a client and a server through a pipe, which ends after some bytes.
func cutSession(t *testing.T, m *memfs.FS, toServer bool, at int) vfs.FS {
	t.Helper()
	a, b := net.Pipe()
	limit := &cut{Conn: a, left: at}
	client, server := net.Conn(limit), b
	if !toServer {
		limit.Conn = b
		client, server = a, limit
	}
	s := &DirServer{served: ServedDirs{FS: m, Dir: "/nvme/0", Job: "a"}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.serve(context.Background(), server)
	}()
	p := Peer{Rank: 0, Host: "h0", Dir: "/nvme/0", Job: "a", Silence: time.Minute}
	c := NewPeerClient(Self{Rank: 1, Network: Network{host: "none"}}, p)
	n, err := connect(t.Context(), client, p)
	if err != nil {
		return failing{err: fmt.Errorf("connect: %w", err)}
	}
	c.files = n
	return c.FS(t.Context())
}

// failing is the file system of a peer to which there was no connection.
type failing struct {
	vfs.Buffered
	err error
}

func (f failing) Create(string) (vfs.File, error) { return nil, f.err }

// cut is a connection that ends after some bytes.
type cut struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) <= c.left {
		c.left -= len(p)
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:c.left])
	c.left = 0
	c.Close()
	return n, io.ErrClosedPipe
}

// TestLeavesNothingOpen ends connections with files open.
func TestLeavesNothingOpen(t *testing.T) {
	m := memfs.New()
	directories(t, m)
	c := serving(t, m, "/nvme/0", nil)
	l, err := c.FS(t.Context()).Lock(jobDir + "/lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Lock(jobDir + "/lock"); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("not locked: %v", err)
	}
	c.Close()
	if err := l.Close(); !errors.Is(err, ErrGone) {
		t.Errorf("unlocked over a closed connection: %v", err)
	}
	for {
		if l, err := m.Lock(path.Join(jobDir, "lock")); err == nil {
			l.Close()
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// waiting is a parity whose other members never end.
type waiting struct {
	begun, aborted chan struct{}
	once           sync.Once
}

func (w *waiting) Add(int64, []byte) error { return nil }
func (w *waiting) Abort()                  { w.once.Do(func() { close(w.aborted) }) }

func (w *waiting) End(int64) (nodes.ParityInfo, error) {
	close(w.begun)
	<-w.aborted
	return nodes.ParityInfo{}, errAborted
}

// TestEndOfGoneClient: a contribution that waits for others ends with its client, and does
// not keep the server from closing.
func TestEndOfGoneClient(t *testing.T) {
	m := memfs.New()
	directories(t, m)
	w := &waiting{begun: make(chan struct{}), aborted: make(chan struct{})}
	c := serving(t, m, "/nvme/0", func(context.Context, string) (nodes.Contributor, error) { return w, nil })
	to, err := c.Contribute(t.Context(), "set 0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = to.End(0) }()
	<-w.begun
	c.Close()
	<-w.aborted
}

// TestAsk: heads and data go both ways, an error keeps its kind, and a question ends with its
// connection.
func TestAsk(t *testing.T) {
	s, err := ServeDirs(selfOf(0), ServedDirs{FS: memfs.New(), Dir: "/nvme/0", Job: "a", Whole: true,
		Answer: func(ctx context.Context, head, data, into []byte) ([]byte, error) {
			switch {
			case string(head) == "fill":
				copy(into, bytes.Repeat([]byte("x"), len(into)))
				return nil, nil
			case string(head) == "fail":
				return nil, fmt.Errorf("no: %w", syscall.ENOSPC)
			case string(head) == "wait":
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return append(data, head...), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := NewPeerClient(selfOf(1), Peer{Rank: 0, Host: "h0", Address: s.Address(), Dir: "/nvme/0", Job: "a", Silence: time.Minute})
	defer c.Close()
	long := bytes.Repeat([]byte("h"), 2*maxName)
	for head, data := range map[string]string{"short": "and data", "": "", string(long): ""} {
		if got, err := c.Ask(t.Context(), []byte(head), []byte(data), nil); err != nil || string(got) != data+head {
			t.Errorf("%d bytes: %d bytes, %v", len(head), len(got), err)
		}
	}
	into := make([]byte, maxData)
	if head, err := c.Ask(t.Context(), []byte("fill"), nil, into); err != nil || head != nil || into[0] != 'x' || into[maxData-1] != 'x' {
		t.Errorf("%q, %v, %q", head, err, into[:3])
	}
	if _, err := c.Ask(t.Context(), []byte("fail"), nil, into); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	go c.Close()
	if _, err := c.Ask(t.Context(), []byte("wait"), nil, nil); !errors.Is(err, ErrGone) {
		t.Error(err)
	}
}
