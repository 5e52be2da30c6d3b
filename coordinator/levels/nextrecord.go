package levels

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
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

// Known lists the next stores of a job: the stores of its description, and further ones that its
// record knows from a restart with another list.
func Known(list []image.Next, record []NextStore) []image.Next {
	list = slices.Clone(list)
	for _, s := range record {
		if !slices.ContainsFunc(list, func(n image.Next) bool { return n.Store == s.Store }) {
			list = append(list, image.Next{Store: s.Store})
		}
	}
	return list
}

// NoteCopy has the record of a job say what a store has after a copy, if that is a next store.
func NoteCopy(j *image.Job, list []image.Next, to *image.Store, has []image.Summary) error {
	k := nextKeeper{job: j}
	if err := k.read(); err != nil {
		return err
	}
	dir, err := filepath.Abs(to.Dir())
	if err != nil {
		return err
	}
	list = Known(list, k.stores)
	i := slices.IndexFunc(list, func(n image.Next) bool { return n.Store == dir })
	if i < 0 {
		i = slices.IndexFunc(list, func(n image.Next) bool {
			s, err := image.OpenStore(vfs.OS{}, n.Store)
			if err != nil {
				return false
			}
			same, err := s.Same(to)
			return err == nil && same
		})
	}
	if i < 0 {
		return nil
	}
	return k.keep(list[i].Store, has)
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

// keep notes what a store has. Other processes may have noted what others have.
func (k *nextKeeper) keep(store string, has []image.Summary) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.read() // what cannot be read is replaced
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
