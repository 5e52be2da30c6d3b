package vfs

import (
	"sync"
	"time"
)

// File systems whose files are not changed in place (object storage, sealed stores) write a changed
// file anew as a whole, up to MostReplaced bytes. Files of lines, which are not synced, they write
// every WrittenEvery.
const (
	MostReplaced = 64 << 20
	LinesSuffix  = ".jsonl"
	WrittenEvery = 2 * time.Second
)

// Every calls do at each end of a period, until stop is called.
func Every(period time.Duration, do func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(period)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
				do()
			}
		}
	}()
	return sync.OnceFunc(func() { close(done) })
}
