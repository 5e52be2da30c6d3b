package image

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"path/filepath"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"ckpt/image/codec"
	"ckpt/image/filecache"
	"ckpt/image/plan"
	"ckpt/internal/race"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/faultfs"
	"ckpt/internal/vfs/memfs"
	"ckpt/zones"
)

// throughCache has the ranks of a job write through a cache on their nodes, which it
// returns.
func throughCache(g *groupJob, store vfs.FS, levels filecache.Levels, room int64) *filecache.Cache {
	c := &filecache.Cache{Store: filecache.Store{FS: store, Dir: "/store"}}
	var nodes []int
	for _, r := range g.ranks {
		nodes = append(nodes, r.Node)
		for r.Node >= len(c.Nodes) {
			c.Nodes = append(c.Nodes, filecache.Node{FS: memfs.New(), Dir: "/nvme"})
		}
	}
	opt := filecache.Options{Size: room, Levels: levels, Processes: nodes}
	files := filecache.NewFiles(c, opt, func(string) bool { return true })
	g.of = files.Of
	return c
}

// TestCheckpointsThroughFileCache: ranks that write files together may do so through a
// cache on their nodes. The store gets the same bytes, and the nodes keep nothing.
func TestCheckpointsThroughFileCache(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	was := checks.Value.String()
	t.Cleanup(func() { _ = checks.Value.Set(was) })
	count := "12" // each writes everything twice
	switch {
	case race.Enabled:
		count = "8"
	case race.Nightly():
		count = "25"
	}
	if err := checks.Value.Set(count); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		ranks := genRanks(t)
		layout := rapid.SampledFrom([]plan.Layout{plan.Aggregated, plan.Shared}).Draw(t, "layout")
		memory, room := make([][]zones.Region, len(ranks)), int64(6<<20)
		for i := range memory {
			memory[i] = genRegions(t)
			for _, r := range memory[i] {
				room += 2 * int64(len(r.Mem))
			}
		}
		s := genGroupSettings(t, layout, 64<<10, len(ranks))
		incremental := rapid.Bool().Draw(t, "incremental")
		plain := newGroupJob(t, ranks, s, codec.UseNone, incremental)
		g := newGroupJob(t, ranks, s, codec.UseNone, incremental)
		levels := filecache.Levels{Volatile: true}
		if rapid.IntRange(0, 9).Draw(t, "records") == 0 {
			levels = filecache.Levels{Records: true}
		}
		c := throughCache(g, g.fs, levels, room)
		for number := range rapid.IntRange(1, 2).Draw(t, "checkpoints") {
			was := copyOf(memory)
			m, err := g.take(ctx, number+1, number, memory)
			if err != nil {
				t.Fatal(err)
			}
			memory = was
			if err := g.check(m, memory); err != nil {
				t.Fatal(err)
			}
			if _, err := plain.take(ctx, number+1, number, memory); err != nil {
				t.Fatal(err)
			}
			for _, f := range m.Files {
				name := filepath.Join("/store/jobs", testJob, f.Path)
				if !bytes.Equal(fileBytes(t, g.fs, name), fileBytes(t, plain.fs, name)) {
					t.Fatalf("%s has other bytes than without the cache", f.Path)
				}
			}
			for i, n := range c.Nodes {
				if list, err := n.FS.ReadDir(n.Dir); err == nil && len(list) > 0 {
					t.Fatalf("node %d still has %s", i, list[0].Name())
				}
			}
			change(t, memory)
		}
	})
}

// TestCachedCheckpointFails: if the store fails behind the cache, the checkpoint is not
// committed, and no rank waits for ever.
func TestCachedCheckpointFails(t *testing.T) {
	t.Parallel()
	ranks := groupRanks()
	s := groupLayouts()["shared"]
	memory := make([][]zones.Region, len(ranks))
	for i := range memory {
		memory[i] = []zones.Region{{Name: "a", Zone: zones.Data, Size: 73 * zones.PageSize, Mem: bytes.Repeat([]byte{byte(i)}, 73*zones.PageSize)}}
	}
	total := 0
	for at := 0; at <= total; at += max(1, total/25) {
		g := newGroupJob(t, ranks, s, codec.UseNone, false)
		store := faultfs.New(g.fs, faultfs.Fault{At: at, Err: syscall.EIO})
		throughCache(g, store, filecache.Levels{Volatile: true}, 4<<20)
		m, err := g.take(context.Background(), 1, 0, memory)
		if at == 0 {
			total = len(store.Ops())
		}
		if err == nil {
			if err := g.check(m, memory); err != nil {
				t.Fatalf("operation %d: %v", at, err)
			}
			continue
		}
		if at == 0 || !errors.Is(err, syscall.EIO) {
			t.Fatalf("operation %d of %d: %v", at, total, err)
		}
		if list, err := g.job.Checkpoints(); err != nil || len(list) > 0 {
			t.Fatalf("operation %d: checkpoints %v, %v", at, list, err)
		}
	}
}
