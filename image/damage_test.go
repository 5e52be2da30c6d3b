package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

// damageJob is a job whose checkpoint 2 has everything: an own image, one that
// refers to checkpoint 1, a shared segment and a library of checkpoint 1.
func damageJob(t *testing.T) (*taker, *Manifest) {
	t.Helper()
	k := memJob(t)
	for n := 1; n <= 2; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	m, err := k.job.Manifest(2)
	if err != nil {
		t.Fatal(err)
	}
	return k, m
}

// replace writes a file anew.
func replace(t *testing.T, k *taker, name string, b []byte) {
	t.Helper()
	if err := durable.Replace(k.fs, name, b); err != nil {
		t.Fatal(err)
	}
}

// checkNoticed checks that Verify and Load report damage to the file.
func checkNoticed(t *testing.T, k *taker, m *Manifest, rel, what string) {
	t.Helper()
	name := filepath.Join(k.job.dir, rel)
	rep, err := k.job.Verify(context.Background(), 2, nil)
	if err != nil || len(rep.Damage) == 0 {
		t.Errorf("%s of %s: Verify found %v, error %v", what, rel, rep.Damage, err)
	}
	for _, d := range rep.Damage {
		if d.File != name || d.Offset < 0 || d.Reason == "" {
			t.Errorf("%s of %s: Verify found %+v", what, rel, d)
		}
	}
	var damage *durable.DamageError
	if filepath.Base(rel) == manifestName {
		_, err = k.job.Manifest(2)
	} else {
		i := 0
		for m.Files[i].Path != rel {
			i++
		}
		err = k.job.Load(context.Background(), m, rel, rankIn(m.Files[i]), empty(wantRegions(m.Files[i])), container.LoadOptions{})
		if cerr := k.job.Check(context.Background(), m, []string{rel}); !errors.As(cerr, &damage) || damage.File != name {
			t.Errorf("%s of %s: Check says %v", what, rel, cerr)
		}
	}
	if !errors.As(err, &damage) || damage.File != name || damage.Offset < 0 || damage.Reason == "" {
		t.Errorf("%s of %s: Load says %v", what, rel, err)
	}
}

// checkRebuilt checks that a file with a damaged index or trailer is read as it was written, and that
// Verify reports it.
func checkRebuilt(t *testing.T, k *taker, m *Manifest, f container.File, what string) {
	t.Helper()
	into := empty(wantRegions(f))
	for _, check := range []bool{true, false} {
		if err := k.job.Load(context.Background(), m, f.Path, rankIn(f), into, container.LoadOptions{Check: check}); err != nil {
			t.Errorf("%s of %s: %v", what, f.Path, err)
		}
	}
	if err := sameMemory(f.Path, into, wantRegions(f)); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	rep, err := k.job.Verify(context.Background(), m.Number, nil)
	if err != nil || len(rep.Damage) == 0 || rep.Damage[0].File != filepath.Join(k.job.dir, f.Path) {
		t.Errorf("%s of %s: Verify found %v, error %v", what, f.Path, rep.Damage, err)
	}
}

// indexOf returns where the index of a sound container begins.
func indexOf(b []byte) int { return int(binary.LittleEndian.Uint64(b[len(b)-zones.PageSize+16:])) }

// TestTrailerLost overwrites each part of a trailer, and all of it, and parts of the index, of which
// there is a copy in the trailer. Damage of both is damage for good.
func TestTrailerLost(t *testing.T) {
	t.Parallel()
	k, m := damageJob(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, f := range m.Files {
		name := filepath.Join(k.job.dir, f.Path)
		sound, err := durable.ReadFile(k.fs, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		end := len(sound) - zones.PageSize
		for _, part := range [][2]int{{0, 8}, {12, 16}, {16, 24}, {24, 32}, {32, 40}, {40, 56}, {64, 96}, {0, 512}, {0, zones.PageSize}} {
			b := bytes.Clone(sound)
			for i := part[0]; i < part[1]; i++ {
				b[end+i] = byte(rng.Uint32())
			}
			replace(t, k, name, b)
			checkRebuilt(t, k, m, f, fmt.Sprintf("loss of bytes %v of the trailer", part))
		}
		b := bytes.Clone(sound)
		clear(b[indexOf(b)+40 : indexOf(b)+80])
		replace(t, k, name, b)
		checkRebuilt(t, k, m, f, "loss of 40 bytes of the index")
		b[end+512] ^= 1
		replace(t, k, name, b)
		checkNoticed(t, k, m, f.Path, "loss of 40 bytes of the index, and of the trailer")
		replace(t, k, name, sound)
	}
}

func TestBitFlips(t *testing.T) {
	t.Parallel()
	k, m := damageJob(t)
	files := []string{"0002/" + manifestName}
	for _, f := range m.Files {
		files = append(files, f.Path)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		rel := files[i%len(files)]
		name := filepath.Join(k.job.dir, rel)
		b, err := durable.ReadFile(k.fs, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		bit := rng.IntN(len(b) * 8)
		b[bit/8] ^= 1 << (bit % 8)
		replace(t, k, name, b)
		i := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Path == rel })
		if b[bit/8] ^= 1 << (bit % 8); i >= 0 && bit/8 >= indexOf(b) {
			checkRebuilt(t, k, m, m.Files[i], "bit flip")
		} else {
			checkNoticed(t, k, m, rel, "bit flip")
		}
		b[bit/8] ^= 1 << (bit % 8)
		b[bit/8] ^= 1 << (bit % 8)
		replace(t, k, name, b)
	}
	if err := checkCheckpoint(k.job, 2); err != nil {
		t.Errorf("after undoing it all: %v", err)
	}
}

// TestEveryByte flips one bit in every byte of a small image. With LoadOptions.Check the
// same is found, and no memory is written.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	k, m := damageJob(t)
	f := m.Files[1] // the one with a reference
	name := filepath.Join(k.job.dir, f.Path)
	b, err := durable.ReadFile(k.fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	index := indexOf(b)
	step := 3
	switch {
	case testkit.Enabled:
		step = 7
	case testkit.Nightly():
		step = 1
	}
	into, untouched := empty(wantRegions(f)), empty(wantRegions(f))
	for _, r := range untouched {
		for i := range r.Mem {
			r.Mem[i] = 7
		}
	}
	check := func() error {
		return k.job.Load(context.Background(), m, f.Path, rankIn(f), untouched, container.LoadOptions{Check: true})
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	for i := 0; i < len(b); i += step {
		b[i] ^= 0x10
		replace(t, k, name, b)
		err, cerr := k.job.Load(context.Background(), m, f.Path, rankIn(f), into, container.LoadOptions{}), check()
		if i >= index {
			if err != nil || cerr != nil {
				t.Errorf("flip at %d of the index or trailer: %v, %v", i, err, cerr)
			}
			if err := sameMemory(f.Path, into, wantRegions(f)); err != nil {
				t.Errorf("flip at %d: %v", i, err)
			}
			b[i] ^= 0x10
			continue
		}
		var damage *durable.DamageError
		if !errors.As(err, &damage) || damage.File != name {
			t.Errorf("flip at %d: %v", i, err)
		}
		if !errors.As(cerr, &damage) || damage.File != name {
			t.Errorf("flip at %d: %v", i, cerr)
		}
		b[i] ^= 0x10
	}
	for _, r := range untouched {
		if n := bytes.Count(r.Mem, []byte{7}); n != len(r.Mem) {
			t.Errorf("region %q: %d of %d bytes were written", r.Name, len(r.Mem)-n, len(r.Mem))
		}
	}
}

// indexEnd returns where the index of a sound container ends. If a file is cut behind it, nothing is
// lost.
func indexEnd(b []byte) int {
	return indexOf(b) + int(binary.LittleEndian.Uint64(b[len(b)-zones.PageSize+24:]))
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	k, m := damageJob(t)
	for _, f := range m.Files {
		name := filepath.Join(k.job.dir, f.Path)
		b, err := durable.ReadFile(k.fs, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(b); n += zones.PageSize / 2 {
			if replace(t, k, name, b[:n]); n >= indexEnd(b) {
				checkRebuilt(t, k, m, f, "truncation of the trailer")
			} else {
				checkNoticed(t, k, m, f.Path, "truncation")
			}
		}
		replace(t, k, name, b[:len(b)-1])
		checkRebuilt(t, k, m, f, "truncation by a byte")
		for _, n := range []int{1, 512, 4096, 8192} {
			replace(t, k, name, append(b[:len(b):len(b)], make([]byte, n)...))
			checkRebuilt(t, k, m, f, "extension")
		}
		if err := k.fs.Remove(name); err != nil {
			t.Fatal(err)
		}
		checkNoticed(t, k, m, f.Path, "removal")
		replace(t, k, name, b)
	}
	name := k.job.manifestPath(2)
	b, err := durable.ReadFile(k.fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for n := range b {
		replace(t, k, name, b[:n])
		if _, err := k.job.Manifest(2); !errors.As(err, new(*durable.DamageError)) {
			t.Errorf("manifest of %d bytes: %v", n, err)
		}
	}
}

// TestBaseDamaged damages the image of an earlier checkpoint that a later one
// refers to. If only its trailer is lost, no data are.
func TestBaseDamaged(t *testing.T) {
	t.Parallel()
	k, m := damageJob(t)
	name := filepath.Join(k.job.dir, k.base.Path)
	b, err := durable.ReadFile(k.fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{1, zones.PageSize} {
		replace(t, k, name, b[:len(b)-cut])
		into := empty(deltaRegions(2))
		err = k.job.Load(context.Background(), m, m.Files[1].Path, rankIn(m.Files[1]), into, container.LoadOptions{})
		if err := errors.Join(err, sameMemory(name, into, deltaRegions(2))); err != nil {
			t.Errorf("a cut of %d bytes: %v", cut, err)
		}
		if rep, err := k.job.Verify(context.Background(), 2, nil); err != nil || len(rep.Damage) != 1 || rep.Damage[0].File != name {
			t.Errorf("Verify after a cut of %d bytes: %+v, %v", cut, rep, err)
		}
	}
	b[container.BlockSize+17] ^= 1
	replace(t, k, name, b)
	rep, err := k.job.Verify(context.Background(), 2, nil)
	if err != nil || len(rep.Damage) != 1 || rep.Damage[0].File != name || rep.Damage[0].Offset != container.BlockSize {
		t.Errorf("Verify: %+v, %v", rep, err)
	}
	var damage *durable.DamageError
	err = k.job.Load(context.Background(), m, m.Files[1].Path, rankIn(m.Files[1]), empty(deltaRegions(2)), container.LoadOptions{})
	if !errors.As(err, &damage) || damage.File != name {
		t.Errorf("Load: %v", err)
	}
	if err := k.fs.Remove(name); err != nil {
		t.Fatal(err)
	}
	err = k.job.Load(context.Background(), m, m.Files[1].Path, rankIn(m.Files[1]), empty(deltaRegions(2)), container.LoadOptions{})
	if !errors.As(err, &damage) || damage.File != name || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load without the base: %v", err)
	}
}

// TestSweepKeepsWhatItCannotRead: the files of a checkpoint whose manifest is
// damaged may still be of use to somebody who repairs it.
func TestSweepKeepsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	k, _ := damageJob(t)
	replace(t, k, k.job.manifestPath(2), []byte("rubbish"))
	before := k.fs.(*memfs.FS).Digest()
	removed, err := k.job.Sweep()
	if err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if k.fs.(*memfs.FS).Digest() != before {
		t.Error("something changed")
	}
}
