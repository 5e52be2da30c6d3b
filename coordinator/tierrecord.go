package coordinator

import (
	"sync"

	"ckpt/image"
	"ckpt/image/nodes"
)

// A recordKeeper keeps the record of what the nodes have, in the store, beside the loop: a
// store that does not answer holds nobody up. Only the newest record counts.
type recordKeeper struct {
	job  *image.Job
	mu   sync.Mutex
	next *nodes.Record
	busy bool
	idle *sync.Cond // not a WaitGroup: records come while somebody waits
}

func newRecordKeeper(j *image.Job) *recordKeeper {
	k := &recordKeeper{job: j}
	k.idle = sync.NewCond(&k.mu)
	return k
}

// keep has a record written soon.
func (k *recordKeeper) keep(r *nodes.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = r
	if !k.busy {
		k.busy = true
		go k.write()
	}
}

func (k *recordKeeper) write() {
	for {
		k.mu.Lock()
		r := k.next
		k.next = nil
		if r == nil {
			k.busy = false
			k.idle.Broadcast()
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		_ = r.Write(k.job) // the manifests on the nodes decide
	}
}

// wait waits until the last record is written.
func (k *recordKeeper) wait() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.busy {
		k.idle.Wait()
	}
}
