package image

import (
	"context"
	"path/filepath"
	"testing"

	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// side commits a checkpoint of one rank with one region whose pages begin with these
// letters, in extents of so many pages.
func side(t *testing.T, k *taker, number int, pages string, extent int, history *container.History) Side {
	t.Helper()
	r := zones.Region{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: int64(len(pages)) * zones.PageSize}
	r.Mem = vfs.Aligned(int(r.Size))
	for i, c := range []byte(pages) {
		r.Mem[i*zones.PageSize] = c
	}
	tx, err := k.job.Begin(number)
	if err != nil {
		t.Fatal(err)
	}
	name := tx.RankPath(0)
	info, err := container.Write(context.Background(), k.fs, name, container.Header{Job: testJob, Number: number, Kind: container.KindRank}, []zones.Region{r},
		container.WriteOptions{Depth: 1, ExtentBytes: extent * zones.PageSize, History: history})
	if err != nil {
		t.Fatal(err)
	}
	m := testManifest(number)
	rel, _ := filepath.Rel(k.job.dir, name)
	m.Files = []container.File{{Path: rel, Kind: container.KindRank, Ranks: []int{0}, Bytes: info.Bytes, IndexBlake3: info.IndexBlake3}}
	m.Ranks = []Rank{{File: rel}, {Rank: 1}}
	if err := tx.Commit(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	return Side{k.job, m}
}

// TestDiffByPage compares checkpoints whose extents are cut in different ways, and
// pages that lie at other places in them. Without a history no extent has an
// identity, and their places in the files are the same.
func TestDiffByPage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b       string
		cutA, cutB int // pages of an extent
		identify   bool
		want       Change // in pages
	}{
		"same":             {a: "abcdef", b: "abcdef", cutA: 2, cutB: 3, want: Change{Unchanged: 6}},
		"one page":         {a: "abcdef", b: "abcdxf", cutA: 2, cutB: 2, want: Change{Unchanged: 5, Changed: 1}},
		"other cuts":       {a: "abcdef", b: "abxdef", cutA: 2, cutB: 3, identify: true, want: Change{Unchanged: 5, Changed: 1}},
		"moved":            {a: "..xy.", b: "...xy", cutA: 2, cutB: 3, identify: true, want: Change{Unchanged: 2, Changed: 3}},
		"shorter":          {a: "abcdefgh", b: "abc", cutA: 4, cutB: 3, want: Change{Unchanged: 3, Gone: 5}},
		"longer":           {a: "abc", b: "abcdefgh", cutA: 3, cutB: 4, want: Change{Unchanged: 3, New: 5}},
		"only same places": {a: "abcd", b: "efgh", cutA: 4, cutB: 4, want: Change{Changed: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			history := func() *container.History {
				if c.identify {
					return container.NewHistory()
				}
				return nil
			}
			k := memJob(t)
			a, b := side(t, k, 1, c.a, c.cutA, history()), side(t, k, 2, c.b, c.cutB, history())
			list, err := Diff(context.Background(), a, b, nil)
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			got := list[0].Change
			for _, n := range []*int64{&got.Unchanged, &got.Changed, &got.New, &got.Gone} {
				*n /= zones.PageSize
			}
			if got != c.want {
				t.Errorf("%+v pages, want %+v", got, c.want)
			}
		})
	}
}
