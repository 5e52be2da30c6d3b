package container

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

// goldenImage returns an image of rank 1 that refers to an earlier one, and its
// bytes up to the index.
func goldenImage(t *testing.T) (*container, []byte) {
	t.Helper()
	const name = "../testdata/store/jobs/bt.S.2/0002/rank-1.img"
	c, err := openContainer(vfs.OS{}, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return c, b[:c.trailer.indexOffset]
}

func copyOf(x *index) *index {
	return &index{header: x.header, regions: slices.Clone(x.regions), files: slices.Clone(x.files), extents: slices.Clone(x.extents)}
}

// fileOf returns a file system with the file /x.
func fileOf(t *testing.T, b []byte) vfs.FS {
	t.Helper()
	m := memfs.New()
	if err := durable.Replace(m, "/x", b); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNewerCodec reads a codec or a filter of the future, under a right checksum.
func TestNewerCodec(t *testing.T) {
	c, payload := goldenImage(t)
	for what, change := range map[string]func(*extentRec){
		"codec 77": func(e *extentRec) { e.codec = 77 },
		"filter 9": func(e *extentRec) { e.filter = 9 },
	} {
		x := copyOf(c.index)
		change(&x.extents[0])
		end := x.tail(c.trailer.indexOffset)
		b := append(payload[:len(payload):len(payload)], end.bytes...)
		place := Place{FS: fileOf(t, b), Dir: "/", Job: c.header.Job}
		err := place.Load(context.Background(), File{Path: "x", Kind: KindRank, Bytes: int64(len(b)), IndexBlake3: hexDigest(end.trailer.digest)}, 1, nil, LoadOptions{})
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), what+" is not supported by this version") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestIndexRejects hands the decoder indexes whose checksums are right but that
// make no sense.
func TestIndexRejects(t *testing.T) {
	c, payload := goldenImage(t)
	for what, change := range map[string]func(*index){
		"overlap": func(x *index) {
			x.extents[1].fileOff = BlockSize
			x.extents[0].fileRef = 0
			x.extents[0].fileOff = BlockSize
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
		"element":          func(x *index) { x.regions[1].elem = 200 },
		"huge region":      func(x *index) { x.regions[1].size = -1 },
		"header of others": func(x *index) { x.header[0]++ },
	} {
		x := copyOf(c.index)
		change(x)
		tail := x.tail(c.trailer.indexOffset).bytes
		_, err := openContainer(fileOf(t, append(payload[:len(payload):len(payload)], tail...)), "/x")
		if !errors.As(err, new(*durable.DamageError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
