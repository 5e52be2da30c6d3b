package image

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"ckpt/image/codec"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// TestGroupMemory checks that a rank needs no more memory than the buffer it was
// given and 64 MiB, however much it has to write.
func TestGroupMemory(t *testing.T) {
	if testkit.Enabled {
		t.Skip("the race detector needs memory of its own")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(5)) // else it is the collector that takes time and memory
	const each, buffer, allowance = 128 << 20, 8 << 20, 64 << 20
	ranks := 2
	if testkit.Nightly() {
		ranks = 4
	}
	var sources []plan.Source
	memory := make([][]zones.Region, ranks)
	for i := range memory {
		sources = append(sources, plan.Source{Rank: i, Node: 2 * i / ranks})
		memory[i] = []zones.Region{region("u", zones.Data, each, uint64(i+1))}
		for at := 0; at < each; at += 8 { // what compresses has to be staged
			binary.LittleEndian.PutUint64(memory[i][0].Mem[at:], uint64(at))
		}
	}
	for _, layout := range []plan.Layout{plan.Aggregated, plan.Shared} {
		for _, setting := range []codec.Setting{codec.UseNone, codec.UseZstd} {
			t.Run(fmt.Sprintf("%s/%v", layout, setting), func(t *testing.T) {
				store, err := CreateStore(vfs.OS{}, t.TempDir()+"/store")
				if err != nil {
					t.Fatal(err)
				}
				g := &groupJob{fs: vfs.OS{}, ranks: sources, codec: setting,
					settings: plan.Settings{Layout: layout, Buffer: buffer, P1: true, P2: true}}
				if g.job, err = store.CreateJob(testJob, nil); err != nil {
					t.Fatal(err)
				}
				debug.FreeOSMemory() // what earlier tests left over is not the group's
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if _, err := g.take(context.Background(), 1, 0, memory); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				extra := int64(after.HeapSys-after.HeapReleased) - int64(before.HeapSys-before.HeapReleased)
				t.Logf("%d MiB for %d ranks", extra>>20, ranks)
				if extra > int64(ranks*(buffer+allowance)) {
					t.Errorf("%d ranks took %d MiB, want %d at most", ranks, extra>>20, ranks*(buffer+allowance)>>20)
				}
			})
		}
	}
}
