package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ckpt/internal/durable"

	"github.com/zeebo/blake3"
)

func sealed(b []byte) []byte {
	return fmt.Appendf(b[:len(b):len(b)], "%s%x\n", sumPrefix, blake3.Sum256(b))
}

// tierSeed returns a manifest of a version that nodes have, without its digest.
func tierSeed(f *testing.F) []byte {
	m := tieredManifest()
	b, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	return b[:len(b)-len(sumPrefix)-65]
}

// FuzzManifest reads arbitrary bytes as a manifest.
func FuzzManifest(f *testing.F) {
	names, _ := filepath.Glob("testdata/store/jobs/*/*/manifest")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b[:len(b)-len(sumPrefix)-65], true)
	}
	f.Add([]byte(manifestMagic+"1\n{}\n"), true)
	f.Add([]byte(manifestMagic+"2\n{}\n"), true)
	f.Add(tierSeed(f), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = sealed(b)
		}
		m, err := DecodeManifest("manifest", b)
		if err != nil {
			if !errors.As(err, new(*durable.DamageError)) && !errors.Is(err, durable.ErrNewerVersion) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		for _, f := range m.Files {
			if !filepath.IsLocal(f.Path) {
				t.Fatalf("path %q leaves the job", f.Path)
			}
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeManifest("manifest", again); err != nil {
			t.Fatalf("cannot read again what was written: %v", err)
		}
	})
}
