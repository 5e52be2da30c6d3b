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

// TestIndexCopy damages the index of a container that is too large for a copy in the trailer, its
// copy, the trailer, and some of them together: whatever proves the index sound is read.
func TestIndexCopy(t *testing.T) {
	m := memfs.New()
	if err := m.Mkdir("/0001"); err != nil {
		t.Fatal(err)
	}
	place := Place{FS: m, Dir: "/", Job: "job"}
	b, err := place.Build("/0001/x", Header{Job: "job", Number: 1, Rank: 0, Node: 0, Kind: KindRank}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const extents = 200 // their records fill more than three pages
	if err := b.Region("data", zones.Data, extents*zones.PageSize); err != nil {
		t.Fatal(err)
	}
	for i := range extents {
		page := aligned(zones.PageSize)
		page[0], page[1] = 1, byte(i)
		if _, err := b.Extent(page, ID{}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := b.Close()
	if err != nil {
		t.Fatal(err)
	}
	size := info.Bytes
	sound, err := durable.ReadFile(m, "/0001/x", 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	c, err := openContainer(m, "/0001/x")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	tr := c.trailer
	first, second, end := tr.indexOffset, tr.indexOffset+zones.PageRound(tr.indexLen), size-BlockSize
	if tr.copies != inPages || second+zones.PageRound(tr.indexLen) != end {
		t.Fatalf("the index is at %d, its copy at %d, the trailer at %d", first, second, end)
	}
	f := File{Path: "0001/x", Kind: KindRank, Bytes: size, IndexBlake3: hexDigest(tr.digest)}
	for what, c := range map[string]struct {
		at   []int64
		lost bool
	}{
		"two bytes of the index":         {at: []int64{first + 50, first + 900}},
		"two bytes of the copy":          {at: []int64{second + 50, second + 900}},
		"trailer":                        {at: []int64{end + 20}},
		"trailer and index":              {at: []int64{end + 20, first + 50, first + 900}},
		"trailer and start of the index": {at: []int64{end + 20, first}},
		"trailer and start of the copy":  {at: []int64{end + 20, second}},
		"trailer and end of the copy":    {at: []int64{end + 20, second + tr.indexLen - 80, second + tr.indexLen - 99}},
		"both":                           {at: []int64{first + 50, first + 900, second + 50, second + 900}, lost: true},
		"padding of the copy":            {at: []int64{end - 1}},
	} {
		b := slices.Clone(sound)
		for _, at := range c.at {
			b[at] ^= 0x55
		}
		if err := durable.Replace(m, "/0001/x", b); err != nil {
			t.Fatal(err)
		}
		into := zones.Region{Name: "data", Zone: zones.Data, Size: extents * zones.PageSize, Mem: aligned(extents * zones.PageSize)}
		err := place.Load(t.Context(), f, 0, []zones.Region{into}, LoadOptions{})
		if c.lost != (err != nil) || !c.lost && into.Mem[100*zones.PageSize+1] != 100 {
			t.Errorf("%s: %v", what, err)
		}
		if err := place.Check(t.Context(), f, nil); !errors.As(err, new(*durable.DamageError)) {
			t.Errorf("%s: verified with %v", what, err)
		}
	}
}
