package objectfs

import (
	"bytes"
	"ckpt/internal/vfs"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
)

// Prove makes sure that the storage keeps to the conditions that checkpoints depend on: of so
// many writers at a time one makes an object, a writing for an older version is refused, and so
// is an upload in the place of an object. It writes below a directory, and removes what it wrote.
func (f *FS) Prove(dir string, writers int) error {
	key, err := f.key(dir)
	if err == nil {
		err = f.prove(path.Join(key, ".ckpt-proof-"+newMark()), writers)
	}
	return failed("prove", dir, err)
}

// Trust implements vfs.Fencer: it is Prove with two writers, once for a directory on a storage.
func (f *FS) Trust(dir string) error {
	key, err := f.key(dir)
	if err != nil {
		return failed("prove", dir, err)
	}
	f.mu.Lock()
	proved := f.proofs[key]
	f.mu.Unlock()
	if proved {
		return nil
	}
	proof, want := below(key)+vfs.ProofName, []byte(f.root+"\n")
	is := make([]byte, len(want)+1)
	_, n, err := f.c.get(background(), proof, is, 0, "")
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(is[:n], want) {
		if err = f.Prove(dir, 2); err != nil {
			return err
		}
		err = f.replace(proof, want)
	}
	if err == nil {
		f.mu.Lock()
		f.proofs[key] = true
		f.mu.Unlock()
	}
	return failed("prove", dir, err)
}

func (f *FS) prove(key string, writers int) (err error) {
	ctx := background()
	defer func() {
		if derr := f.delete(key); err == nil {
			err = derr
		}
	}()
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() { _, errs[i] = f.c.put(ctx, key, []byte{byte(i)}, Condition{New: true}) })
	}
	all.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
		} else if !errors.Is(err, ErrPrecondition) {
			return err
		}
	}
	if made != 1 {
		return unsafe("If-None-Match on PUT", fmt.Sprintf("%d of %d writers made the same object", made, writers))
	}
	const again = "a second writer made an object that was there"
	was, err := f.c.put(ctx, key, []byte("again"), Condition{New: true})
	if !errors.Is(err, ErrPrecondition) {
		return refusal(err, "If-None-Match on PUT", again)
	}
	if was, err = f.c.head(ctx, key); err != nil {
		return err
	}
	if _, err = f.c.put(ctx, key, []byte("newer"), Condition{Tag: was.Tag}); err != nil {
		return refusal(err, "If-Match on PUT", "it refuses the version that is there")
	}
	if _, err = f.c.put(ctx, key, []byte("older"), Condition{Tag: was.Tag}); !errors.Is(err, ErrPrecondition) {
		return refusal(err, "If-Match on PUT", "a writing for an older version was carried out")
	}
	u, err := f.upload(key)
	if err != nil {
		return err
	}
	if err = u.write([]byte("parts"), 0); err == nil {
		_, err = u.finish(5, Condition{New: true})
	}
	if !errors.Is(err, ErrPrecondition) {
		return refusal(err, "If-None-Match on CompleteMultipartUpload", again)
	}
	return u.abort()
}

// refusal says what is wrong after an error, or without the one that was to come.
func refusal(err error, what, how string) error {
	if err == nil {
		return unsafe(what, how)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func unsafe(what, how string) error {
	return fmt.Errorf("the storage does not honour %s (%s), so two coordinators could write to one job: name another storage", what, how)
}
