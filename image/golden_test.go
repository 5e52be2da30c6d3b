package image

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden checks that the format stays what it is, byte by byte. The golden
// files are a whole store, which must also stay readable.
func TestGolden(t *testing.T) {
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
		if base := filepath.Base(rel); base == lockName || base == catalogName {
			return nil // the catalog holds no more than the manifests
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
	k, m := damageJob(t)
	f := m.Files[0]
	name := filepath.Join(k.job.dir, f.Path)
	good, err := durable.ReadFile(k.fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	load := func(b []byte) error {
		replace(t, k, name, b)
		return k.job.Load(context.Background(), m, f.Path, rankIn(f), empty(wantRegions(f)), nil)
	}

	b := bytes.Clone(good)
	b[8] = formatVersion + 1
	put32(b[crcAt:], crcOf(b[:crcAt]))
	if err := load(b); !errors.Is(err, durable.ErrNewerVersion) {
		t.Errorf("image: %v", err)
	}

	// A codec or a filter of the future, under a right checksum.
	c, err := openContainer(k.fs, func() string { replace(t, k, name, good); return name }())
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*extentRec){
		"codec 77": func(e *extentRec) { e.codec = 77 },
		"filter 9": func(e *extentRec) { e.filter = 9 },
	} {
		w := writer{path: name, payload: c.trailer.indexOffset, index: *c.index}
		w.index.extents = append([]extentRec(nil), c.index.extents...)
		change(&w.index.extents[0])
		b = append(bytes.Clone(good[:w.payload]), w.tail()...)
		m.Files[0].IndexBlake3 = fmt.Sprintf("%x", w.trailer.digest)
		err := load(b)
		if !errors.Is(err, ErrUnsupported) || !bytes.Contains([]byte(err.Error()), []byte(what+" is not supported by this version")) {
			t.Errorf("%s: %v", what, err)
		}
	}

	manifest := fmt.Appendf(nil, "%s%d\n{\"format\": 2}\n", manifestMagic, 2)
	replace(t, k, k.job.manifestPath(2), sealed(manifest))
	if _, err := k.job.Manifest(2); !errors.Is(err, durable.ErrNewerVersion) {
		t.Errorf("manifest: %v", err)
	}

	replace(t, k, "/store/"+formatName, []byte("ckpt-store 2\n"))
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

// TestIndexRejects hands the decoder indexes whose checksums are right but that
// make no sense.
func TestIndexRejects(t *testing.T) {
	k, m := damageJob(t)
	name := filepath.Join(k.job.dir, m.Files[1].Path)
	c, err := openContainer(k.fs, name)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*index){
		"overlap": func(x *index) {
			x.extents[1].fileOff = blockSize
			x.extents[0].fileRef = 0
			x.extents[0].fileOff = blockSize
		},
		"no cover":         func(x *index) { x.regions[0].size += zones.PageSize },
		"wrong count":      func(x *index) { x.regions[0].extents = 7 },
		"region":           func(x *index) { x.extents[0].region = 9 },
		"order":            func(x *index) { x.extents[0], x.extents[1] = x.extents[1], x.extents[0] },
		"file":             func(x *index) { x.extents[0].fileRef = 2 },
		"flags":            func(x *index) { x.extents[0].flags = 1 },
		"misplaced":        func(x *index) { x.extents[1].fileOff = 1 },
		"outside":          func(x *index) { x.extents[1].fileOff = 1 << 50 },
		"in header":        func(x *index) { x.extents[1].fileOff = 0 },
		"length":           func(x *index) { x.extents[1].rawLen = 0 },
		"large":            func(x *index) { x.extents[1].rawLen = 1 << 31; x.extents[1].storedLen = 1 << 31 },
		"stored":           func(x *index) { x.extents[1].storedLen-- },
		"absolute":         func(x *index) { x.files[0].path = "/etc/passwd" },
		"up":               func(x *index) { x.files[0].path = "../other/0001/rank-0.img" },
		"up inside":        func(x *index) { x.files[0].path = "0001/../../x" },
		"dot dot":          func(x *index) { x.files[0].path = "0001/.." },
		"manifest":         func(x *index) { x.files[0].path = "0001/manifest" },
		"no path":          func(x *index) { x.files[0].path = "" },
		"same name":        func(x *index) { x.regions[1].name = x.regions[0].name },
		"zone":             func(x *index) { x.regions[1].zone = 9 },
		"element":          func(x *index) { x.regions[1].elem = 9 },
		"huge region":      func(x *index) { x.regions[1].size = -1 },
		"header of others": func(x *index) { x.header[0]++ },
	} {
		w := writer{path: name, payload: c.trailer.indexOffset, index: index{
			header:  c.index.header,
			regions: append([]regionRec(nil), c.index.regions...),
			files:   append([]fileRec(nil), c.index.files...),
			extents: append([]extentRec(nil), c.index.extents...),
		}}
		change(&w.index)
		payload, err := durable.ReadFile(k.fs, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, k, "/bad.img", append(payload[:w.payload:w.payload], w.tail()...))
		_, err = openContainer(k.fs, "/bad.img")
		if !errors.As(err, new(*durable.DamageError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
