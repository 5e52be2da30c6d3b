package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden checks that the format stays what it is, byte by byte. The golden
// files are a whole store, which must also stay readable.
func TestGolden(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	for n := 1; n <= 2; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	golden := filepath.Join("testdata", "store")
	if *update {
		if err := os.MkdirAll(golden, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := walk(k.fs, "/store", "", func(rel string, dir, _ bool) error {
		name := filepath.Join(golden, rel)
		if dir {
			if *update {
				return os.MkdirAll(name, 0o755)
			}
			return nil
		}
		if base := filepath.Base(rel); base == lockName || base == catalogName || base == identityName {
			return nil // the catalog holds no more than the manifests, and the identity is random
		}
		b, err := durable.ReadFile(k.fs, "/store/"+rel, 1<<20)
		if err != nil {
			return err
		}
		if *update {
			return os.WriteFile(name, b, 0o644)
		}
		want, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.Equal(b, want) {
			return fmt.Errorf("%s differs from %s", rel, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Read it without a lock, as from a medium that cannot be written.
	s, err := OpenStore(vfs.OS{}, golden)
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		if err := checkCheckpoint(j, n); err != nil {
			t.Error(err)
		}
	}
}

// TestNewer reads what a later version may write.
func TestNewer(t *testing.T) {
	t.Parallel()
	k, m := damageJob(t)
	f := m.Files[0]
	name := filepath.Join(k.job.dir, f.Path)
	good, err := durable.ReadFile(k.fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	load := func(b []byte) error {
		replace(t, k, name, b)
		return k.job.Load(context.Background(), m, f.Path, rankIn(f), empty(wantRegions(f)), container.LoadOptions{})
	}

	b := bytes.Clone(good)
	const crcAt = container.BlockSize - 4
	b[8] = 2
	binary.LittleEndian.PutUint32(b[crcAt:], durable.Sum(b[:crcAt]))
	if err := load(b); !errors.Is(err, durable.ErrNewerVersion) {
		t.Errorf("image: %v", err)
	}

	manifest := fmt.Appendf(nil, "%s%d\n{\"format\": 2}\n", manifestMagic, 2)
	replace(t, k, k.job.manifestPath(2), sealed(manifest))
	if _, err := k.job.Manifest(2); !errors.Is(err, durable.ErrNewerVersion) {
		t.Errorf("manifest: %v", err)
	}

	replace(t, k, "/store/"+formatName, []byte("ckpt-store 3\n"))
	if _, err := OpenStore(k.fs, "/store"); !errors.Is(err, durable.ErrNewerVersion) {
		t.Errorf("store: %v", err)
	}
	if _, err := CreateStore(k.fs, "/store"); !errors.Is(err, durable.ErrNewerVersion) {
		t.Errorf("store: %v", err)
	}
	replace(t, k, "/store/"+formatName, []byte("something else\n"))
	if _, err := CreateStore(k.fs, "/store"); !errors.Is(err, ErrNoStore) {
		t.Errorf("store: %v", err)
	}
}
