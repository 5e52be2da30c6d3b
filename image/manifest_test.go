package image

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// TestManifestBefore reads manifests that were written before there was a digest of
// the description in them.
func TestManifestBefore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "store"))); err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(dir, "jobs", testJob)
	for _, n := range []string{"0001", "0002"} {
		b, err := os.ReadFile(filepath.Join("testdata", "before", n, manifestName))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(job, n, manifestName), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenStore(vfs.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 2; n++ {
		if m, err := j.Manifest(n); err != nil || m.Description != "" {
			t.Fatalf("manifest %d: %+v, %v", n, m, err)
		}
		if err := checkCheckpoint(j, n); err != nil {
			t.Error(err)
		}
	}
}

// TestOtherDescription changes the description of a job under a right seal.
func TestOtherDescription(t *testing.T) {
	t.Parallel()
	k, m := damageJob(t)
	if m.Description == "" {
		t.Fatal("the manifest has no digest of the description")
	}
	replace(t, k, k.job.SpecPath(), seal(specMagic, []byte("{\"iterations\": 3}\n")))
	s, err := OpenStore(k.fs, "/store")
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Job(testJob)
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Manifest(2)
	if !errors.Is(err, ErrOtherDescription) || !errors.As(err, new(*durable.DamageError)) || !strings.Contains(err.Error(), j.SpecPath()) {
		t.Errorf("manifest: %v", err)
	}
	rep, err := j.Verify(context.Background(), 2, nil)
	if err != nil || len(rep.Damage) != 1 {
		t.Errorf("verify: %+v, %v", rep, err)
	}
}

// TestManifestRejects reads manifests whose seal is right and whose numbers are not.
func TestManifestRejects(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*Manifest){
		"number":              func(m *Manifest) { m.Number = 1 << 32 },
		"np":                  func(m *Manifest) { m.NP = 1 << 60 },
		"iteration":           func(m *Manifest) { m.Iteration = -5 },
		"step":                func(m *Manifest) { m.Step = -5 },
		"large iteration":     func(m *Manifest) { m.Iteration = 1 << 60 },
		"group":               func(m *Manifest) { m.Groups, m.Group = 2, -1 },
		"group of none":       func(m *Manifest) { m.Group = 1 },
		"groups":              func(m *Manifest) { m.Groups = 1 << 31 },
		"negative groups":     func(m *Manifest) { m.Groups = -1 },
		"mapping":             func(m *Manifest) { m.Mapping = []int{1 << 60} },
		"mapping that sums":   func(m *Manifest) { m.Mapping = []int{math.MaxInt, math.MaxInt, 4} },
		"bytes":               func(m *Manifest) { m.Bytes.Data = -1 },
		"stored bytes":        func(m *Manifest) { m.StoredBytes = -1 },
		"log":                 func(m *Manifest) { m.Log = &LogStats{Fsyncs: -1} },
		"library":             func(m *Manifest) { m.Library.Bytes = -1 },
		"digest of library":   func(m *Manifest) { m.Library.Blake3 = "" },
		"description":         func(m *Manifest) { m.Description = "x" },
		"file's node":         func(m *Manifest) { m.Files[0].Node = 1 << 31 },
		"file's bytes":        func(m *Manifest) { m.Files[0].Bytes = math.MaxInt64 },
		"rank's node":         func(m *Manifest) { m.Ranks[0].Node = 1 },
		"rank's zones":        func(m *Manifest) { m.Ranks[0].Zones.Shared = 1 << 60 },
		"pending":             func(m *Manifest) { m.Ranks[1].Pending = -1 },
		"channels":            func(m *Manifest) { m.Ranks[1].Channels = 1 << 60 },
		"log from":            func(m *Manifest) { m.Ranks[1].LogFrom = math.MaxUint64 },
		"rank that is none":   func(m *Manifest) { m.Ranks[1].Rank = 2 },
		"rank that is double": func(m *Manifest) { m.Ranks[1].Rank = 0 },
	} {
		_, m := damageJob(t)
		change(m)
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeManifest("manifest", b); !errors.As(err, new(*durable.DamageError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
