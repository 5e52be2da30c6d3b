package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// checkExtract extracts every region of a rank and compares it with the memory.
func checkExtract(j *Job, m *Manifest, rank int, memory []zones.Region) error {
	arrays, err := j.Arrays(m, rank)
	if err != nil {
		return err
	}
	for _, want := range memory {
		a, err := FindArray(arrays, want.Name)
		if err != nil {
			return err
		}
		var got bytes.Buffer
		if _, err := j.Extract(context.Background(), m, a, &got, nil); err != nil {
			return err
		}
		if !bytes.Equal(got.Bytes(), want.Mem[:want.Size]) {
			return fmt.Errorf("region %s of rank %d is not what was stored", want.Name, rank)
		}
	}
	return nil
}

// TestExtract reads arrays out of files per rank, of the node's segment, of the
// library and of an earlier checkpoint. TestGroupAnySettings reads them out of shared and
// aggregated files.
func TestExtract(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	for n := 1; n <= 2; n++ {
		m, err := k.take(n)
		if err != nil {
			t.Fatal(err)
		}
		for rank, own := range [][]zones.Region{rankRegions(n, 0), deltaRegions(n)} {
			all := append(append(own, sharedRegions(n)...), libraryRegions()...)
			if err := checkExtract(k.job, m, rank, all); err != nil {
				t.Errorf("checkpoint %d: %v", n, err)
			}
		}
		if _, err := k.job.Arrays(m, 2); !errors.Is(err, ErrRankNotFound) {
			t.Errorf("arrays of a rank that is not there: %v", err)
		}
	}
}

// TestExtractFindsDamage flips a bit of the array.
func TestExtractFindsDamage(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	m, err := k.take(1)
	if err != nil {
		t.Fatal(err)
	}
	arrays, err := k.job.Arrays(m, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, err := FindArray(arrays, "u")
	if err != nil {
		t.Fatal(err)
	}
	f, err := k.fs.OpenWrite(k.job.dir + "/" + a.File)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, container.BlockSize+100); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, container.BlockSize+100); err != nil {
		t.Fatal(err)
	}
	if _, err := k.job.Extract(context.Background(), m, a, new(bytes.Buffer), nil); !errors.As(err, new(*durable.DamageError)) {
		t.Errorf("damage was not found: %v", err)
	}
}

// TestExtractReadsNoMore counts what is read for an array whose extents lie between
// those of other ranks: header, index, trailer and the array, and the holes only where
// the storage reads them faster than it makes calls.
func TestExtractReadsNoMore(t *testing.T) {
	t.Parallel()
	const ranks, stripe, size = 4, 64 << 10, 8 * extentBytes
	var sources []plan.Source
	memory := make([][]zones.Region, ranks)
	for i := range memory {
		sources = append(sources, plan.Source{Rank: i})
		memory[i] = []zones.Region{region("before", zones.Data, size, uint64(i+1)), region("u", zones.Data, size, uint64(i+100)),
			region("after", zones.Data, size, uint64(i+200))}
	}
	for _, c := range []struct {
		name      string
		storage   Storage
		mostHoles int64
	}{
		{"calls are cheap", Storage{Bandwidth: 1 << 30, Call: time.Nanosecond}, 0},
		{"calls are dear", Storage{Bandwidth: 1 << 30, Call: time.Second}, size},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroupJob(t, sources, plan.Settings{Layout: plan.Shared, StripeSize: stripe, P1: true, P2: true}, codec.UseNone, true)
			m := changedPages(t, g, memory)
			store, err := OpenStore(g.fs, "/store")
			if err != nil {
				t.Fatal(err)
			}
			if err := store.SetStorage(c.storage); err != nil {
				t.Fatal(err)
			}
			job, err := store.Job(testJob)
			if err != nil {
				t.Fatal(err)
			}
			arrays, err := job.Arrays(m, 2)
			if err != nil {
				t.Fatal(err)
			}
			a, err := FindArray(arrays, "u")
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			reads, err := job.Extract(context.Background(), m, a, &got, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), memory[2][1].Mem[:size]) {
				t.Error("the array is not what was stored")
			}
			must := int64(size) + overhead(t, job, m, 1) + overhead(t, job, m, 2)
			t.Logf("%d calls, %d bytes; the array and what describes it have %d", reads.Calls, reads.Bytes, must)
			if reads.Bytes < must || reads.Bytes > must+c.mostHoles {
				t.Errorf("%d bytes were read, want %d and at most %d of holes", reads.Bytes, must, c.mostHoles)
			}
			if joined := reads.Bytes > must; joined != (c.mostHoles > 0) {
				t.Errorf("holes were read: %t, want %t", joined, c.mostHoles > 0)
			}
		})
	}
}

// changedPages takes a complete checkpoint and one in which every second extent of
// each array has changed, so that the others lie in the first, with holes between.
func changedPages(t *testing.T, g *groupJob, memory [][]zones.Region) *Manifest {
	t.Helper()
	ctx := context.Background()
	if _, err := g.take(ctx, 1, 0, memory); err != nil {
		t.Fatal(err)
	}
	for _, regions := range memory {
		for _, r := range regions {
			for at := 0; at < len(r.Mem); at += 2 * extentBytes {
				r.Mem[at] ^= 1
			}
		}
	}
	m, err := g.take(ctx, 2, 1, memory)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// overhead returns the bytes of header, index and trailer of the file of a checkpoint.
func overhead(t *testing.T, j *Job, m *Manifest, number int) int64 {
	t.Helper()
	if number != m.Number {
		var err error
		if m, err = j.Manifest(number); err != nil {
			t.Fatal(err)
		}
	}
	return overheadOf(t, j, m.Files[0])
}
