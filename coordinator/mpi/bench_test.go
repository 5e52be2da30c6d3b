package mpi

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
)

// BenchmarkPingPong reports the time of one way and the bandwidth between two
// ranks of one process, through the segment and over TCP.
func BenchmarkPingPong(b *testing.B) {
	for _, way := range []struct {
		name   string
		nodeOf []int
	}{{"shm", []int{0, 0}}, {"tcp", []int{0, 1}}} {
		for _, size := range []int{8, 1 << 10, 16 << 10, 256 << 10, 4 << 20} {
			b.Run(fmt.Sprintf("%s/%d", way.name, size), func(b *testing.B) {
				w := newWorld(b, worldOptions{nodeOf: way.nodeOf, dir: shmDir(b)})
				defer w.close()
				b.SetBytes(int64(2 * size))
				b.ReportAllocs()
				b.ResetTimer()
				w.must(b, func(c *Comm) error {
					buf := make([]byte, size)
					for range b.N {
						if c.Rank() == 0 {
							if err := c.Send(1, 0, buf); err != nil {
								return err
							}
						}
						if _, err := c.Recv(1-c.Rank(), 0, buf); err != nil {
							return err
						}
						if c.Rank() == 1 {
							if err := c.Send(0, 0, buf); err != nil {
								return err
							}
						}
					}
					return nil
				})
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
			})
		}
	}
}

// BenchmarkStream sends one way without waiting for answers.
func BenchmarkStream(b *testing.B) {
	for _, way := range []struct {
		name   string
		nodeOf []int
	}{{"shm", []int{0, 0}}, {"tcp", []int{0, 1}}} {
		for _, size := range []int{8, 1 << 10, 16 << 10, 256 << 10, 4 << 20} {
			b.Run(fmt.Sprintf("%s/%d", way.name, size), func(b *testing.B) {
				w := newWorld(b, worldOptions{nodeOf: way.nodeOf, dir: shmDir(b)})
				defer w.close()
				b.SetBytes(int64(size))
				b.ResetTimer()
				w.must(b, func(c *Comm) error {
					buf := make([]byte, size)
					for i := range b.N {
						var err error
						if c.Rank() == 0 {
							err = c.Send(1, 0, buf)
						} else {
							_, err = c.Recv(0, 0, buf)
						}
						if err == nil && i%64 == 63 { // bounds the inbox
							err = c.Barrier()
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// BenchmarkBarrier is a barrier of ranks that share a node.
func BenchmarkBarrier(b *testing.B) {
	for _, ranks := range []int{2, 16, 64} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			w := newWorld(b, worldOptions{nodeOf: make([]int, ranks), dir: shmDir(b)})
			defer w.close()
			b.ResetTimer()
			w.must(b, func(c *Comm) error {
				for range b.N {
					if err := c.Barrier(); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkTwoProcesses is the ping-pong between this process and another one
// on the same node.
func BenchmarkTwoProcesses(b *testing.B) {
	for _, size := range []int{8, 1 << 10, 16 << 10, 256 << 10, 4 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			path := filepath.Join(shmDir(b), "segment")
			seg, err := OpenSegment(path, MPICH, 2)
			if err != nil {
				b.Fatal(err)
			}
			defer seg.Close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close() // of rank 2, which nobody talks to
			l0, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			c, err := Join(Config{Rank: 0, Size: 3, NodeOf: []int{0, 0, 1}, Segment: seg, Listener: l0,
				Peers: []string{"", "", l.Addr().String()}, Token: []byte("token")})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			cmd := startChild(b, path, l, b.N+1)
			buf := make([]byte, size)
			round := func() {
				if err := c.Send(1, 0, buf); err != nil {
					b.Fatal(err)
				}
				if _, err := c.Recv(1, 0, buf); err != nil {
					b.Fatal(err)
				}
			}
			round() // the child is there
			b.SetBytes(int64(2 * size))
			b.ResetTimer()
			for range b.N {
				round()
			}
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
