package msglog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/vfs"
)

// BenchmarkWait appends frames of 1 KiB on the real file system and waits for
// each to be durable, from 1, 8 and 64 goroutines: with group commit, frames per
// second grow with the goroutines, fsyncs do not.
//
//	go test ./coordinator/msglog -run xxx -bench Wait
func BenchmarkWait(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", writers), func(b *testing.B) {
			l, _, err := Open(vfs.OS{}, b.TempDir()+"/log", testID, Options{})
			must(b, err)
			payload := make([]byte, 1024)
			b.SetBytes(int64(len(payload)))
			before := l.Stats()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						lsn, err := l.Append(channel.Frame{Kind: channel.Received, Message: channel.Message{Data: payload}})
						if err == nil {
							err = l.Wait(context.Background(), lsn)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			after := l.Stats()
			b.ReportMetric(float64(after.Fsyncs-before.Fsyncs)/float64(b.N), "fsyncs/op")
			must(b, l.Close())
		})
	}
}

// BenchmarkAppend is what an optimistic log costs the one who appends.
func BenchmarkAppend(b *testing.B) {
	l, _, err := Open(vfs.OS{}, b.TempDir()+"/log", testID, Options{})
	must(b, err)
	payload := make([]byte, 1024)
	b.SetBytes(int64(len(payload)))
	for i := 0; b.Loop(); i++ {
		_, err := l.Append(channel.Frame{Kind: channel.Received, Message: channel.Message{Data: payload}})
		must(b, err)
		if i%1000 == 999 {
			must(b, l.Commit(context.Background()))
		}
	}
	must(b, l.Close())
}
