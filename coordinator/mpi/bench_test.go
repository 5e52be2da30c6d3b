package mpi

import (
	"fmt"
	"testing"
)

// BenchmarkPingPong reports the time of one way and the bandwidth between two
// ranks of one process, through the segment and over TCP.
func BenchmarkPingPong(b *testing.B) {
	for _, net := range []struct {
		name   string
		nodeOf []int
	}{{"shm", []int{0, 0}}, {"tcp", []int{0, 1}}} {
		for _, size := range []int{8, 1 << 10, 16 << 10, 256 << 10, 4 << 20} {
			b.Run(fmt.Sprintf("%s/%d", net.name, size), func(b *testing.B) {
				w := newWorld(b, worldOptions{nodeOf: net.nodeOf, dir: shmDir(b)})
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
	for _, net := range []struct {
		name   string
		nodeOf []int
	}{{"shm", []int{0, 0}}, {"tcp", []int{0, 1}}} {
		for _, size := range []int{8, 1 << 10, 16 << 10, 256 << 10, 4 << 20} {
			b.Run(fmt.Sprintf("%s/%d", net.name, size), func(b *testing.B) {
				w := newWorld(b, worldOptions{nodeOf: net.nodeOf, dir: shmDir(b)})
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
