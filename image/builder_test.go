package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// pages makes memory out of pages with these contents; 0 is a page of zeros.
func pages(contents ...byte) []byte {
	b := vfs.Aligned(len(contents) * zones.PageSize)
	for i, c := range contents {
		for k := range zones.PageSize {
			b[i*zones.PageSize+k] = c
			if c != 0 {
				b[i*zones.PageSize+k] ^= byte(k * int(c))
			}
		}
	}
	return b
}

// built takes checkpoint number of a job of two ranks with Builders: heaps are
// the pages of their data, lib is the same in both.
func built(t *testing.T, k *taker, pool *container.Pool, number int, heaps [2][]byte, lib []byte) *Manifest {
	t.Helper()
	tx, err := k.job.Begin(number)
	if err != nil {
		t.Fatal(err)
	}
	m := testManifest(number)
	m.Origin = "dmtcp"
	build := func(name string, h container.Header) *container.Builder {
		h.Job, h.Number = testJob, number
		b, err := tx.Build(name, h, pool)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	closed := func(b *container.Builder, h container.Header, ranks ...int) {
		t.Helper()
		info, err := b.Close()
		check(err)
		rel, _ := filepath.Rel(k.job.Dir(), info.Path)
		m.Files = append(m.Files, container.File{Path: rel, Kind: h.Kind, Ranks: ranks, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3})
	}
	libHeader := container.Header{Kind: container.KindLibrary, Rank: -1, Node: -1}
	pack := build(tx.LibraryPath(), libHeader)
	check(pack.Region("extents", zones.Library, 0))
	var ranks []*container.Builder
	for r, heap := range heaps {
		b := build(tx.RankPath(r), container.Header{Kind: container.KindRank, Rank: r})
		ranks = append(ranks, b)
		check(b.Region("heap", zones.Data, int64(len(heap))))
		for ; len(heap) > 0; heap = heap[zones.PageSize:] {
			if page := heap[:zones.PageSize]; codec.IsZero(page) {
				check(b.Zeros(zones.PageSize))
			} else {
				_, err := b.Extent(page, container.IDOf(page))
				check(err)
			}
		}
		check(b.Region("lib", zones.Library, int64(len(lib))-100))
		stored, err := b.Share(lib, container.IDOf(lib), pack)
		check(err)
		if stored != (number == 1 && r == 0) {
			t.Errorf("checkpoint %d, rank %d: library stored: %v", number, r, stored)
		}
	}
	closed(pack, libHeader, 0, 1)
	for r, b := range ranks {
		closed(b, container.Header{Kind: container.KindRank}, r)
		m.Ranks = append(m.Ranks, Rank{Rank: r, File: m.Files[r+1].Path})
	}
	check(tx.Commit(context.Background(), m))
	return m
}

func contents(t *testing.T, j *Job, m *Manifest, file string, region int) []byte {
	t.Helper()
	c, err := j.Open(m, file)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out bytes.Buffer
	r := c.Region(region)
	size := c.Regions[region].Size
	for at := int64(0); at < size; at += 5000 { // across extents
		if err := r.Copy(context.Background(), &out, at, min(at+5000, size), nil); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestBuilder(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	lib := pages(9, 8, 0, 7)
	heaps := [][2][]byte{
		{pages(1, 2, 0, 0, 3, 1), pages(4, 2, 5)},
		{pages(1, 6, 0, 2, 3), pages(4, 2, 5, 6)},
	}
	pool := container.NewPool()
	var ms []*Manifest
	for i, h := range heaps {
		if i == 1 { // as another process that only has the store
			pool = container.NewPool()
			if err := k.job.AddTo(pool, ms[0]); err != nil {
				t.Fatal(err)
			}
		}
		ms = append(ms, built(t, k, pool, i+1, h, lib))
	}
	// Page 2 of rank 1 lies with rank 0, its page 1 once for two places; the
	// second checkpoint adds page 6 only.
	for i, want := range []int64{(3 + 2 + 4) * zones.PageSize, zones.PageSize} {
		got := ms[i].StoredBytes
		for _, f := range ms[i].Files {
			got -= overheadOf(t, k.job, f)
		}
		if got != want {
			t.Errorf("checkpoint %d holds %d bytes of payload, want %d", i+1, got, want)
		}
	}
	intact := func(i int) {
		t.Helper()
		for r, heap := range heaps[i] {
			name := ms[i].Ranks[r].File
			if !bytes.Equal(contents(t, k.job, ms[i], name, 0), heap) || !bytes.Equal(contents(t, k.job, ms[i], name, 1), lib[:len(lib)-100]) {
				t.Errorf("checkpoint %d, rank %d does not hold what was written", i+1, r)
			}
			into := []zones.Region{
				{Name: "heap", Zone: zones.Data, Size: int64(len(heap)), Mem: pages(make([]byte, len(heap)/zones.PageSize)...)},
				{Name: "lib", Zone: zones.Library, Size: int64(len(lib)) - 100, Mem: pages(5, 5, 5, 5)},
			}
			if err := k.job.Load(context.Background(), ms[i], name, r, into, container.LoadOptions{}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(into[0].Mem, heap) || !bytes.Equal(into[1].Mem, lib) {
				t.Errorf("checkpoint %d, rank %d: Load gives other bytes", i+1, r)
			}
		}
		if rep, err := k.job.Verify(context.Background(), i+1, nil); err != nil || len(rep.Damage) > 0 {
			t.Errorf("verify: %v, %v", rep.Damage, err)
		}
	}
	intact(0)
	intact(1)

	changes, err := Diff(context.Background(), Side{k.job, ms[0]}, Side{k.job, ms[1]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const p = zones.PageSize
	want := []Change{{Unchanged: 2 * p, Changed: 2 * p, Gone: p}, {Unchanged: 4 * p}, {Unchanged: 3 * p, New: p}, {Unchanged: 4 * p}}
	for i, c := range changes {
		if i >= len(want) || c.Change != want[i] {
			t.Errorf("change %d: %+v", i, c)
		}
	}
	if len(changes) != len(want) {
		t.Errorf("%d regions compared, want %d", len(changes), len(want))
	}

	// Files of the first that the second needs stay when the first is pruned.
	if removed, _, err := k.job.Prune(1); err != nil || len(removed) != 1 {
		t.Fatalf("pruned %v, %v", removed, err)
	}
	intact(1)
	// Damage in the first one's library is found through the second.
	pack := filepath.Join(k.job.Dir(), ms[0].Files[0].Path)
	b, err := durable.ReadFile(k.fs, pack, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b[2*container.BlockSize] ^= 4
	replace(t, k, pack, b)
	rep, err := k.job.Verify(context.Background(), 2, nil)
	if err != nil || len(rep.Damage) != 1 || rep.Damage[0].File != pack {
		t.Errorf("verify: %v, %v", rep.Damage, err)
	}
}

func TestBuilderRefuses(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	tx, err := k.job.Begin(1)
	if err != nil {
		t.Fatal(err)
	}
	pool := container.NewPool()
	h := container.Header{Job: testJob, Number: 1, Kind: container.KindRank}
	for what, use := range map[string]func(b, other *container.Builder) error{
		"a region that is not covered": func(b, _ *container.Builder) error {
			return errors.Join(b.Region("r", zones.Data, 2*zones.PageSize), b.Zeros(zones.PageSize))
		},
		"an extent beyond its region": func(b, _ *container.Builder) error {
			return errors.Join(b.Region("r", zones.Data, 1), b.Zeros(2*zones.PageSize))
		},
		"part of a page": func(b, _ *container.Builder) error {
			_, err := b.Extent(make([]byte, 100), container.ID{1})
			return errors.Join(b.Region("r", zones.Data, 1), err)
		},
		"a region twice": func(b, _ *container.Builder) error {
			return errors.Join(b.Region("r", zones.Data, 0), b.Region("r", zones.Data, 0))
		},
		"a reference to an open file": func(b, other *container.Builder) error {
			page := pages(3)
			err := errors.Join(b.Region("r", zones.Data, 1), other.Region("x", zones.Data, 0))
			_, serr := b.Share(page, container.IDOf(page), other)
			return errors.Join(err, serr)
		},
	} {
		name := filepath.Join(tx.dir, "bad.img")
		b, err := tx.Build(name, h, pool)
		if err != nil {
			t.Fatal(err)
		}
		other, err := tx.Build(filepath.Join(tx.dir, "other.img"), h, pool)
		if err != nil {
			t.Fatal(err)
		}
		err = use(b, other)
		_, cerr := b.Close()
		if err == nil && cerr == nil {
			t.Errorf("%s is accepted", what)
		}
		if err := errors.Join(b.Discard(), other.Discard()); err != nil {
			t.Error(err)
		}
		if entries, _ := k.fs.ReadDir(tx.dir); len(entries) > 0 {
			t.Errorf("%s: %s is left", what, entries[0].Name())
		}
	}
	if _, err := tx.Build(filepath.Join(tx.dir, "x.img"), container.Header{Kind: "tape"}, pool); err == nil || fmt.Sprint(err) == "" {
		t.Error("an unknown kind is accepted")
	}
}
