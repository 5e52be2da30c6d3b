package wire

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// FuzzRequests has a server take whatever a peer sends, after a greeting. It changes nothing
// beside the job's files, and ends when the connection does.
func FuzzRequests(f *testing.F) {
	add := func(all ...request) {
		var b []byte
		for i, q := range all {
			q.number = uint32(i + 2)
			b = append(q.appendTo(b), q.data...)
		}
		f.Add(b)
	}
	add(request{op: opCreate, name: "jobs/a/x"}, request{op: opWriteAt, handle: 1, off: 5, data: []byte("bytes")},
		request{op: opSync, handle: 1}, request{op: opClose, handle: 1}, request{op: opRename, name: "jobs/a/x", to: "jobs/a/y"})
	add(request{op: opOpen, name: "jobs/a/old"}, request{op: opReadAt, handle: 1, size: 100}, request{op: opSize, handle: 1})
	add(request{op: opLock, name: "jobs/a/lock"}, request{op: opReadAt, handle: 1, size: 1 << 40}, request{op: 200})
	add(request{op: opReadDir, name: "jobs"}, request{op: opStat, name: "."}, request{op: opMkdir, name: "jobs/a/0001"})
	add(request{op: opCreate, name: "jobs/b/x"}, request{op: opContribute, name: "c"}, request{op: opEnd, handle: 1})
	add(request{op: opAsk, name: "head", data: []byte("data"), size: 5}, request{op: opAsk, size: 1 << 40}, request{op: opAsk, data: []byte("long")})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := memfs.New()
		for _, name := range []string{"/other/jobs/a/keep", "/nvme/0/jobs/b/keep", "/nvme/0/jobs/a/old"} {
			if err := durable.MkdirAll(m, name[:strings.LastIndex(name, "/")]); err != nil {
				t.Fatal(err)
			}
			if err := durable.Replace(m, name, []byte("kept")); err != nil {
				t.Fatal(err)
			}
		}
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		go func() {
			hello := request{number: 1, op: opHello, name: "a", off: time.Minute.Milliseconds()}
			_, _ = client.Write(append(hello.appendTo(nil), b...))
			client.Close()
		}()
		s := &DirServer{served: ServedDirs{FS: small{vfs.Through(m)}, Dir: "/nvme/0", Job: "a",
			Answer: func(_ context.Context, head, _, _ []byte) ([]byte, error) { return head, nil }}}
		s.serve(context.Background(), server)
		for _, dir := range []string{"/other/jobs/a", "/nvme/0/jobs/b"} {
			if got, err := durable.ReadFile(m, dir+"/keep", 10); string(got) != "kept" || err != nil {
				t.Errorf("%s/keep has %q, %v", dir, got, err)
			}
			if list, err := m.ReadDir(dir); len(list) != 1 || err != nil {
				t.Errorf("%s has %v, %v", dir, list, err)
			}
		}
	})
}

// small is a file system in memory with small files.
type small struct{ vfs.Buffered }

type smallFile struct{ vfs.Plain }

func (s small) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return smallFile{vfs.Only(f)}, err
}

func (s small) OpenWrite(name string) (vfs.File, error) {
	f, err := s.FS.OpenWrite(name)
	return smallFile{vfs.Only(f)}, err
}

func (f smallFile) WriteAt(p []byte, off int64) (int, error) {
	if off > 1<<20 {
		return 0, syscall.EFBIG
	}
	return f.File.WriteAt(p, off)
}

// FuzzAnswers has a client take whatever a server sends. Every call ends.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x01\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00null"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		go func() {
			_, _ = server.Write(b)
			server.Close()
		}()
		p := Peer{Dir: "/nvme/0", Job: "a", Silence: time.Minute}
		n, err := connect(t.Context(), client, p)
		if err != nil {
			return
		}
		c := NewPeerClient(Self{}, p)
		c.files = n
		fsys := c.FS(t.Context())
		if f, err := fsys.Create("/nvme/0/jobs/a/x"); err == nil {
			_, _ = f.ReadAt(make([]byte, 3), 0)
			f.Close()
		}
		_, _ = fsys.ReadDir("/nvme/0/jobs/a")
		if c, err := c.Contribute(t.Context(), "c"); err == nil {
			_, _ = c.End(1)
		}
	})
}
