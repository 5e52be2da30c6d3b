package wire

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// BenchmarkPeer writes 64 MiB into a file of a peer, over the loopback interface, plain and
// encrypted, and then into a file of its own; remote/direct is the ratio of the times. It
// also reads, and gives bytes to parity that is not computed. CKPT_BENCH_DIR is where the
// files are.
func BenchmarkPeer(b *testing.B) {
	key, err := EncryptedPeers("127.0.0.1", peerToken)
	if err != nil {
		b.Fatal(err)
	}
	for name, network := range map[string]Network{"plain": Loopback, "encrypted": key} {
		b.Run(name, func(b *testing.B) { benchmarkPeer(b, network) })
	}
}

const benchBytes = 64 << 20

func benchmarkPeer(b *testing.B, network Network) {
	dir, err := os.MkdirTemp(os.Getenv("CKPT_BENCH_DIR"), "peer")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	job := dir + "/jobs/a"
	if err := durable.MkdirAll(vfs.OS{}, job); err != nil {
		b.Fatal(err)
	}
	beneath := vfs.NewBeneath(dir)
	s, err := ServeDirs(Self{Rank: 0, Token: peerToken, Network: network}, ServedDirs{FS: beneath, Dir: dir, Job: "a",
		Contribute: func(context.Context, string) (nodes.Contributor, error) { return nowhere{}, nil }})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c := NewPeerClient(Self{Rank: 1, Token: peerToken, Network: network},
		Peer{Rank: 0, Host: "h0", Address: s.Address(), Dir: dir, Job: "a", Silence: time.Minute})
	defer c.Close()
	remote := c.FS(b.Context())
	bytes := make([]byte, 1<<20)
	for _, kind := range []string{"write", "read", "contribute"} {
		b.Run(kind, func(b *testing.B) {
			var there, here time.Duration
			for b.Loop() {
				if kind == "contribute" {
					there += measure(b, func() error { return contributeAll(c, bytes) })
				} else {
					there += measure(b, func() error { return moveAll(remote, job+"/there", bytes, kind == "read") })
				}
				here += measure(b, func() error { return moveAll(vfs.OS{}, job+"/here", bytes, kind == "read") })
			}
			b.SetBytes(benchBytes)
			b.ReportMetric(there.Seconds()/here.Seconds(), "remote/direct")
			b.ReportMetric(benchBytes/1e6*float64(b.N)/there.Seconds(), "remoteMB/s")
		})
	}
}

func measure(b *testing.B, do func() error) time.Duration {
	begin := time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// moveAll writes a file, or reads it.
func moveAll(fsys vfs.FS, name string, p []byte, read bool) error {
	if read {
		f, err := fsys.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		for at := int64(0); at < benchBytes; at += int64(len(p)) {
			if _, err := f.ReadAt(p, at); err != nil {
				return err
			}
		}
		return nil
	}
	_ = fsys.Remove(name)
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for at := int64(0); at < benchBytes; at += int64(len(p)) {
		if _, err := f.WriteAt(p, at); err != nil {
			return err
		}
	}
	return f.Sync()
}

func contributeAll(c *PeerClient, p []byte) error {
	to, err := c.Contribute(context.Background(), "c")
	if err != nil {
		return err
	}
	for at := int64(0); at < benchBytes; at += int64(len(p)) {
		if err := to.Add(at, p); err != nil {
			return err
		}
	}
	info, err := to.End(benchBytes)
	if err == nil && info.Bytes != benchBytes {
		err = fmt.Errorf("%d bytes", info.Bytes)
	}
	return err
}

// nowhere takes contributions and forgets them.
type nowhere struct{}

func (nowhere) Add(int64, []byte) error { return nil }
func (nowhere) End(size int64) (nodes.ParityInfo, error) {
	return nodes.ParityInfo{Bytes: size}, nil
}
func (nowhere) Abort() {}
