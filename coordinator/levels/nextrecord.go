package levels

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"ckpt/image"
	"ckpt/internal/durable"
)

// A NextStore is what the record of a job says of a next store: what this had after the last copy.
type NextStore struct {
	Store       string          `json:"store"`
	Newest      int             `json:"newest"` // checkpoint that it has had
	Checkpoints []image.Summary `json:"checkpoints"`
}

// Has reports whether the store had a checkpoint.
func (s *NextStore) Has(number int) bool {
	return slices.ContainsFunc(s.Checkpoints, func(c image.Summary) bool { return c.Number == number })
}

// nextRecord is the file of a job that says so. The stores decide where they can be read.
type nextRecord struct {
	Digest string      `json:"job_blake3"`
	Stores []NextStore `json:"stores"`
}

const maxNextRecord = 64 << 20

// ReadNext returns what the record of a job says of its next stores, nil without one.
func ReadNext(j *image.Job) ([]NextStore, error) {
	k := nextKeeper{job: j}
	err := k.read()
	return k.stores, err
}

// A nextKeeper keeps the record. Several copies may end at a time.
type nextKeeper struct {
	job    *image.Job
	mu     sync.Mutex
	stores []NextStore
}

func (k *nextKeeper) path() string { return filepath.Join(k.job.Dir(), image.NextName) }

func (k *nextKeeper) read() error {
	r := nextRecord{}
	err := durable.ReadSealed(k.job.FS(), k.path(), maxNextRecord, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if digest, err := k.job.Digest(); err == nil && digest != r.Digest {
		return nil // of an earlier job of this name
	}
	k.stores = r.Stores
	return nil
}

// newest is the newest checkpoint that a store has had, 0 for none.
func (k *nextKeeper) newest(store string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.stores {
		if k.stores[i].Store == store {
			return k.stores[i].Newest
		}
	}
	return 0
}

// keep notes what a store has.
func (k *nextKeeper) keep(store string, has []image.Summary) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := NextStore{Store: store, Checkpoints: has}
	for _, s := range has {
		now.Newest = max(now.Newest, s.Number)
	}
	i := slices.IndexFunc(k.stores, func(s NextStore) bool { return s.Store == store })
	if i < 0 {
		i = len(k.stores)
		k.stores = append(k.stores, now)
	}
	now.Newest = max(now.Newest, k.stores[i].Newest)
	k.stores[i] = now
	digest, err := k.job.Digest()
	if err != nil {
		return err
	}
	return durable.ReplaceSealed(k.job.FS(), k.path(), nextRecord{Digest: digest, Stores: k.stores})
}
