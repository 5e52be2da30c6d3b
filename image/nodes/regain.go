package nodes

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
)

// trialBytes is the length of the file that Regain writes.
const trialBytes = 1 << 20

// tryPrefix begins the name of that file.
const tryPrefix = "try-"

// Regain makes the directories of all nodes again, after one of them failed, and finds out
// whether each takes a version of the size of another one, which may be nil. It removes the
// versions that are not to be kept: they were reclaimed or discarded while the node did not
// work. Nothing is written to others meanwhile.
func (t *Tier) Regain(like *image.Manifest, keep map[int]bool) error {
	return errors.Join(t.each(func(node int) error { return nodeError(node, t.regain(node, like, keep)) })...)
}

func (t *Tier) regain(node int, like *image.Manifest, keep map[int]bool) error {
	if err := t.mend(node); err != nil {
		return err
	}
	j, err := t.place(node)
	if err != nil {
		return err
	}
	numbers, err := j.Checkpoints()
	for _, n := range numbers {
		if err == nil && !keep[n] {
			err = wipe(j, n)
		}
	}
	if err != nil {
		return err
	}
	if err := try(j, trialBytes); err != nil {
		return err
	}
	free, err := j.FS().Free(j.Dir())
	if need := bytesOn(like, node); err == nil && free < need {
		return fmt.Errorf("%w: a checkpoint takes %d bytes in %s, %d are free", durable.ErrStorageFull, need, j.Dir(), free)
	}
	return nil // room that cannot be told is found out by writing
}

// try writes a file of so many bytes in the directory of a node, and removes it.
func try(j *image.Job, bytes int) error {
	name := filepath.Join(j.Dir(), tryPrefix+image.NewID()+durable.TempSuffix)
	f, err := j.FS().Create(name)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err
		}
		return durable.Op("write to", j.Dir(), -1, err)
	}
	err = durable.WriteAt(f, name, make([]byte, bytes), 0)
	if err == nil {
		err = durable.Op("sync", name, -1, f.Sync())
	}
	return errors.Join(err, f.Close(), durable.Remove(j.FS(), name))
}

// bytesOn adds up the files that a node has of a version.
func bytesOn(m *image.Manifest, node int) (n int64) {
	if m == nil {
		return 0
	}
	for _, p := range partsOf(m) {
		if p.node == node {
			n += p.file.Bytes + p.parity.Bytes
		}
	}
	return n
}
