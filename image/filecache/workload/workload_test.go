package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"ckpt/image/filecache"
	"ckpt/internal/vfs/memfs"
)

func cache(nodes int) *filecache.Cache {
	c := &filecache.Cache{Store: filecache.Store{FS: memfs.New(), Dir: "/store"}}
	for range nodes {
		c.Nodes = append(c.Nodes, filecache.Node{FS: memfs.New(), Dir: "/nvme"})
	}
	return c
}

func contents(t *testing.T, s filecache.Store, name string) []byte {
	t.Helper()
	f, err := s.FS.Open(s.Dir + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _ := f.Size()
	b := make([]byte, n)
	if k, err := f.ReadAt(b, 0); int64(k) < n {
		t.Fatal(err)
	}
	return b
}

// TestTargetsAgree: a workload leaves the same bytes in the plain file and in the cache
// with any levels.
func TestTargetsAgree(t *testing.T) {
	processes := []int{0, 1, 1, 2, 2}
	runs := map[string]func(Target) (Result, error){
		"walk": func(to Target) (Result, error) {
			return Walk{Iterations: 40, Size: 5000, Bytes: 33, Steps: 10, SyncEvery: 15, Seed: 3}.Run(context.Background(), to)
		},
	}
	for _, place := range []Place{Anywhere, Own, Hot} {
		runs["blocks "+string(place)] = func(to Target) (Result, error) {
			return Blocks{Requests: 103, Bytes: 50, Write: true, Place: place, Seed: 4}.Run(context.Background(), to)
		}
	}
	for name, run := range runs {
		plain := cache(1)
		want, err := run(Plain(plain.Store, len(processes), true))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []filecache.Levels{{}, {Records: true, Replicas: 1}, {Versions: true}} {
			c := cache(3)
			got, err := run(Cached(c, filecache.Options{Levels: l, Processes: processes}))
			if err != nil {
				t.Fatal(err)
			}
			file := Name
			if l.Versions {
				n, _ := c.Versions(Name)
				file = fmt.Sprintf("%s.v%04d", Name, n[len(n)-1])
			}
			if !bytes.Equal(contents(t, c.Store, file), contents(t, plain.Store, Name)) {
				t.Errorf("%s, %+v: other bytes than in the plain file", name, l)
			}
			if got.Requests != want.Requests || got.Bytes != want.Bytes || got.Syncs != want.Syncs {
				t.Errorf("%s: %+v, plain %+v", name, got, want)
			}
		}
	}
}

// TestReadsAreCompared: blocks that were not written as they should be are an error.
func TestReadsAreCompared(t *testing.T) {
	for _, to := range []Target{Plain(cache(1).Store, 2, false), Cached(cache(2), filecache.Options{Processes: []int{0, 1}})} {
		b := Blocks{Requests: 20, Bytes: 9, Seed: 5}
		for _, place := range []Place{Anywhere, Own, Hot} {
			b.Place = place
			r, err := b.Run(context.Background(), to)
			if err != nil || r.Requests != 20 || r.Bytes != 180 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	}
	c := cache(1)
	to := Plain(c.Store, 1, false)
	if _, err := (Blocks{Requests: 20, Bytes: 9, Write: true}).Run(context.Background(), to); err != nil {
		t.Fatal(err)
	}
	f, _ := c.Store.FS.OpenWrite("/store/" + Name)
	_, _ = f.WriteAt([]byte{1, 2, 3}, 30)
	o, err := to.open(context.Background(), Name, 180, false)
	if err != nil {
		t.Fatal(err)
	}
	defer o.abort()
	if err := (Blocks{Requests: 20, Bytes: 9}).request(o.files[0], 3); err == nil {
		t.Error("wrong bytes were not noticed")
	}
}

func TestBadWorkloads(t *testing.T) {
	to := Plain(cache(1).Store, 2, false)
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := (Walk{Iterations: 1, Size: 100, Bytes: 51}).Run(ctx, to); err == nil {
		t.Error("two processes share one block")
	}
	if _, err := (Blocks{Requests: 1, Bytes: 1}).Run(ctx, to); err == nil {
		t.Error("one request for two processes")
	}
	cancel()
	if _, err := (Blocks{Requests: 10, Bytes: 1, Write: true}).Run(ctx, to); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
